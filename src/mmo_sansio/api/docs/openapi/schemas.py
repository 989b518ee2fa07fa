"""The shapes of requests and answers as JSON Schema (2020-12), their limits and enums the code's own.

An example stands with each shape; they tell of one and the same payment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from mmo_sansio.api.docs.error_pages import example_problem
from mmo_sansio.api.incoming import creation_body
from mmo_sansio.api.outgoing.problem_json import INSTANCE_PREFIX
from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.http.egress_rules import URL_LENGTH_MAX
from mmo_sansio.values.clock import format_with_seconds
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import (
    Flow,
    Operation,
    Order,
    Party,
    Progress,
    ProviderData,
    Source,
    Stage,
    Status,
    Transaction,
    Type,
)
from mmo_sansio.values.money import AMOUNT_MAX, NUMBER_CHARACTERS_MAX, Money, percentage_of
from mmo_sansio.values.problems import PROBLEM_TYPES, VALIDATION_FAILED

Schema: TypeAlias = dict[str, Any]

NO_CONTROLS_PATTERN: Final = r"^[^\u0000-\u001f\u007f-\u009f]*$"
NOT_BLANK_PATTERN: Final = r"\S"
ULID_PATTERN: Final = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
CREATED_AT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\+00:00$"
TIMESTAMP_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$"
CURRENCY_PATTERN: Final = "^[A-Z]{3}$"

EXAMPLE_TRANSACTION: Final = Transaction(
    Order(
        gateway_reference="01KAJWT5RV3FX1QYP2Z4M0C9TB",
        brand="acme",
        type=Type.PAYIN,
        flow=Flow.DIRECT,
        method="mpesa_ke",
        country="KE",
        provider="mpesa",
        provider_title="M-Pesa",
        requested=Money(150_00, "KES"),
        party=Party("customer-7", "254700000007", "Ada", "Njeri", "ada@shop.example"),
        merchant_reference="order-1",
        reconciliation_reference="order-1",
        labels='{"basket":"b-17"}',
        result_url="https://shop.example/callbacks",
        created_at=1_795_250_096_123_456,
        expires_at=1_795_509_296_123_456,
    ),
    Progress(
        Stage.SUCCEEDED,
        3,
        None,
        provider_reference="QKJ8X2T5L1",
        final=Money(150_00, "KES"),
        completed_at=1_795_250_099_654_321,
        completion_source=Source.WEBHOOK,
        provider_data=ProviderData("mpesa", "M-Pesa", percentage_of(Money(150_00, "KES"), 1)),
    ),
)
"""A payment that has succeeded."""

EXAMPLE_OBJECT: Final[Mapping[str, Any]] = json.loads(transaction_object(EXAMPLE_TRANSACTION))


def schemas(error_docs_url: str) -> dict[str, Schema]:
    """Every shape, by its name in `components/schemas`."""
    return {
        "Money": _money(),
        "RequestedMoney": _requested_money(),
        "Party": _party(),
        "RequestedParty": _requested_party(),
        "RequestedLabels": _requested_labels(),
        **{request_name(each): _request(each) for each in Operation},
        "InitiatedPayment": _creation_response(),
        "InitiatedWebPayment": _web_creation_response(),
        "ProviderData": _provider_data(),
        "Transaction": _transaction(),
        "TransactionPage": _page(),
        "QrCode": _qr_code(),
        "Problem": _problem(error_docs_url),
    }


def ref(name: str) -> Schema:
    """A reference to one of the shapes."""
    return {"$ref": f"#/components/schemas/{name}"}


def request_name(operation: Operation) -> str:
    """The name of an operation's body: `DirectPayinRequest`."""
    return "".join(part.capitalize() for part in operation.value.split("/")) + "Request"


def request_example(operation: Operation) -> dict[str, Any]:
    """A good body for this operation."""
    members: dict[str, Any] = {"amount": {"value": 150.00, "currency": "KES"}}
    if operation in creation_body.PARTY_NAMES:
        members[creation_body.PARTY_NAMES[operation]] = {
            "id": "customer-7",
            "msisdn": "254700000007",
        }
    members |= {
        "country": "KE",
        "resultUrl": EXAMPLE_TRANSACTION.order.result_url,
        "merchantReference": "order-1",
    }
    match operation:
        case Operation.QR_PAYIN:
            members["displayQrUrl"] = "https://shop.example/qr"
        case Operation.WEB_PAYIN:
            members["successRedirectUrl"] = "https://shop.example/thanks"
            members["errorRedirectUrl"] = "https://shop.example/sorry"
        case Operation.DIRECT_TAXPAYOUT:
            members["reconciliationReference"] = "vat-2026-10"
        case _:
            pass
    return members


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def text(description: str, *, max_length: int, min_length: int = 1, **keywords: Any) -> Schema:
    """A required text of a request: not blank, no control characters (G7, G8)."""
    lengths = {"minLength": min_length, "maxLength": max_length}
    return {
        "type": "string",
        "description": description,
        **lengths,
        "pattern": NOT_BLANK_PATTERN,
        **keywords,
    } | ({} if "pattern" in keywords else {"allOf": [{"pattern": NO_CONTROLS_PATTERN}]})


