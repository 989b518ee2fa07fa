"""Describes the bodies of the merchant API by JSON Schema (2020-12): requests, responses, callbacks
and problem documents.

Limits and patterns are those of the parser, enums and codes those of the code. Every shape of a
response has an example, and all of them show the same payment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from mmo_sansio.api.docs.error_pages import example_problem
from mmo_sansio.api.incoming import creation_body
from mmo_sansio.api.outgoing import INSTANCE_PREFIX, transaction_object
from mmo_sansio.http.egress_rules import URL_LENGTH_MAX
from mmo_sansio.values import model
from mmo_sansio.values.clock import Instant, format_with_seconds
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import AMOUNT_MAX, NUMBER_CHARACTERS_MAX, Money, percentage_of
from mmo_sansio.values.problems import PROBLEM_TYPES, VALIDATION_FAILED

Schema: TypeAlias = dict[str, Any]
NO_CONTROLS_PATTERN: Final = r"^[^\u0000-\u001f\u007f-\u009f]*$"
NOT_BLANK_PATTERN: Final = r"\S"
ULID_PATTERN: Final = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
CREATED_AT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\+00:00$"
TIMESTAMP_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$"
CURRENCY_PATTERN: Final = "^[A-Z]{3}$"


# A NUL is in no text of the document, so nothing else is taken for a mark.
_DECIMAL_MARK: Final = "\u0000decimal "
_MARKED_DECIMAL: Final = re.compile(r'"\\u0000decimal ([0-9.]+)"')


def document_text(document: object, *, indent: int) -> str:
    """Return a document as JSON. Its Decimals are numbers with all their digits, as amounts are
    (G6): `150.00`."""

    def mark(value: object) -> str:
        if isinstance(value, Decimal):
            return f"{_DECIMAL_MARK}{value}"
        raise TypeError(f"{value!r} has no place in the document")

    return _MARKED_DECIMAL.sub(r"\1", json.dumps(document, indent=indent, default=mark))


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def request_name(operation: Operation) -> str:
    """Return the name of the shape of an operation's body: `DirectPayinRequest`."""
    return "".join(part.capitalize() for part in operation.value.split("/")) + "Request"


def nullable(schema: Schema) -> Schema:
    # JSON Schema 2020-12 has no `nullable`: a list of types, or one of two schemas.
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def string(description: str = "", **keywords: Any) -> Schema:
    """Describe a text, which is any text without keywords."""
    return {"type": "string"} | ({"description": description} if description else {}) | keywords


def text(description: str, *, max_length: int, min_length: int = 1, **keywords: Any) -> Schema:
    """Describe a required text of a request: not blank, no control characters (G7, G8)."""
    keywords = {"minLength": min_length, "maxLength": max_length} | keywords
    # Two patterns cannot stand side by side, so one goes into `allOf`.
    if "pattern" not in keywords:
        keywords |= {"pattern": NOT_BLANK_PATTERN, "allOf": [{"pattern": NO_CONTROLS_PATTERN}]}
    return string(description, **keywords)


def optional_text(description: str, *, max_length: int) -> Schema:
    """Describe an optional text of a request; null or an empty one means absent (G4)."""
    return nullable(string(description, maxLength=max_length, pattern=NO_CONTROLS_PATTERN))


def object_schema(
    description: str, properties: Schema, *, required: list[str] | None = None
) -> Schema:
    """Describe an object; every property is required unless `required` lists some."""
    shape = {"type": "object", "description": description, "properties": properties}
    return shape | {"required": list(properties) if required is None else required}


def response_object(description: str, properties: Schema, example: Any) -> Schema:
    """Describe an object of a response: these members with nulls written out (T2), and those of
    later versions."""
    return object_schema(description, properties) | {"examples": [example]}


_SHOP: Final = "https://shop.example"

# The members in which this operation's example differs; no two examples have one merchantReference.
_EXAMPLE_MEMBERS: Final = {
    Operation.DIRECT_PAYOUT: {"merchantReference": "salary-42"},
    Operation.QR_PAYIN: {"merchantReference": "order-2", "displayQrUrl": f"{_SHOP}/qr"},
    Operation.WEB_PAYIN: {
        "merchantReference": "order-3",
        "successRedirectUrl": f"{_SHOP}/thanks",
        "errorRedirectUrl": f"{_SHOP}/sorry",
    },
    Operation.DIRECT_TAXPAYOUT: {
        "merchantReference": "tax-7",
        "reconciliationReference": "vat-2026-10",
    },
}


