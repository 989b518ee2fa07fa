"""Checks the requests to the simulated pawaPay for what its documentation requires, and nothing
else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.money import AmountError, Money, to_money
from mmo_simulators.common.messages import json_response, parse_json_object
from mmo_simulators.operators.pawapay.markets import (
    PROVIDERS,
    Authorisation,
    OperationType,
    SimulatedCountry,
    SimulatedProvider,
)

# The HTTP status of a rejection by its failure code (documented); 200 for any other.
_STATUSES: Final[Mapping[str, int]] = {
    "NO_AUTHENTICATION": 401,
    **dict.fromkeys(("AUTHENTICATION_ERROR", "HTTP_SIGNATURE_ERROR"), 403),
    **dict.fromkeys(
        ("INVALID_INPUT", "MISSING_PARAMETER", "UNSUPPORTED_PARAMETER", "INVALID_PARAMETER"), 400
    ),
}

_UUID4 = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE
)

# The members of a submission that are text, as strict as the documentation.
_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(("depositId", "payoutId", "refundId"), _UUID4),
    "amount": re.compile(r"(0|[1-9][0-9]{0,17})(\.[0-9]{0,3}[1-9])?", re.ASCII),
    "currency": re.compile(r"[A-Z]{3}", re.ASCII),
    "customerMessage": re.compile(r"[a-zA-Z0-9 ]{4,22}", re.ASCII),
    "clientReferenceId": re.compile(r".{1,36}"),
    "preAuthorisationCode": re.compile(r".{1,36}"),
    **dict.fromkeys(
        ("successfulUrl", "failedUrl"), re.compile(r"https?://[!-~]{1,2040}", re.ASCII)
    ),
}

# Documented: a submission has at most ten entries.
_METADATA_MAX: Final = 10

# The members that a submission must have, and those that it may have as well as clientReferenceId
# and metadata.
_MEMBERS: Final[Mapping[OperationType, tuple[str, str]]] = {
    OperationType.DEPOSIT: (
        "depositId payer amount currency",
        "customerMessage preAuthorisationCode successfulUrl failedUrl",
    ),
    OperationType.PAYOUT: ("payoutId recipient amount currency", "customerMessage"),
    OperationType.REFUND: ("refundId depositId", "amount currency"),
}


class Rejected(Exception):
    """Raised for a request that pawaPay rejects with this failure code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.reason = {"failureCode": code, "failureMessage": message}

    def response(self, members: Mapping[str, Any]) -> HttpResponse:
        """Return the rejection as it is answered, with these members before its reason."""
        return json_response(
            _STATUSES.get(self.reason["failureCode"], 200),
            {**members, "failureReason": self.reason},
        )


def check_token(request: HttpRequest, token: str) -> None:
    """Raise Rejected unless the request has the account's token."""
    scheme, _, value = (request.value(b"authorization") or b"").decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not value:
        raise Rejected("NO_AUTHENTICATION", "The API token is missing from the request.")
    if value != token:
        raise Rejected("AUTHENTICATION_ERROR", "The API token in the request is invalid.")


def parse_submission(request: HttpRequest, operation: OperationType) -> dict[str, Any]:
    """Return the body of a submission, whose members have the documented forms. Raises Rejected."""
    try:
        document = parse_json_object(request.body)
    except ValueError:
        raise Rejected("INVALID_INPUT", "We are unable to parse the body of the request.") from None

    # In this order: what is missing, what is unknown, and then the form of each.
    required, optional = (member.split() for member in _MEMBERS[operation])
    for name in required:
        if name not in document:
            raise Rejected("MISSING_PARAMETER", f"The parameter '{name}' is missing.")

    if unknown := sorted(document.keys() - {*required, *optional, "clientReferenceId", "metadata"}):
        raise Rejected("UNSUPPORTED_PARAMETER", f"The parameter '{unknown[0]}' is not supported.")

    for name, form in _FORMS.items():
        value = document.get(name)
        if name in document and not (isinstance(value, str) and form.fullmatch(value)):
            raise _invalid(name)

    metadata = document.get("metadata", [])
    if (
        not isinstance(metadata, list)
        or len(metadata) > _METADATA_MAX
        or not all(map(_is_metadata, metadata))
    ):
        raise _invalid("metadata")

    return document


def _is_metadata(field: Any) -> bool:
    if not isinstance(field, dict) or len(field.keys() - {"isPII"}) != 1:
        return False
    return all(isinstance(value, str | bool) for value in field.values())