def optional_text(description: str, *, max_length: int) -> Schema:
    """An optional text of a request; null means absent (G4)."""
    pattern = {"pattern": NO_CONTROLS_PATTERN}
    return {
        "type": ["string", "null"],
        "description": description,
        "maxLength": max_length,
        **pattern,
    }


def _object(description: str, properties: Schema, *, required: list[str] | None = None) -> Schema:
    return {
        "type": "object",
        "description": description,
        "required": list(properties) if required is None else required,
        "properties": properties,
    }


def _response_object(description: str, properties: Schema, example: Any) -> Schema:
    """An object of ours: exactly these members, nulls written out (T2)."""
    return _object(description, properties) | {"additionalProperties": False, "examples": [example]}


def _money() -> Schema:
    value = {"type": "number", "description": "With the currency's own number of decimals."}
    currency = {"type": "string", "pattern": CURRENCY_PATTERN, "description": "ISO 4217."}
    meaning = "An amount. Read `value` as a decimal, not as a binary floating point number."
    return _response_object(
        meaning, {"value": value, "currency": currency}, EXAMPLE_OBJECT["requestedAmount"]
    )


def _requested_money() -> Schema:
    value = {
        "type": "number",
        "description": "Greater than 0, at most 10^15, no more decimals than the currency has (KES 2, UGX 0,"
        f" KWD 3), at most {NUMBER_CHARACTERS_MAX} characters. A string is refused. The brand's limits for the"
        " method lie within.",
        "exclusiveMinimum": 0,
        "maximum": int(AMOUNT_MAX),
    }
    currency = {
        "type": "string",
        "description": "ISO 4217 in capitals; one that the brand has limits for.",
        "pattern": f"^{creation_body.CURRENCY_PATTERN}$",
    }
    return _object("The amount that is asked for.", {"value": value, "currency": currency})


def _party() -> Schema:
    members = {
        "id": {"type": "string", "description": "The merchant's identifier for the end user."},
        "msisdn": {
            "type": "string",
            "description": "The phone number, for `push` as the provider gave it.",
        },
        "firstName": {"type": ["string", "null"]},
        "lastName": {"type": ["string", "null"]},
        "email": {"type": ["string", "null"]},
    }
    return _response_object("Payer, payee or tax authority.", members, EXAMPLE_OBJECT["party"])


def _requested_party() -> Schema:
    members = {
        "id": text("Your identifier for the end user.", max_length=creation_body.TEXT_MAX),
        "msisdn": text(
            "The phone number in international format.",
            min_length=creation_body.MSISDN_MIN,
            max_length=creation_body.MSISDN_MAX,
            pattern=f"^{creation_body.MSISDN_PATTERN}$",
        ),
        "firstName": optional_text("Given name.", max_length=creation_body.TEXT_MAX),
        "lastName": optional_text("Family name.", max_length=creation_body.TEXT_MAX),
        "email": {
            "type": ["string", "null"],
            "description": "An e-mail address.",
            "maxLength": creation_body.EMAIL_MAX,
            "pattern": f"^{creation_body.EMAIL_PATTERN}$",
        },
    }
    return _object("Who pays, or who is paid.", members, required=["id", "msisdn"])


def _requested_labels() -> Schema:
    longest = 10**NUMBER_CHARACTERS_MAX
    return {
        "type": ["object", "null"],
        "description": "Your own metadata; comes back unchanged.",
        "maxProperties": creation_body.LABELS_MAX,
        "propertyNames": {
            "minLength": 1,
            "maxLength": creation_body.LABEL_KEY_MAX,
            "pattern": NO_CONTROLS_PATTERN,
        },
        "additionalProperties": {
            "anyOf": [
                {
                    "type": "string",
                    "maxLength": creation_body.LABEL_TEXT_MAX,
                    "pattern": NO_CONTROLS_PATTERN,
                },
                {
                    "type": "number",
                    "description": f"At most {NUMBER_CHARACTERS_MAX} characters.",
                    "minimum": -longest // 10 + 1,
                    "maximum": longest - 1,
                },
                {"type": "boolean"},
                {"type": "null"},
            ]
        },
    }


