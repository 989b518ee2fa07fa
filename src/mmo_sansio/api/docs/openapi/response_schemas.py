"""Describes responses, callbacks and problem documents; enums and codes are those of the code.

Every shape has an example, and all of them show the same payment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from mmo_sansio.api.docs.error_pages import example_problem
from mmo_sansio.api.docs.openapi.schemas import (
    CREATED_AT_PATTERN,
    CURRENCY_PATTERN,
    TIMESTAMP_PATTERN,
    ULID_PATTERN,
    Schema,
    nullable,
    object_schema,
    ref,
    response_object,
    string,
)
from mmo_sansio.api.outgoing.problem_json import INSTANCE_PREFIX
from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.values import model
from mmo_sansio.values.clock import Instant, format_with_seconds
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.money import Money, percentage_of
from mmo_sansio.values.problems import PROBLEM_TYPES, VALIDATION_FAILED

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
"""The payment of all examples; it has succeeded."""

EXAMPLE_OBJECT: Final[Mapping[str, Any]] = json.loads(transaction_object(EXAMPLE_TRANSACTION), parse_float=Decimal)
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
    value = {"type": "number", "description": "With the currency's own number of decimals."}
    currency = string("ISO 4217.", pattern=CURRENCY_PATTERN)
    meaning = "An amount. Read `value` as a decimal, not as a binary floating point number."
    example = EXAMPLE_OBJECT["requestedAmount"]
    return response_object(meaning, {"value": value, "currency": currency}, example)


def _party() -> Schema:
    members = {
        "id": string("The merchant's identifier for the end user."),
        "msisdn": string(
            "The phone number; for `push` as the provider gave it, masked or as a hash of 64 characters, too."
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
        "createdAt": string(pattern=CREATED_AT_PATTERN),
    }
    return response_object("The payment is taken and in progress.", properties, example)


def _web_creation_response() -> Schema:
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
    codes = "".join(f"\n- `{each}`: {EXPLANATIONS[each].meaning}" for each in ErrorCode)
    source = string(
        "What resolved it; null while pending. `webhook`: a notification of the provider, also when it made the gateway"
        " poll. `poll`: an answer to a request of the gateway, also to the submission itself. `expiry`: a time limit of"
        " the gateway. `manual`: the gateway's staff. Take a value that you don't know as information only.",
        examples=[each.value for each in model.Source],
    )
    properties: Schema = {
        "status": {"enum": [each.value for each in model.Status]},
        "type": {"enum": [each.value for each in model.Type]},
        "flow": {
            "enum": [each.value for each in model.Flow],
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
        "createdAt": string(pattern=TIMESTAMP_PATTERN),
        "completedAt": nullable(string("Null while pending.", pattern=TIMESTAMP_PATTERN)),
        "completionSource": nullable(source),
        "errorCode": nullable(
            string(
                f"Why it failed; null unless it has. Codes may be added.{codes}",
                examples=[each.value for each in ErrorCode],
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
        "expiresAt": string(pattern=TIMESTAMP_PATTERN),
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
            "The specific cause is the last segment; the page behind it says what to do. Causes may be added.",
            examples=[f"{error_docs_url}/{each.segment}" for each in PROBLEM_TYPES],
        ),
        "title": string(examples=list(dict.fromkeys(each.title for each in PROBLEM_TYPES))),
        "status": {"type": "integer", "examples": sorted({each.status for each in PROBLEM_TYPES})},
        "detail": string("What happened this time, for a person."),
        "errorCode": string(
            "The category; for a 422 with a cause of its own the same as the cause.",
            examples=list(dict.fromkeys(each.error_code for each in PROBLEM_TYPES)),
        ),
        "instance": instance,
        "errors": {"type": "array", "items": invalid_field, "description": "Every field at fault."},
    }
    example = dict(example_problem(VALIDATION_FAILED, error_docs_url))
    shape = response_object("Why a request was refused (RFC 7807).", properties, example)
    return shape | {"required": [name for name in properties if name != "errors"]}