def request_schemas() -> dict[str, Schema]:
    """Return every shape of a request, by its name in `components/schemas`."""
    return {
        "RequestedMoney": _requested_money(),
        "RequestedParty": _requested_party(),
        "RequestedLabels": _requested_labels(),
        **{request_name(operation): _request(operation) for operation in Operation},
    }


def request_example(operation: Operation) -> dict[str, Any]:
    members: dict[str, Any] = {"amount": {"value": Decimal("150.00"), "currency": "KES"}}
    if operation in creation_body.PARTY_NAMES:
        members[creation_body.PARTY_NAMES[operation]] = {
            "id": "customer-7",
            "msisdn": "254700000007",
        }
    members |= {"country": "KE", "resultUrl": f"{_SHOP}/callbacks", "merchantReference": "order-1"}
    return members | _EXAMPLE_MEMBERS.get(operation, {})


def _requested_money() -> Schema:
    value = {
        "type": "number",
        "format": "decimal",
        "description": "Greater than 0, at most 10^15, no more decimals than the currency has (KES"
        f" 2, UGX 0, KWD 3), at most {NUMBER_CHARACTERS_MAX} characters. A string is refused. The"
        " brand's limits for the method lie within.",
        "exclusiveMinimum": 0,
        "maximum": int(AMOUNT_MAX),
    }
    meaning = "ISO 4217 in capitals; one that the brand has limits for."
    currency = string(meaning, pattern=CURRENCY_PATTERN)

    return object_schema("The amount that is asked for.", {"value": value, "currency": currency})


def _requested_party() -> Schema:
    meaning = "An e-mail address: up to 64 characters, one `@` and a domain with a dot."
    email = string(
        meaning, maxLength=creation_body.EMAIL_MAX, pattern=f"^(?:{creation_body.EMAIL_PATTERN})?$"
    )
    members = {
        "id": text("Your identifier for the end user.", max_length=creation_body.TEXT_MAX),
        "msisdn": text(
            "The phone number in international format: digits that begin with the country's code, "
            "with or without `+` before them, without spaces or hyphens.",
            min_length=creation_body.MSISDN_MIN,
            max_length=creation_body.MSISDN_MAX,
            pattern=f"^{creation_body.MSISDN_PATTERN}$",
        ),
        "firstName": optional_text("Given name.", max_length=creation_body.TEXT_MAX),
        "lastName": optional_text("Family name.", max_length=creation_body.TEXT_MAX),
        "email": nullable(email),
    }

    return object_schema("Who pays, or who is paid.", members, required=["id", "msisdn"])


def _requested_labels() -> Schema:
    # A schema knows values and no characters: the largest number of so many characters.
    bound = 10**NUMBER_CHARACTERS_MAX
    number = {
        "type": "number",
        "description": f"At most {NUMBER_CHARACTERS_MAX} characters.",
        "minimum": -bound // 10 + 1,
        "maximum": bound - 1,
    }
    label = string(maxLength=creation_body.LABEL_TEXT_MAX, pattern=NO_CONTROLS_PATTERN)
    key = {"minLength": 1, "maxLength": creation_body.LABEL_KEY_MAX, "pattern": NO_CONTROLS_PATTERN}

    return {
        "type": ["object", "null"],
        "description": "Your own metadata; comes back unchanged. A key is a text of 1 to "
        f"{creation_body.LABEL_KEY_MAX} characters, and a value is a text, a number, true, false "
        "or null; neither has control characters such as a line break.",
        "maxProperties": creation_body.LABELS_MAX,
        "propertyNames": key,
        "additionalProperties": {"anyOf": [label, number, {"type": "boolean"}, {"type": "null"}]},
    }