def _request(operation: Operation) -> Schema:
    properties: Schema = {"amount": ref("RequestedMoney")}
    required = ["amount", "country", "resultUrl", "merchantReference"]
    if operation in creation_body.PARTY_NAMES:
        properties[creation_body.PARTY_NAMES[operation]] = ref("RequestedParty")
        required.insert(1, creation_body.PARTY_NAMES[operation])
    properties["country"] = text(
        "ISO 3166-1 alpha-2; one that the brand has for this method.",
        max_length=creation_body.COUNTRY_MAX,
    )
    properties["resultUrl"] = _delivery_url("Where the result is sent: the callback `result`.")
    if operation is Operation.QR_PAYIN:
        properties["displayQrUrl"] = _delivery_url(
            "Where the QR code is sent: the callback `qrCode`."
        )
        required.append("displayQrUrl")
    if operation is Operation.WEB_PAYIN:
        for name, when in (
            ("successRedirectUrl", "it has succeeded"),
            ("errorRedirectUrl", "it has failed"),
        ):
            meaning = f"Where the payer's browser goes once {when}: http or https, or a scheme of the brand's."
            properties[name] = optional_text(meaning, max_length=URL_LENGTH_MAX) | {
                "format": "uri",
                "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:",
            }
    properties["merchantReference"] = text(
        "Your reference for this payment, unique for your brand: the key of idempotency. Not `.` or `..`.",
        max_length=creation_body.TEXT_MAX,
    ) | {"not": {"enum": [".", ".."]}}
    meaning = "Your reference for reconciliation"
    if operation is Operation.DIRECT_TAXPAYOUT:
        properties["reconciliationReference"] = text(
            f"{meaning}.", max_length=creation_body.TEXT_MAX
        )
        required.append("reconciliationReference")
    else:
        properties["reconciliationReference"] = optional_text(
            f"{meaning}; by default the merchantReference.", max_length=creation_body.TEXT_MAX
        )
    properties["labels"] = ref("RequestedLabels")
    meaning = "Further members are ignored; null stands for an optional member that is absent."
    shape = _object(meaning, properties, required=required)
    return shape | {"examples": [request_example(operation)]}


def _delivery_url(description: str) -> Schema:
    return text(
        f"{description} An absolute https URL of a public address, without user info.",
        max_length=URL_LENGTH_MAX,
        pattern="^[Hh][Tt][Tt][Pp][Ss]://",
    ) | {"format": "uri"}


def _creation_response() -> Schema:
    order = EXAMPLE_TRANSACTION.order
    example = {
        "status": Status.PENDING.value,
        "gatewayReference": order.gateway_reference,
        "merchantReference": order.merchant_reference,
        "reconciliationReference": order.reconciliation_reference,
        "createdAt": format_with_seconds(order.created_at),
    }
    properties: Schema = {
        "status": {"const": Status.PENDING.value},
        "gatewayReference": {"type": "string", "pattern": ULID_PATTERN, "description": "A ULID."},
        "merchantReference": {"type": "string"},
        "reconciliationReference": {"type": "string"},
        "createdAt": {"type": "string", "pattern": CREATED_AT_PATTERN},
    }
    return _response_object("The payment is taken and under way.", properties, example)


def _web_creation_response() -> Schema:
    shape = _creation_response()
    example = shape["examples"][0] | {
        "pageUrl": "https://checkout.example/pay/2mB1qvN0c7Yt4oH8sK5wXeRjPzLdUaFg",
        "pageOpenMode": "redirect",
    }
    properties = shape["properties"] | {
        "pageUrl": {
            "type": "string",
            "format": "uri",
            "description": "Send the payer's browser here at once.",
        },
        "pageOpenMode": {"const": "redirect"},
    }
    return _response_object(
        "The payment is taken; its payer is awaited on the page.", properties, example
    )


def _provider_data() -> Schema:
    properties = {
        "name": {"type": "string", "description": "Identifier of the provider."},
        "title": {"type": "string", "description": "Display name of the provider."},
        "fee": nullable(ref("Money")),
        "partyData": {
            "type": ["object", "null"],
            "description": "What the provider says of the party.",
        },
        "errorCode": {"type": ["string", "null"], "description": "The provider's own code."},
        "errorMessage": {"type": ["string", "null"], "description": "The provider's own words."},
    }
    meaning = "What the provider made of it; null until a request to one is recorded."
    return _response_object(meaning, properties, EXAMPLE_OBJECT["providerData"])


