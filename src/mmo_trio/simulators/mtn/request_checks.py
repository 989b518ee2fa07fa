"""What MTN MoMo demands of a request before it looks at the money: each demand that is documented, and no other."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlsplit

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.money import Money, check_amount, money, parse_number
from mmo_trio.simulators.base import json_answer, json_object

MESSAGE_CHARACTERS_MAX = 128
PARTY_KINDS = ("MSISDN", "EMAIL", "PARTY_CODE")

_UUID4 = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    re.ASCII | re.IGNORECASE,
)
_MSISDN = re.compile(r"[1-9][0-9]{5,18}", re.ASCII)


class Refused(Exception):
    """A request that the operator answers so."""

    def __init__(self, answer: HttpResponse) -> None:
        super().__init__(answer.status)
        self.answer = answer


def refusal(status: int, code: str, message: str) -> Refused:
    """An error in the operator's form."""
    return Refused(json_answer(status, {"code": code, "message": message}))


def denied(message: str) -> Refused:
    """A 401 in the form of the API manager before the operator's own services."""
    return Refused(json_answer(401, {"statusCode": 401, "message": message}))


def invalid(message: str) -> Refused:
    """A 400."""
    return refusal(400, "VALIDATION_ERROR", message)


def header_of(request: HttpRequest, name: str) -> str | None:
    """The header with this name; raises Refused when it is there twice."""
    values = request.values(name.lower().encode())
    if len(values) > 1:
        raise invalid(f"{name} is there {len(values)} times")
    return values[0].decode("latin-1") if values else None


def basic_of(request: HttpRequest) -> tuple[str, str]:
    """User and key of an HTTP Basic Authorization; raises Refused."""
    scheme, _, encoded = (header_of(request, "Authorization") or "").partition(" ")
    try:
        user, separator, key = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        user, separator, key = "", "", ""
    if scheme.lower() != "basic" or not separator:
        raise denied("Authorization must be Basic, with the API user and its key")
    return user, key


def bearer_of(request: HttpRequest) -> str:
    """The token of an Authorization; raises Refused."""
    scheme, _, token = (header_of(request, "Authorization") or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise denied("Authorization must be Bearer, with an access token")
    return token


def reference_of(request: HttpRequest) -> str:
    """The X-Reference-Id, a UUID of version 4, in lower case; raises Refused."""
    value = header_of(request, "X-Reference-Id") or ""
    if _UUID4.fullmatch(value) is None:
        raise invalid("X-Reference-Id must be a UUID of version 4")
    return value.lower()


def callback_of(request: HttpRequest, registered: str | None) -> str | None:
    """The X-Callback-Url, on the registered host if one is registered; raises Refused."""
    value = header_of(request, "X-Callback-Url")
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise invalid("X-Callback-Url must be left out or absolute")
    if registered and host != registered_host(registered):
        raise refusal(500, "INVALID_CALLBACK_URL_HOST", "the callback's host is not registered")
    return value


def registered_host(registered: str) -> str:
    """The host of a providerCallbackHost, which is a host name or a whole URL."""
    return urlsplit(registered if "//" in registered else f"//{registered}").hostname or ""


def payment_of(request: HttpRequest, party: str, currency: str) -> tuple[dict[str, Any], Money]:
    """The body of a submission and its amount; `party` is `payer` or `payee`. Raises Refused."""
    if (header_of(request, "Content-Type") or "").partition(";")[0].strip() != "application/json":
        raise invalid("Content-Type must be application/json")
    try:
        document = json_object(request.body)
    except ValueError:
        raise invalid("the body must be a JSON object") from None
    for name in ("amount", "currency", "externalId", "payerMessage", "payeeNote"):
        if not isinstance(document.get(name), str):
            raise invalid(f"{name} must be a string")
    for name in ("payerMessage", "payeeNote"):
        if len(document[name]) > MESSAGE_CHARACTERS_MAX:
            raise invalid(f"{name} must have at most {MESSAGE_CHARACTERS_MAX} characters")
    _check_party(document.get(party), party)
    if document["currency"] != currency:
        raise refusal(500, "INVALID_CURRENCY", "Currency not supported.")
    try:
        return document, money(check_amount(parse_number(document["amount"])), currency)
    except ValueError as error:
        raise invalid(f"unsupported amount or decimals: amount {error}") from None


def _check_party(given: Any, name: str) -> None:
    if not isinstance(given, dict) or given.get("partyIdType") not in PARTY_KINDS:
        raise invalid(f"{name}.partyIdType must be one of {', '.join(PARTY_KINDS)}")
    value = given.get("partyId")
    if not isinstance(value, str) or not value:
        raise invalid(f"{name}.partyId must be a string")
    if given["partyIdType"] == "MSISDN" and _MSISDN.fullmatch(value) is None:
        raise invalid(f"{name}.partyId must be digits with the country code and without a plus")