def parse_party(
    document: Mapping[str, Any], operation: OperationType
) -> tuple[SimulatedCountry, SimulatedProvider, str]:
    """Return the country, the provider and the number of the other party. Raises Rejected."""
    name = operation.party_member
    party = document[name]
    account = None
    if isinstance(party, dict):
        account = party.get("accountDetails")

    if not isinstance(account, dict) or party.get("type") != "MMO":
        raise _invalid(name)

    msisdn = account.get("phoneNumber")
    code = account.get("provider")
    if not isinstance(msisdn, str) or not isinstance(code, str):
        raise Rejected(
            "MISSING_PARAMETER", f"'{name}.accountDetails' needs 'phoneNumber' and 'provider'."
        )

    if code not in PROVIDERS:
        raise Rejected("INVALID_PROVIDER", f"The provider '{code}' is not supported.")

    # With the country's code and without a plus sign (documented); the length is checked roughly.
    country, provider = PROVIDERS[code]
    if re.fullmatch(rf"{country.prefix}[0-9]{{7,12}}", msisdn, re.ASCII) is None:
        words = f"The phone number '{msisdn}' seems to be invalid for the provider '{code}'."
        raise Rejected("INVALID_PHONE_NUMBER", words)

    return country, provider, msisdn


def parse_amount(
    document: Mapping[str, Any],
    country: SimulatedCountry,
    provider: SimulatedProvider,
    operation: OperationType,
) -> Money:
    """Return the amount, which the provider has to take. Raises Rejected."""
    text = document["amount"]
    currency = document["currency"]
    if currency not in country.limits:
        raise Rejected(
            "INVALID_CURRENCY", f"The currency '{currency}' is not supported by '{provider.code}'."
        )

    try:
        amount = to_money(Decimal(text), currency)
    except AmountError:
        amount = None

    # Decimals first, then the limits: so that the reason names what is to be mended.
    if amount is None or len(text.partition(".")[2]) > provider.decimals(operation):
        raise Rejected(
            "INVALID_AMOUNT",
            f"The amount '{text}' has more decimals than '{provider.code}' supports.",
        )

    least, greatest = country.limits[currency]
    if not Decimal(least) <= Decimal(text) <= Decimal(greatest):
        raise Rejected(
            "AMOUNT_OUT_OF_BOUNDS", f"The amount must be from {least} to {greatest} {currency}."
        )

    return amount


def predict_provider(request: HttpRequest) -> HttpResponse:
    """Answer of which provider the number in a request probably is: the one whose test numbers
    begin alike for longest. Raises Rejected for a request without a number."""
    try:
        submitted = parse_json_object(request.body).get("phoneNumber")
    except ValueError:
        raise Rejected("INVALID_INPUT", "We are unable to parse the body of the request.") from None

    if not isinstance(submitted, str):
        raise Rejected("MISSING_PARAMETER", "The parameter 'phoneNumber' is missing.")

    # Cleaned, as pawaPay writes it back (documented).
    number = re.sub(r"[^0-9]", "", submitted)
    fitting = [
        (_alike(number, provider.numbers), provider.code, country.code)
        for country, provider in PROVIDERS.values()
        if re.fullmatch(rf"{country.prefix}[0-9]{{7,12}}", number, re.ASCII)
    ]
    if not fitting:
        words = "The phone number seems to be invalid."
        reason = {"failureCode": "INVALID_PHONE_NUMBER", "failureMessage": words}
        return json_response(400, {"failureReason": reason})

    _, code, country_code = max(fitting)
    prediction = {"country": country_code, "provider": code, "phoneNumber": number}
    return json_response(200, prediction)


def _alike(number: str, other: str) -> int:
    """Return how many digits two numbers have in common from the first on."""
    return next(
        (place for place, (one, two) in enumerate(zip(number, other, strict=False)) if one != two),
        min(len(number), len(other)),
    )


def check_code(document: Mapping[str, Any], provider: SimulatedProvider) -> None:
    """Raise Rejected for a deposit without the code that this provider needs."""
    needs_code = provider.authorisation is Authorisation.PREAUTH
    if needs_code and "preAuthorisationCode" not in document:
        raise Rejected("MISSING_PARAMETER", "The parameter 'preAuthorisationCode' is missing.")


def _invalid(name: str) -> Rejected:
    return Rejected("INVALID_PARAMETER", f"The value of '{name}' is invalid.")