def _transaction() -> Schema:
    codes = "".join(f"\n- `{each}`: {EXPLANATIONS[each].meaning}" for each in ErrorCode)
    sources = [each.value for each in Source]
    text_or_null = {"type": ["string", "null"]}
    properties: Schema = {
        "status": {"enum": [each.value for each in Status]},
        "type": {"enum": [each.value for each in Type]},
        "flow": {
            "enum": [each.value for each in Flow],
            "description": "`push`: a deposit that the payer began with the provider.",
        },
        "gatewayReference": {"type": "string", "pattern": ULID_PATTERN},
        "merchantReference": text_or_null | {"description": "Null for `push`."},
        "reconciliationReference": text_or_null | {"description": "Null for `push`."},
        "providerReference": text_or_null | {"description": "The provider's own reference."},
        "party": ref("Party"),
        "method": {"type": "string"},
        "country": {"type": "string"},
        "requestedAmount": ref("Money"),
        "finalAmount": nullable(ref("Money"))
        | {"description": "What was settled, which may differ; null unless it has succeeded."},
        "labels": {"type": ["object", "null"], "description": "As submitted; null for `push`."},
        "createdAt": {"type": "string", "pattern": TIMESTAMP_PATTERN},
        "completedAt": text_or_null
        | {"pattern": TIMESTAMP_PATTERN, "description": "Null while pending."},
        "completionSource": text_or_null
        | {
            "description": "What resolved it; null while pending. Take a value that you don't know as"
            f" information only. Today: {', '.join(f'`{each}`' for each in sources)}.",
            "examples": sources,
        },
        "errorCode": {
            "enum": [*(each.value for each in ErrorCode), None],
            "description": f"Why it failed; null unless it has.{codes}",
        },
        "errorMessage": text_or_null | {"description": "The same for people."},
        "providerData": nullable(ref("ProviderData")),
    }
    meaning = "A payment, the same everywhere: in look-ups, records and callbacks."
    return _response_object(meaning, properties, EXAMPLE_OBJECT)


def _page() -> Schema:
    cursor = {"type": ["string", "null"]}
    pages = _response_object(
        "Cursors of the neighbouring pages; null where there is none.",
        {"next": cursor, "previous": cursor},
        {"next": None, "previous": None},
    )
    properties = {"data": {"type": "array", "items": ref("Transaction")}, "pages": pages}
    example = {"data": [EXAMPLE_OBJECT], "pages": {"next": None, "previous": None}}
    return _response_object("A page of transactions, the oldest first.", properties, example)


def _qr_code() -> Schema:
    order = EXAMPLE_TRANSACTION.order
    properties = {
        "gatewayReference": {"type": "string", "pattern": ULID_PATTERN},
        "merchantReference": {"type": "string"},
        "reconciliationReference": {"type": "string"},
        "amount": ref("Money"),
        "qrPayload": {
            "type": ["string", "null"],
            "description": "The text of the code (EMVCo); null where the provider gives a picture only.",
        },
        "qrImage": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
        "expiresAt": {"type": "string", "pattern": TIMESTAMP_PATTERN},
    }
    example = {
        "gatewayReference": order.gateway_reference,
        "merchantReference": order.merchant_reference,
        "reconciliationReference": order.reconciliation_reference,
        "amount": EXAMPLE_OBJECT["requestedAmount"],
        "qrPayload": "00020101021226…6304A13B",
        "qrImage": "iVBORw0KGgoAAAANSUhEUg…",
        "expiresAt": "2026-11-24T08:34:56.123456Z",
    }
    return _response_object("A QR code to show to the payer.", properties, example)


def _problem(error_docs_url: str) -> Schema:
    fault = _object(
        "A field at fault.",
        {
            "field": {
                "type": "string",
                "description": "Dotted path of the member, or the parameter.",
            },
            "detail": {"type": "string", "description": "What is wrong and what would be right."},
        },
    ) | {"additionalProperties": False}
    titles = list(dict.fromkeys(each.title for each in PROBLEM_TYPES))
    codes = list(dict.fromkeys(each.error_code for each in PROBLEM_TYPES))
    segments = [f"{error_docs_url}/{each.segment}" for each in PROBLEM_TYPES]
    properties: Schema = {
        "type": {
            "enum": segments,
            "description": "The specific cause is the last segment; the page behind it says what to do.",
        },
        "title": {"enum": titles},
        "status": {"enum": sorted({each.status for each in PROBLEM_TYPES})},
        "detail": {"type": "string", "description": "What happened this time, for a person."},
        "errorCode": {
            "enum": codes,
            "description": "The category; for a 422 with a cause of its own the same as the cause.",
        },
        "instance": {
            "type": "string",
            "pattern": f"^{INSTANCE_PREFIX}[0-9a-zA-Z-]+$",
            "description": "Names this occurrence: its end is the request id, as in X-Request-Id.",
        },
        "errors": {"type": "array", "items": fault, "description": "Every field at fault."},
    }
    shape = _response_object(
        "Why a request was refused (RFC 7807).",
        properties,
        dict(example_problem(VALIDATION_FAILED, error_docs_url)),
    )
    return shape | {"required": [name for name in properties if name != "errors"]}
