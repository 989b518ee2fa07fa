"""Checks the requests to the simulated MTN MoMo for what its documentation requires, and nothing
else."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlsplit

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.money import Money, check_amount, parse_number, to_money
from mmo_simulators.common.faults import RequestRejected
from mmo_simulators.common.messages import json_response, parse_json_object
from mmo_simulators.operators.mtn.submissions import SubmissionKind

# One page says 128 characters, another 160: who keeps to the first is taken by both.
MESSAGE_CHARACTERS_MAX = 128
PARTY_ID_TYPES = ("MSISDN", "EMAIL", "PARTY_CODE")

_UUID4_PATTERN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE
)
# International, without plus and without a leading zero (documented).
_MSISDN_PATTERN = re.compile(r"[1-9][0-9]{5,18}", re.ASCII)


def rejection(status: int, code: str, message: str) -> RequestRejected:
    """Return an error in the operator's form."""
    return RequestRejected(json_response(status, {"code": code, "message": message}))


def unauthorized(message: str) -> RequestRejected:
    """Return a 401 in the form of the API manager in front of the operator's own services."""
    return RequestRejected(json_response(401, {"statusCode": 401, "message": message}))


def invalid_request(message: str) -> RequestRejected:
    """Return a rejection with status 400."""
    return rejection(400, "VALIDATION_ERROR", message)


def get_header(request: HttpRequest, name: str) -> str | None:
    """Return the header with this name. Raises RequestRejected when it occurs twice."""
    values = request.values(name.lower().encode())
    # Which of two counts would depend on a proxy.
    if len(values) > 1:
        raise invalid_request(f"{name} is there {len(values)} times")
    if values:
        return values[0].decode("latin-1")
    return None


def parse_basic_credentials(request: HttpRequest) -> tuple[str, str]:
    """Return user and key of an HTTP Basic Authorization. Raises RequestRejected."""
    scheme, _, encoded = (get_header(request, "Authorization") or "").partition(" ")
    try:
        user, separator, key = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        user, separator, key = "", "", ""

    # One refusal for every fault: no form of credentials is told from another.
    if scheme.lower() != "basic" or not separator:
        raise unauthorized("Authorization must be Basic, with the API user and its key")
    return user, key


def parse_bearer_token(request: HttpRequest) -> str:
    """Return the token of an Authorization. Raises RequestRejected."""
    scheme, _, token = (get_header(request, "Authorization") or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise unauthorized("Authorization must be Bearer, with an access token")
    return token


def parse_reference_id(request: HttpRequest) -> str:
    """Return the X-Reference-Id, a UUID of version 4, in lower case. Raises RequestRejected."""
    value = get_header(request, "X-Reference-Id") or ""
    if _UUID4_PATTERN.fullmatch(value) is None:
        raise invalid_request("X-Reference-Id must be a UUID of version 4")
    return value.lower()


def parse_callback_url(request: HttpRequest, registered: str | None) -> str | None:
    """Return the X-Callback-Url, on the registered host if one is registered. Raises
    RequestRejected."""
    value = get_header(request, "X-Callback-Url")
    if value is None:
        return None

    # An address in brackets that is none makes urlsplit raise.
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        host = None

    if not host or parts.scheme not in ("http", "https"):
        raise invalid_request("X-Callback-Url must be left out or absolute")
    # A 500 for what is a fault of the request, as MTN has it.
    if registered and host != registered_host(registered):
        raise rejection(500, "INVALID_CALLBACK_URL_HOST", "the callback's host is not registered")

    return value


def registered_host(registered: str) -> str:
    """Return the host of a providerCallbackHost, which is a host name or a URL."""
    if "//" not in registered:
        registered = f"//{registered}"
    return urlsplit(registered).hostname or ""


def parse_submission(
    request: HttpRequest, kind: SubmissionKind, currency: str
) -> tuple[dict[str, Any], Money]:
    """Return the body of a submission and its amount. Raises RequestRejected."""
    if (get_header(request, "Content-Type") or "").partition(";")[0].strip() != "application/json":
        raise invalid_request("Content-Type must be application/json")

    try:
        document = parse_json_object(request.body)
    except ValueError:
        raise invalid_request("the body must be a JSON object") from None

    # A refund has no party: it names the payment that is given back.
    names = ["amount", "currency", "externalId", "payerMessage", "payeeNote"]
    if not kind.party:
        names.append(kind.target_member)

    for name in names:
        if not isinstance(document.get(name), str):
            raise invalid_request(f"{name} must be a string")

    for name in ("payerMessage", "payeeNote"):
        _check_message(document[name], name)

    if kind.party:
        _check_party(document.get(kind.party), kind.party)

    # This is a 500 at MTN, too.
    if document["currency"] != currency:
        raise rejection(500, "INVALID_CURRENCY", "Currency not supported.")
    # What MTN answers to an exponent is not known; that it is refused is assumed.
    if not re.fullmatch(r"[0-9.]+", document["amount"], re.ASCII):
        raise invalid_request("amount must be digits, with a point before the decimals")

    try:
        return document, to_money(check_amount(parse_number(document["amount"])), currency)
    except ValueError as error:
        raise invalid_request(f"unsupported amount or decimals: amount {error}") from None


def _check_message(text: str, name: str) -> None:
    """Check a text for people, which has none of the characters that MTN refuses. An empty one is
    taken: clients that are in use send it. Raises RequestRejected."""
    if len(text) > MESSAGE_CHARACTERS_MAX:
        raise invalid_request(f"{name} must have at most {MESSAGE_CHARACTERS_MAX} characters")
    if not text.isprintable() or re.search(r"[&'<]", text):
        raise invalid_request(f"{name} has a character that is not allowed")


def _check_party(party: Any, name: str) -> None:
    if not isinstance(party, dict) or party.get("partyIdType") not in PARTY_ID_TYPES:
        raise invalid_request(f"{name}.partyIdType must be one of {', '.join(PARTY_ID_TYPES)}")
    value = party.get("partyId")
    if not isinstance(value, str) or not value:
        raise invalid_request(f"{name}.partyId must be a string")
    if party["partyIdType"] == "MSISDN" and _MSISDN_PATTERN.fullmatch(value) is None:
        raise invalid_request(
            f"{name}.partyId must be digits with the country code and without a plus"
        )