def _request(operation: Operation) -> Schema:
    properties: Schema = {"amount": ref("RequestedMoney")}
    required = ["amount", "country", "resultUrl", "merchantReference"]
    if operation in creation_body.PARTY_NAMES:
        properties[creation_body.PARTY_NAMES[operation]] = ref("RequestedParty")
        required.insert(1, creation_body.PARTY_NAMES[operation])

    # The members in the order of the specification's table, as they are checked (C9).
    meaning = "ISO 3166-1 alpha-2; one that the brand has for this method."
    properties["country"] = text(meaning, max_length=creation_body.COUNTRY_MAX)
    properties["resultUrl"] = _delivery_url("Where the result is sent: the callback `result`.")
    if operation is Operation.QR_PAYIN:
        meaning = "Where the QR code is sent: the callback `qrCode`."
        properties["displayQrUrl"] = _delivery_url(meaning)
        required.append("displayQrUrl")

    if operation is Operation.WEB_PAYIN:
        properties["successRedirectUrl"] = _redirect_url("it has succeeded")
        properties["errorRedirectUrl"] = _redirect_url("it has failed")

    meaning = (
        "Your reference for this payment, unique for your brand: the key of idempotency. Repeat a "
        "request within 15 minutes with the same reference; later look the reference up first. Not "
        "`.` or `..`."
    )
    reference = text(meaning, max_length=creation_body.TEXT_MAX)
    properties["merchantReference"] = reference | {"not": {"enum": [".", ".."]}}
    meaning = "Your reference for reconciliation"
    if operation is Operation.DIRECT_TAXPAYOUT:
        reconciliation = text(f"{meaning}.", max_length=creation_body.TEXT_MAX)
        required.append("reconciliationReference")
    else:
        meaning += "; by default the merchantReference."
        reconciliation = optional_text(meaning, max_length=creation_body.TEXT_MAX)

    properties |= {"reconciliationReference": reconciliation, "labels": ref("RequestedLabels")}
    meaning = (
        "Further members are ignored; null stands for an optional member that is absent, and so "
        "does an empty text."
    )
    shape = object_schema(meaning, properties, required=required)
    return shape | {"examples": [request_example(operation)]}


def _delivery_url(description: str) -> Schema:
    meaning = (
        f"{description} An absolute https URL of a public address that is not the gateway's own, "
        f"without user info,"
        ' fragment, white space and the characters `"<>\\^{|}`, which are to be percent-encoded; '
        "two hexadecimal digits"
        " follow each `%`."
    )
    pattern = "^[Hh][Tt][Tt][Pp][Ss]://"
    return text(meaning, max_length=URL_LENGTH_MAX, pattern=pattern, format="uri")


def _redirect_url(when: str) -> Schema:
    meaning = (
        f"Where the payer's browser goes once {when}: an absolute URL of http or https, or of a "
        "scheme that the gateway's staff have added for the brand, such as an app's. It is used "
        "exactly as given."
    )
    form = {"format": "uri", "pattern": "^(?:[A-Za-z][A-Za-z0-9+.-]*:|$)"}
    return optional_text(meaning, max_length=URL_LENGTH_MAX) | form


# The payment of all examples; it has succeeded.
EXAMPLE_TRANSACTION: Final = model.Transaction(
    model.Order(
        gateway_reference="01KAJWT5RV3FX1QYP2Z4M0C9TB",
        brand="acme",
        type=model.Type.PAYIN,
        flow=model.Flow.DIRECT,
        method="mpesa_ke",
        country="KE",
        provider="mpesa",
        provider_title="M-Pesa",
        requested=Money(150_00, "KES"),
        party=model.Party("customer-7", "254700000007", "Ada", "Njeri", "ada@shop.example"),
        merchant_reference="order-1",
        reconciliation_reference="order-1",
        labels='{"basket":"b-17"}',
        result_url="https://shop.example/callbacks",
        created_at=Instant(1_795_250_096_123_456),
        expires_at=Instant(1_795_509_296_123_456),
    ),
    model.Progress(
        model.Stage.SUCCEEDED,
        3,
        None,
        provider_reference="QKJ8X2T5L1",
        final=Money(150_00, "KES"),
        completed_at=Instant(1_795_250_099_654_321),
        completion_source=model.Source.WEBHOOK,
        provider_data=model.ProviderData("mpesa", "M-Pesa", percentage_of(Money(150_00, "KES"), 1)),
    ),
)

