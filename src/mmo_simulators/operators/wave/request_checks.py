"""Checks the requests to the simulated Wave for what its documentation requires, and nothing
else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.money import Money, decimals_of, parse_number, to_money
from mmo_simulators.common.faults import RequestRejected
from mmo_simulators.common.messages import json_response, parse_json_object

# The currencies of Wave's markets.
CURRENCIES: Final = ("XOF", "UGX", "GMD")

# No sign, no exponent, no zeros in front.
_AMOUNT = re.compile(r"(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,2})?", re.ASCII)
_HTTPS = re.compile(r"https://[^\s]+", re.ASCII)
_MOBILE = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII)

# What a member's text must be.
_FORMS: Final[Mapping[str, Callable[[str], object]]] = {
    "amount": _AMOUNT.fullmatch,
    "receive_amount": _AMOUNT.fullmatch,
    "currency": CURRENCIES.__contains__,
    "success_url": _HTTPS.fullmatch,
    "error_url": _HTTPS.fullmatch,
    "mobile": _MOBILE.fullmatch,
    "restrict_payer_mobile": _MOBILE.fullmatch,
    "client_reference": lambda text: len(text) <= 255,
    "name": lambda text: len(text) <= 255,
    "national_id": lambda text: len(text) <= 255,
    "payment_reason": lambda text: len(text) <= 40,
}

SESSION_MEMBERS: Final = ("amount", "currency", "success_url", "error_url")

# The members that a request must have; those of _FORMS may be there as well.
PAYOUT_MEMBERS: Final = ("currency", "receive_amount", "mobile")


def rejected(status: int, code: str, message: str, *details: Mapping[str, Any]) -> RequestRejected:
    """Return Wave's refusal of a request."""
    document: dict[str, Any] = {"code": code, "message": message}
    if details:
        document["details"] = details
    return RequestRejected(json_response(status, document))


def check_key(request: HttpRequest, api_key: str) -> None:
    """Raise RequestRejected unless the request has the wallet's key."""
    value = (request.value(b"authorization") or b"").decode("latin-1")
    if not value:
        words = "Your request should include an HTTP auth header."
        raise rejected(401, "missing-auth-header", words)

    # Each fault of a key has a code of its own (docs.wave.com/business).
    scheme, _, key = value.partition(" ")
    if scheme.lower() != "bearer":
        raise rejected(401, "invalid-auth", "Your HTTP auth header can't be processed.")
    if not key:
        raise rejected(401, "api-key-not-provided", "Your request should include an API key.")

    if key != api_key:
        words = "The key you provided doesn't exist in our system."
        raise rejected(401, "no-matching-api-key", words)


def parse_document(request: HttpRequest, required: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the body of a request with these members. Raises RequestRejected, which names each
    member that is missing or of the wrong form."""
    try:
        document = parse_json_object(request.body)
    except ValueError:
        raise rejected(400, "request-parsing-error", "The body is no JSON object.") from None

    # All faults at once, as Wave lists them in `details`.
    faults = [
        {"loc": [name], "msg": "field required"} for name in required if document.get(name) is None
    ]
    for name, value in document.items():
        form = _FORMS.get(name)
        if form is not None and value is not None and not (isinstance(value, str) and form(value)):
            faults.append({"loc": [name], "msg": "invalid value"})

    if faults:
        raise rejected(400, "request-validation-error", "Request invalid", *faults)

    return document


def parse_amount(document: Mapping[str, Any], name: str, currency: str) -> Money:
    """Return the amount of a request, in the currency of the wallet. Raises RequestRejected."""
    if document["currency"] != currency:
        raise rejected(400, "currency-mismatch", "The wallet has another currency.")
    number = parse_number(document[name])
    decimals = len(document[name].partition(".")[2])
    if number <= 0 or decimals > decimals_of(currency):
        words = "Request invalid"
        detail = {"loc": [name], "msg": "invalid value"}
        raise rejected(400, "request-validation-error", words, detail)
    return to_money(number, currency)
