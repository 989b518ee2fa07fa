"""Describes the bodies of creation requests; limits and patterns are those of the parser."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from mmo_sansio.api.docs.openapi.schemas import (
    NO_CONTROLS_PATTERN,
    Schema,
    nullable,
    object_schema,
    optional_text,
    ref,
    request_name,
    string,
    text,
)
from mmo_sansio.api.incoming import creation_body
from mmo_sansio.http.egress_rules import URL_LENGTH_MAX
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import AMOUNT_MAX, NUMBER_CHARACTERS_MAX

_SHOP: Final = "https://shop.example"
_EXAMPLE_MEMBERS: Final = {
    Operation.DIRECT_PAYOUT: {"merchantReference": "salary-42"},
    Operation.QR_PAYIN: {"merchantReference": "order-2", "displayQrUrl": f"{_SHOP}/qr"},
    Operation.WEB_PAYIN: {
        "merchantReference": "order-3",
        "successRedirectUrl": f"{_SHOP}/thanks",
        "errorRedirectUrl": f"{_SHOP}/sorry",
    },
    Operation.DIRECT_TAXPAYOUT: {"merchantReference": "tax-7", "reconciliationReference": "vat-2026-10"},
}
"""The members in which this operation's example differs; no two examples have one merchantReference."""


def request_schemas() -> dict[str, Schema]:
    """Return every shape of a request, by its name in `components/schemas`."""
    return {
        "RequestedMoney": _requested_money(),
        "RequestedParty": _requested_party(),
        "RequestedLabels": _requested_labels(),
        **{request_name(each): _request(each) for each in Operation},
    }


def request_example(operation: Operation) -> dict[str, Any]:
    """Return a valid body for this operation."""
    members: dict[str, Any] = {"amount": {"value": Decimal("150.00"), "currency": "KES"}}
    if operation in creation_body.PARTY_NAMES:
        members[creation_body.PARTY_NAMES[operation]] = {"id": "customer-7", "msisdn": "254700000007"}
    members |= {"country": "KE", "resultUrl": f"{_SHOP}/callbacks", "merchantReference": "order-1"}
    return members | _EXAMPLE_MEMBERS.get(operation, {})


def _requested_money() -> Schema:
    value = {
        "type": "number",
        "description": "Greater than 0, at most 10^15, no more decimals than the currency has (KES"
        f" 2, UGX 0, KWD 3), at most {NUMBER_CHARACTERS_MAX} characters. A string is refused. The"
        " brand's limits for the method lie within.",
        "exclusiveMinimum": 0,
        "maximum": int(AMOUNT_MAX),
    }
    meaning = "ISO 4217 in capitals; one that the brand has limits for."
    currency = string(meaning, pattern=f"^{creation_body.CURRENCY_PATTERN}$")
    return object_schema("The amount that is asked for.", {"value": value, "currency": currency})


def _requested_party() -> Schema:
    meaning = "An e-mail address: up to 64 characters, one `@` and a domain with a dot."
    email = string(meaning, maxLength=creation_body.EMAIL_MAX, pattern=f"^(?:{creation_body.EMAIL_PATTERN})?$")
    members = {
        "id": text("Your identifier for the end user.", max_length=creation_body.TEXT_MAX),
        "msisdn": text(
            "The phone number in international format: digits that begin with the country's code, with or without `+`"
            " before them, without spaces or hyphens.",
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
        "description": "Your own metadata; comes back unchanged. A key is a text of 1 to"
        f" {creation_body.LABEL_KEY_MAX} characters, and a value is a text, a number, true, false or null; neither has"
        " control characters such as a line break.",
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
        "Your reference for this payment, unique for your brand: the key of idempotency. Repeat a request within 15"
        " minutes with the same reference; later look the reference up first. Not `.` or `..`."
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
        "Further members are ignored; null stands for an optional member that is absent, and so does an empty text."
    )
    shape = object_schema(meaning, properties, required=required)
    return shape | {"examples": [request_example(operation)]}


def _delivery_url(description: str) -> Schema:
    meaning = (
        f"{description} An absolute https URL of a public address that is not the gateway's own, without user info,"
        ' fragment, white space and the characters `"<>\\^{|}`, which are to be percent-encoded; two hexadecimal digits'
        " follow each `%`."
    )
    pattern = "^[Hh][Tt][Tt][Pp][Ss]://"
    return text(meaning, max_length=URL_LENGTH_MAX, pattern=pattern, format="uri")


def _redirect_url(when: str) -> Schema:
    meaning = (
        f"Where the payer's browser goes once {when}: an absolute URL of http or https, or of a scheme that the"
        " gateway's staff have added for the brand, such as an app's. It is used exactly as given."
    )
    form = {"format": "uri", "pattern": "^(?:[A-Za-z][A-Za-z0-9+.-]*:|$)"}
    return optional_text(meaning, max_length=URL_LENGTH_MAX) | form
