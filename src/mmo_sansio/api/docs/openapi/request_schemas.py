"""Describes the bodies of creation requests; limits and patterns are those of the parser."""

from __future__ import annotations

from typing import Any

from mmo_sansio.api.docs.openapi.schemas import (
    NO_CONTROLS_PATTERN,
    Schema,
    object_schema,
    optional_text,
    ref,
    request_name,
    text,
)
from mmo_sansio.api.incoming import creation_body
from mmo_sansio.http.egress_rules import URL_LENGTH_MAX
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import AMOUNT_MAX, NUMBER_CHARACTERS_MAX


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
    members: dict[str, Any] = {"amount": {"value": 150.00, "currency": "KES"}}
    if operation in creation_body.PARTY_NAMES:
        members[creation_body.PARTY_NAMES[operation]] = {
            "id": "customer-7",
            "msisdn": "254700000007",
        }
    members |= {
        "country": "KE",
        "resultUrl": "https://shop.example/callbacks",
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


def _requested_money() -> Schema:
    value = {
        "type": "number",
        "description": "Greater than 0, at most 10^15, no more decimals than the currency has (KES"
        f" 2, UGX 0, KWD 3), at most {NUMBER_CHARACTERS_MAX} characters. A string is refused. The"
        " brand's limits for the method lie within.",
        "exclusiveMinimum": 0,
        "maximum": int(AMOUNT_MAX),
    }
    currency = {
        "type": "string",
        "description": "ISO 4217 in capitals; one that the brand has limits for.",
        "pattern": f"^{creation_body.CURRENCY_PATTERN}$",
    }
    return object_schema("The amount that is asked for.", {"value": value, "currency": currency})


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
    return object_schema("Who pays, or who is paid.", members, required=["id", "msisdn"])


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
            meaning = (
                f"Where the payer's browser goes once {when}: http or https, or a scheme of the"
                " brand's."
            )
            properties[name] = optional_text(meaning, max_length=URL_LENGTH_MAX) | {
                "format": "uri",
                "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:",
            }
    properties["merchantReference"] = text(
        "Your reference for this payment, unique for your brand: the key of idempotency. Not `.` or"
        " `..`.",
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
    shape = object_schema(meaning, properties, required=required)
    return shape | {"examples": [request_example(operation)]}


def _delivery_url(description: str) -> Schema:
    return text(
        f"{description} An absolute https URL of a public address, without user info.",
        max_length=URL_LENGTH_MAX,
        pattern="^[Hh][Tt][Tt][Pp][Ss]://",
    ) | {"format": "uri"}