EXAMPLE_OBJECT: Final[Mapping[str, Any]] = json.loads(
    transaction_object(EXAMPLE_TRANSACTION), parse_float=Decimal
)
_REFERENCES: Final = ("gatewayReference", "merchantReference", "reconciliationReference")
_EXAMPLE_REFERENCES: Final = {name: EXAMPLE_OBJECT[name] for name in _REFERENCES}


def response_schemas(error_docs_url: str) -> dict[str, Schema]:
    """Return every shape of a response or callback, by its name in `components/schemas`."""
    return {
        "Money": _money(),
        "Party": _party(),
        "InitiatedPayment": _creation_response(),
        "InitiatedWebPayment": _web_creation_response(),
        "ProviderData": _provider_data(),
        "Transaction": _transaction(),
        "TransactionPage": _page(),
        "QrCode": _qr_code(),
        "Problem": _problem(error_docs_url),
    }


def _money() -> Schema:
    value = {
        "type": "number",
        "format": "decimal",
        "description": "With the currency's own number of decimals.",
    }
    currency = string("ISO 4217.", pattern=CURRENCY_PATTERN)
    meaning = "An amount. Read `value` as a decimal, not as a binary floating point number."
    example = EXAMPLE_OBJECT["requestedAmount"]
    return response_object(meaning, {"value": value, "currency": currency}, example)


def _party() -> Schema:
    members = {
        "id": string("The merchant's identifier for the end user."),
        "msisdn": string(
            "The phone number; for `push` as the provider gave it, masked or as a hash of 64 "
            "characters, too."
        ),
        "firstName": nullable(string()),
        "lastName": nullable(string()),
        "email": nullable(string()),
    }
    return response_object("Payer, payee or tax authority.", members, EXAMPLE_OBJECT["party"])


def _creation_response() -> Schema:
    example = {
        "status": model.Status.PENDING.value,
        **_EXAMPLE_REFERENCES,
        "createdAt": format_with_seconds(EXAMPLE_TRANSACTION.order.created_at),
    }
    properties: Schema = {
        "status": {"const": model.Status.PENDING.value},
        "gatewayReference": string("A ULID.", pattern=ULID_PATTERN),
        "merchantReference": string(),
        "reconciliationReference": string(),
        "createdAt": string(format="date-time", pattern=CREATED_AT_PATTERN),
    }
    return response_object("The payment is taken and in progress.", properties, example)


def _web_creation_response() -> Schema:
    # The same members and two more (C6).
    shape = _creation_response()
    page_url = "https://checkout.example/pay/2mB1qvN0c7Yt4oH8sK5wXeRjPzLdUaFg"
    example = shape["examples"][0] | {"pageUrl": page_url, "pageOpenMode": "redirect"}
    properties = shape["properties"] | {
        "pageUrl": string("Send the payer's browser here at once.", format="uri"),
        "pageOpenMode": {"const": "redirect"},
    }
    meaning = "The payment is taken; its payer is awaited on the page."
    return response_object(meaning, properties, example)


def _provider_data() -> Schema:
    meaning = "What the provider says of the party."
    properties = {
        "name": string("Identifier of the provider."),
        "title": string("Display name of the provider."),
        "fee": nullable(ref("Money")),
        "partyData": {"type": ["object", "null"], "description": meaning},
        "errorCode": nullable(string("The provider's own code.")),
        "errorMessage": nullable(string("The provider's own words.")),
    }
    meaning = "What the provider made of it; null until a request to one is recorded."

    return response_object(meaning, properties, EXAMPLE_OBJECT["providerData"])


