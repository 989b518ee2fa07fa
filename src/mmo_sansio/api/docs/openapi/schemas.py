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
from mmo_sansio.values.clock import with_seconds
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
from mmo_sansio.values.money import AMOUNT_MAX, NUMBER_CHARACTERS_MAX, Money, share_of
from mmo_sansio.values.problems import CATALOGUE, VALIDATION_FAILED

Schema: TypeAlias = dict[str, Any]

WITHOUT_CONTROLS: Final = r"^[^\u0000-\u001f\u007f-\u009f]*$"
NOT_BLANK: Final = r"\S"
ULID: Final = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
CREATED_AT: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\+00:00$"
TIMESTAMP: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$"
CURRENCY: Final = "^[A-Z]{3}$"

EXAMPLE: Final = Transaction(
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
        provider_data=ProviderData("mpesa", "M-Pesa", share_of(Money(150_00, "KES"), 1)),
    ),
)
"""A payment that has succeeded."""

EXAMPLE_OBJECT: Final[Mapping[str, Any]] = json.loads(transaction_object(EXAMPLE))


def schemas(error_docs_url: str) -> dict[str, Schema]:
    """Every shape, by its name in `components/schemas`."""
    return {
        "Money": _money(),
        "RequestedMoney": _requested_money(),
        "Party": _party(),
        "RequestedParty": _requested_party(),
        "RequestedLabels": _requested_labels(),
        **{request_name(each): _request(each) for each in Operation},
        "InitiatedPayment": _initiated(),
        "InitiatedWebPayment": _initiated_web(),
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
    if operation in creation_body.PARTIES:
        members[creation_body.PARTIES[operation]] = {"id": "customer-7", "msisdn": "254700000007"}
    members |= {
        "country": "KE",
        "resultUrl": EXAMPLE.order.result_url,
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


def text(meaning: str, *, at_most: int, at_least: int = 1, **more: Any) -> Schema:
    """A required text of a request: not blank, no control characters (G7, G8)."""
    lengths = {"minLength": at_least, "maxLength": at_most}
    return {"type": "string", "description": meaning, **lengths, "pattern": NOT_BLANK, **more} | (
        {} if "pattern" in more else {"allOf": [{"pattern": WITHOUT_CONTROLS}]}
    )


def optional_text(meaning: str, *, at_most: int) -> Schema:
    """An optional text of a request; null means absent (G4)."""
    pattern = {"pattern": WITHOUT_CONTROLS}
    return {"type": ["string", "null"], "description": meaning, "maxLength": at_most, **pattern}


def _object(meaning: str, properties: Schema, *, required: list[str] | None = None) -> Schema:
    return {
        "type": "object",
        "description": meaning,
        "required": list(properties) if required is None else required,
        "properties": properties,
    }


def _answered(meaning: str, properties: Schema, example: Any) -> Schema:
    """An object of ours: exactly these members, nulls written out (T2)."""
    return _object(meaning, properties) | {"additionalProperties": False, "examples": [example]}


def _money() -> Schema:
    value = {"type": "number", "description": "With the currency's own number of decimals."}
    currency = {"type": "string", "pattern": CURRENCY, "description": "ISO 4217."}
    meaning = "An amount. Read `value` as a decimal, not as a binary floating point number."
    return _answered(
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
    return _answered("Payer, payee or tax authority.", members, EXAMPLE_OBJECT["party"])


def _requested_party() -> Schema:
    members = {
        "id": text("Your identifier for the end user.", at_most=creation_body.TEXT_MAX),
        "msisdn": text(
            "The phone number in international format.",
            at_least=creation_body.MSISDN_MIN,
            at_most=creation_body.MSISDN_MAX,
            pattern=f"^{creation_body.MSISDN_PATTERN}$",
        ),
        "firstName": optional_text("Given name.", at_most=creation_body.TEXT_MAX),
        "lastName": optional_text("Family name.", at_most=creation_body.TEXT_MAX),
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
            "pattern": WITHOUT_CONTROLS,
        },
        "additionalProperties": {
            "anyOf": [
                {
                    "type": "string",
                    "maxLength": creation_body.LABEL_TEXT_MAX,
                    "pattern": WITHOUT_CONTROLS,
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
    if operation in creation_body.PARTIES:
        properties[creation_body.PARTIES[operation]] = ref("RequestedParty")
        required.insert(1, creation_body.PARTIES[operation])
    properties["country"] = text(
        "ISO 3166-1 alpha-2; one that the brand has for this method.",
        at_most=creation_body.COUNTRY_MAX,
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
            properties[name] = optional_text(meaning, at_most=URL_LENGTH_MAX) | {
                "format": "uri",
                "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:",
            }
    properties["merchantReference"] = text(
        "Your reference for this payment, unique for your brand: the key of idempotency. Not `.` or `..`.",
        at_most=creation_body.TEXT_MAX,
    ) | {"not": {"enum": [".", ".."]}}
    meaning = "Your reference for reconciliation"
    if operation is Operation.DIRECT_TAXPAYOUT:
        properties["reconciliationReference"] = text(f"{meaning}.", at_most=creation_body.TEXT_MAX)
        required.append("reconciliationReference")
    else:
        properties["reconciliationReference"] = optional_text(
            f"{meaning}; by default the merchantReference.", at_most=creation_body.TEXT_MAX
        )
    properties["labels"] = ref("RequestedLabels")
    meaning = "Further members are ignored; null stands for an optional member that is absent."
    shape = _object(meaning, properties, required=required)
    return shape | {"examples": [request_example(operation)]}


def _delivery_url(meaning: str) -> Schema:
    return text(
        f"{meaning} An absolute https URL of a public address, without user info.",
        at_most=URL_LENGTH_MAX,
        pattern="^[Hh][Tt][Tt][Pp][Ss]://",
    ) | {"format": "uri"}


def _initiated() -> Schema:
    order = EXAMPLE.order
    example = {
        "status": Status.PENDING.value,
        "gatewayReference": order.gateway_reference,
        "merchantReference": order.merchant_reference,
        "reconciliationReference": order.reconciliation_reference,
        "createdAt": with_seconds(order.created_at),
    }
    properties: Schema = {
        "status": {"const": Status.PENDING.value},
        "gatewayReference": {"type": "string", "pattern": ULID, "description": "A ULID."},
        "merchantReference": {"type": "string"},
        "reconciliationReference": {"type": "string"},
        "createdAt": {"type": "string", "pattern": CREATED_AT},
    }
    return _answered("The payment is taken and under way.", properties, example)


def _initiated_web() -> Schema:
    shape = _initiated()
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
    return _answered("The payment is taken; its payer is awaited on the page.", properties, example)


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
    return _answered(meaning, properties, EXAMPLE_OBJECT["providerData"])


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
        "gatewayReference": {"type": "string", "pattern": ULID},
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
        "createdAt": {"type": "string", "pattern": TIMESTAMP},
        "completedAt": text_or_null | {"pattern": TIMESTAMP, "description": "Null while pending."},
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
    return _answered(meaning, properties, EXAMPLE_OBJECT)


def _page() -> Schema:
    cursor = {"type": ["string", "null"]}
    pages = _answered(
        "Cursors of the neighbouring pages; null where there is none.",
        {"next": cursor, "previous": cursor},
        {"next": None, "previous": None},
    )
    properties = {"data": {"type": "array", "items": ref("Transaction")}, "pages": pages}
    example = {"data": [EXAMPLE_OBJECT], "pages": {"next": None, "previous": None}}
    return _answered("A page of transactions, the oldest first.", properties, example)


def _qr_code() -> Schema:
    order = EXAMPLE.order
    properties = {
        "gatewayReference": {"type": "string", "pattern": ULID},
        "merchantReference": {"type": "string"},
        "reconciliationReference": {"type": "string"},
        "amount": ref("Money"),
        "qrPayload": {
            "type": ["string", "null"],
            "description": "The text of the code (EMVCo); null where the provider gives a picture only.",
        },
        "qrImage": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
        "expiresAt": {"type": "string", "pattern": TIMESTAMP},
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
    return _answered("A QR code to show to the payer.", properties, example)


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
    titles = list(dict.fromkeys(each.title for each in CATALOGUE))
    codes = list(dict.fromkeys(each.error_code for each in CATALOGUE))
    segments = [f"{error_docs_url}/{each.segment}" for each in CATALOGUE]
    properties: Schema = {
        "type": {
            "enum": segments,
            "description": "The specific cause is the last segment; the page behind it says what to do.",
        },
        "title": {"enum": titles},
        "status": {"enum": sorted({each.status for each in CATALOGUE})},
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
    shape = _answered(
        "Why a request was refused (RFC 7807).",
        properties,
        dict(example_problem(VALIDATION_FAILED, error_docs_url)),
    )
    return shape | {"required": [name for name in properties if name != "errors"]}