def _transaction() -> Schema:
    # No enum of codes: later versions may add some, and generated clients would refuse them.
    codes = "".join(f"\n- `{code}`: {EXPLANATIONS[code].meaning}" for code in ErrorCode)
    source = string(
        "What resolved it; null while pending. `webhook`: a notification of the provider, also "
        "when it made the gateway poll. `poll`: an answer to a request of the gateway, also to the "
        "submission itself. `expiry`: a time limit of the gateway. `manual`: the gateway's staff. "
        "Take a value that you don't know as information only.",
        examples=[source.value for source in model.Source],
    )
    properties: Schema = {
        "status": {"enum": [status.value for status in model.Status]},
        "type": {"enum": [type_.value for type_ in model.Type]},
        "flow": {
            "enum": [flow.value for flow in model.Flow],
            "description": "`push`: a deposit that the payer began with the provider.",
        },
        "gatewayReference": string(pattern=ULID_PATTERN),
        "merchantReference": nullable(string("Null for `push`.")),
        "reconciliationReference": nullable(string("Null for `push`.")),
        "providerReference": nullable(string("The provider's own reference.")),
        "party": ref("Party"),
        "method": string(),
        "country": string(),
        "requestedAmount": ref("Money"),
        "finalAmount": nullable(ref("Money"))
        | {"description": "What was settled, which may differ; null unless it has succeeded."},
        "labels": {"type": ["object", "null"], "description": "As submitted; null for `push`."},
        "createdAt": string(format="date-time", pattern=TIMESTAMP_PATTERN),
        "completedAt": nullable(
            string("Null while pending.", format="date-time", pattern=TIMESTAMP_PATTERN)
        ),
        "completionSource": nullable(source),
        "errorCode": nullable(
            string(
                f"Why it failed; null unless it has. Codes may be added.{codes}",
                examples=[code.value for code in ErrorCode],
            )
        ),
        "errorMessage": nullable(string("The same for people.")),
        "providerData": nullable(ref("ProviderData")),
    }
    meaning = "A payment, the same everywhere: in look-ups, records and callbacks."

    return response_object(meaning, properties, EXAMPLE_OBJECT)


def _page() -> Schema:
    cursors = {"next": nullable(string()), "previous": nullable(string())}
    no_pages = {"next": None, "previous": None}
    meaning = "Cursors of the neighbouring pages; null where there is none."
    pages = response_object(meaning, cursors, no_pages)
    properties = {"data": {"type": "array", "items": ref("Transaction")}, "pages": pages}
    example = {"data": [EXAMPLE_OBJECT], "pages": no_pages}
    return response_object("A page of transactions, the oldest first.", properties, example)


def _qr_code() -> Schema:
    meaning = "The text of the code (EMVCo); null where the provider gives a picture only."
    properties = {
        "gatewayReference": string(pattern=ULID_PATTERN),
        "merchantReference": string(),
        "reconciliationReference": string(),
        "amount": ref("Money"),
        "qrPayload": nullable(string(meaning)),
        "qrImage": string(contentEncoding="base64", contentMediaType="image/png"),
        "expiresAt": string(format="date-time", pattern=TIMESTAMP_PATTERN),
    }
    example = _EXAMPLE_REFERENCES | {
        "amount": EXAMPLE_OBJECT["requestedAmount"],
        "qrPayload": "00020101021226…6304A13B",
        "qrImage": "iVBORw0KGgoAAAANSUhEUg…",
        "expiresAt": "2026-11-24T08:34:56.123456Z",
    }

    return response_object("A QR code to show to the payer.", properties, example)


def _problem(error_docs_url: str) -> Schema:
    members = {
        "field": string("Dotted path of the member, or the parameter."),
        "detail": string("What is wrong and what would be right."),
    }
    invalid_field = object_schema("A field at fault.", members)
    instance = string(
        "Names this occurrence: its end is the request id, as in X-Request-Id.",
        pattern=f"^{INSTANCE_PREFIX}[0-9a-zA-Z-]+$",
    )
    properties: Schema = {
        "type": string(
            "The specific cause is the last segment; the page behind it says what to do. Causes "
            "may be added.",
            examples=[f"{error_docs_url}/{problem_type.segment}" for problem_type in PROBLEM_TYPES],
        ),
        "title": string(
            examples=list(dict.fromkeys(problem_type.title for problem_type in PROBLEM_TYPES))
        ),
        "status": {
            "type": "integer",
            "examples": sorted({problem_type.status for problem_type in PROBLEM_TYPES}),
        },
        "detail": string("What happened this time, for a person."),
        "errorCode": string(
            "The category; for a 422 with a cause of its own the same as the cause.",
            examples=list(dict.fromkeys(problem_type.error_code for problem_type in PROBLEM_TYPES)),
        ),
        "instance": instance,
        "errors": {"type": "array", "items": invalid_field, "description": "Every field at fault."},
    }
    example = dict(example_problem(VALIDATION_FAILED, error_docs_url))
    shape = response_object("Why a request was refused (RFC 7807).", properties, example)

    return shape | {"required": [name for name in properties if name != "errors"]}
