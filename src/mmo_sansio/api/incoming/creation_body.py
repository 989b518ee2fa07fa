"""Parses the body of a creation request, field by field in the order of C9 (clauses M1 to M4, C3,
C5, C7 to C9, C13, C14)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from itertools import islice
from typing import Final

from attrs import define, field

from mmo_sansio.http.egress_rules import (
    URL_LENGTH_MAX,
    EgressRules,
    delivery_url_error,
    redirect_url_error,
    result_host_error,
)
from mmo_sansio.messages.inputs import Draft
from mmo_sansio.values.model import Brand, Operation, Party
from mmo_sansio.values.money import NUMBER_CHARACTERS_MAX, AmountError, check_amount, parse_number
from mmo_sansio.values.near_match import closest_name
from mmo_sansio.values.problems import FieldError, ProblemError, validation_problem
from mmo_sansio.values.strict_json import JsonNumber, JsonValue

# The specification's own limits, in characters (code points, G8).
METHOD_MAX: Final = 100

# Characters of references, and of the id and the names of a party.
TEXT_MAX: Final = 255

MSISDN_MIN: Final = 3
MSISDN_MAX: Final = 20
EMAIL_MAX: Final = 320
COUNTRY_MAX: Final = 10
LABELS_MAX: Final = 10

# Bytes in which every member fits at its greatest length, with each character escaped (RFC 8259
# section 7): 12 bytes for one outside the basic plane.
LARGEST_BODY_BYTES: Final = 256 * 1024

LABEL_KEY_MAX: Final = 255
LABEL_TEXT_MAX: Final = 1_000
# Lower case passes here, and fails by its meaning: no brand has limits for `kes` (M2).
CURRENCY_PATTERN: Final = r"[A-Za-z]{3}"
MSISDN_PATTERN: Final = r"\+?[1-9][0-9]*"
_LETTER_OR_DIGIT: Final = r"A-Za-z0-9\u00c0-\u1fff\u3005-\u3007\u3040-\ud7ff"
_DNS_LABEL: Final = rf"[{_LETTER_OR_DIGIT}](?:[{_LETTER_OR_DIGIT}-]{{0,61}}[{_LETTER_OR_DIGIT}])?"

# 1 to 64 characters without white space, one `@`, at least two DNS labels, which may be
# international ones (RFC 6531); `is_email` looks closer at those.
EMAIL_PATTERN: Final = rf"[^@\s\x00-\x1f\x7f-\x9f]{{1,64}}@{_DNS_LABEL}(?:\.{_DNS_LABEL})+"

# Characters that no text of a request may have (G7).
CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_CURRENCY: Final = re.compile(CURRENCY_PATTERN)
_MSISDN: Final = re.compile(MSISDN_PATTERN)
_EMAIL: Final = re.compile(EMAIL_PATTERN)
_PLAUSIBLE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_NAMES_COMPARED: Final = 20

# Share of characters that a misspelt member has in common with the right one; no two members have
# as many, except payer and payee, of which one is sent for the other.
_SIMILAR: Final = 0.75

# The party's member; a tax payout has none, its recipient is implied (M5).
PARTY_NAMES: Final = {
    Operation.DIRECT_PAYIN: "payer",
    Operation.DIRECT_PAYOUT: "payee",
    Operation.QR_PAYIN: "payer",
    Operation.WEB_PAYIN: "payer",
}


def parse_draft(
    operation: Operation,
    method: str,
    members: Members,
    *,
    brand: Brand,
    egress_rules: EgressRules,
    scenario: str | None = None,
) -> Draft:
    """Return the draft that a creation request describes.

    Adds every error to `members.errors`, in the order of C9; if there are any, the draft is a
    stand-in and must not be used."""
    if len(method) > METHOD_MAX:
        members.add_error("method", f"must have at most {METHOD_MAX} characters")

    # Out of the call, as the amount is one member and two fields of the draft.
    value, currency = _amount(members)
    is_qr, is_web = operation is Operation.QR_PAYIN, operation is Operation.WEB_PAYIN
    return Draft(  # Arguments are evaluated in the order that is written here: that of C9.
        operation=operation,
        method=method,
        amount=value,
        currency=currency,
        party=_party(members, PARTY_NAMES[operation]) if operation in PARTY_NAMES else None,
        country=members.text("country", max_length=COUNTRY_MAX),
        result_url=_delivery_url(members, "resultUrl", egress_rules, brand),
        display_qr_url=_delivery_url(members, "displayQrUrl", egress_rules, brand)
        if is_qr
        else None,
        success_redirect_url=_redirect_url(members, "successRedirectUrl", brand)
        if is_web
        else None,
        error_redirect_url=_redirect_url(members, "errorRedirectUrl", brand) if is_web else None,
        merchant_reference=_merchant_reference(members),
        reconciliation_reference=_reconciliation_reference(members, operation),
        labels=_labels(members),
        scenario=scenario,
    )


def _amount(body: Members) -> tuple[Decimal, str]:
    """Parse value and currency (M1, M2); the payment rules check that they fit together."""
    amount = body.object("amount")
    if amount is None:
        return Decimal(0), ""
    return _amount_value(amount), _currency(amount)


def _amount_value(amount: Members) -> Decimal:
    match amount.values.get("value"):
        case None:
            amount.add_required_error("value")
        # The text of the number, as a float would have lost digits already (M1).
        case JsonNumber(text):
            try:
                return check_amount(parse_number(text))
            except AmountError as error:
                amount.add_error("value", str(error))
        case _:
            amount.add_error("value", "must be a number, such as 150.00 without quotation marks")

    return Decimal(0)


def _currency(amount: Members) -> str:
    match amount.values.get("currency"):
        case None:
            amount.add_required_error("currency")
        case str(code) if _CURRENCY.fullmatch(code):
            return code
        case _:
            amount.add_error("currency", "must be an ISO 4217 code: three letters, such as KES")
    return ""


def _party(body: Members, name: str) -> Party | None:
    """Parse the payer or payee (M3)."""
    party = body.object(name)
    if party is None:
        return None

    return Party(
        id=party.text("id", max_length=TEXT_MAX),
        msisdn=_msisdn(party),
        first_name=party.optional_text("firstName", max_length=TEXT_MAX),
        last_name=party.optional_text("lastName", max_length=TEXT_MAX),
        email=_email(party),
    )


def _msisdn(party: Members) -> str:
    msisdn = party.text("msisdn", min_length=MSISDN_MIN, max_length=MSISDN_MAX)
    if msisdn and not _MSISDN.fullmatch(msisdn):
        party.add_error(
            "msisdn",
            "must be digits that begin with the country's code, with or without a leading '+'",
        )
    return msisdn


def _email(party: Members) -> str | None:
    email = party.optional_text("email", max_length=EMAIL_MAX)
    if email is not None and not is_email(email):
        party.add_error("email", "must be an e-mail address, such as ada@shop.example")
    return email


def is_email(text: str) -> bool:
    """Tell whether the text of at most EMAIL_MAX characters has the form of an e-mail address
    (M3)."""
    if not _EMAIL.fullmatch(text):
        return False

    # Of ASCII the expression has seen all; an international name has to convert as well.
    if text.isascii():
        return True

    try:
        text.rpartition("@")[2].encode("idna")
    except UnicodeError:
        return False

    return True


def _delivery_url(body: Members, name: str, rules: EgressRules, brand: Brand) -> str:
    """Parse a required URL that the gateway itself will call (C8)."""
    url = body.text(name, max_length=URL_LENGTH_MAX)
    if not url:
        return url

    # What is wrong with any URL comes before what is wrong for this brand.
    error = delivery_url_error(url, rules=rules, brand_host=brand.host) or result_host_error(
        url, brand.result_hosts
    )
    if error is not None:
        body.add_error(name, f"can't be used. {error.removesuffix('.')}")
    return url


def _redirect_url(body: Members, name: str, brand: Brand) -> str | None:
    """Parse an optional URL that the payer's browser will be sent to (C8)."""
    url = body.optional_text(name, max_length=URL_LENGTH_MAX)
    if url is None:
        return None
    error = redirect_url_error(url, extra_schemes=brand.redirect_schemes)
    if error is not None:
        body.add_error(name, f"can't be used. {error.removesuffix('.')}")
    return url


def _merchant_reference(body: Members) -> str:
    reference = body.text("merchantReference", max_length=TEXT_MAX)
    if reference in (".", ".."):
        body.add_error("merchantReference", "may not be '.' or '..', as no URL reaches them")
    return reference


def _reconciliation_reference(body: Members, operation: Operation) -> str | None:
    """Parse the reference, which is optional except for a tax payout (C5, C7)."""
    if operation is Operation.DIRECT_TAXPAYOUT:
        return body.text("reconciliationReference", max_length=TEXT_MAX)
    return body.optional_text("reconciliationReference", max_length=TEXT_MAX)


def _labels(body: Members) -> str | None:
    """Return the labels as the text of a JSON object with the same value as the merchant's (M4)."""
    # `null` is absent, and no error (G4).
    labels = None
    if body.values.get("labels") is not None:
        labels = body.object("labels")
    if labels is None:
        return None
    if len(labels.values) > LABELS_MAX:
        body.add_error("labels", f"must have at most {LABELS_MAX} entries")
        return None

    return "{" + ",".join(_label(body, labels, key) for key in labels.values) + "}"


def _label(body: Members, labels: Members, key: str) -> str:
    """Return one entry as JSON text; an invalid key is an error of the labels as a whole."""
    error = text_error(key, max_length=LABEL_KEY_MAX)
    if not key:
        error = "may not be empty"

    if error is not None:
        body.add_error("labels", f"has a key that {error}")
        return ""

    value = labels.values[key]
    error = _label_error(value)
    if error is not None:
        labels.add_error(key, error)
        return ""

    # A number keeps the digits that the merchant has written (M4).
    if isinstance(value, JsonNumber):
        return f"{_to_json(key)}:{value.text}"

    return f"{_to_json(key)}:{_to_json(value)}"


def _label_error(value: JsonValue) -> str | None:
    match value:
        case str():
            return text_error(value, max_length=LABEL_TEXT_MAX)
        case JsonNumber(text) if len(text) > NUMBER_CHARACTERS_MAX:
            return f"must be a number of at most {NUMBER_CHARACTERS_MAX} characters"
        case JsonNumber() | bool() | None:
            return None
        case _:
            return "must be a string, a number, true, false or null"


_to_json: Final = json.JSONEncoder(ensure_ascii=False).encode


@define
class FieldErrors:
    """Collects what is wrong with a request."""

    errors: list[FieldError] = field(factory=list)

    def add(self, name: str, problem: str) -> None:
        """Add a problem of the field with this dotted name, such as "must be a string"."""
        self.errors.append(FieldError(name, f"'{name}' {problem}."))

    def raise_if_any(self) -> None:
        """Raise ProblemError with all errors (P1), if there are any."""
        if self.errors:
            raise ProblemError(validation_problem(self.errors))


@define
class Members:
    """Reads the members of one object by name; unknown ones are ignored, null is absent, and so is
    an optional text that is empty, as forms send it (G4).

    The value of an invalid member is a stand-in, good for reading on until
    `FieldErrors.raise_if_any`."""

    values: Mapping[str, JsonValue]
    errors: FieldErrors
    path: str = ""
    """The prefix of a member's dotted path: empty, or `payer.`."""

    def add_error(self, name: str, problem: str) -> None:
        self.errors.add(self.path + name, problem)

    def add_required_error(self, name: str) -> None:
        """Add that this member is missing, with the member that was probably sent instead."""
        # Only plausible names are echoed, and few are compared: the body is a stranger's.
        sent = (value for value in self.values if _PLAUSIBLE_NAME.fullmatch(value))
        near = closest_name(name, islice(sent, _NAMES_COMPARED), cutoff=_SIMILAR)
        self.add_error(name, "is required" if near is None else f"is required, not '{near}'")

    def text(self, name: str, *, max_length: int, min_length: int = 1) -> str:
        """Return a required string of limited code points, not blank (G8); empty if it is
        invalid."""
        given = self.values.get(name)
        if (
            isinstance(given, str)
            and min_length <= len(given) <= max_length
            and given.isprintable()
        ):
            if not given.isspace():
                # Nearly every text ends here: what is printable has no control characters.
                return given
        elif given is None:
            self.add_required_error(name)
            return ""

        value = self._valid_text(name, max_length=max_length)
        if value is None:
            return ""

        if not value or value.isspace():
            self.add_error(name, "may not be blank")
            return ""

        if len(value) < min_length:
            self.add_error(name, f"must have at least {min_length} characters")
            return ""

        return value

    def optional_text(self, name: str, *, max_length: int) -> str | None:
        """Return a string of at most `max_length` code points (G8); None if it is absent or
        empty."""
        given = self.values.get(name)
        if given is None:
            return None
        # What is printable has no control characters: nearly every text ends here.
        if isinstance(given, str) and len(given) <= max_length and given.isprintable():
            return given or None
        # Forms send an empty text for a field that was left out (G4).
        return self._valid_text(name, max_length=max_length) or None

    def _valid_text(self, name: str, *, max_length: int) -> str | None:
        value = self.values[name]
        error = text_error(value, max_length=max_length)
        if error is None and isinstance(value, str):
            return value
        self.add_error(name, error or "must be a string")
        return None

    def object(self, name: str) -> Members | None:
        """Return the members of a required object, or None if it is invalid."""
        value = self.values.get(name)
        if isinstance(value, dict):
            return Members(value, self.errors, f"{self.path}{name}.")
        if value is None:
            self.add_required_error(name)
        else:
            self.add_error(name, "must be an object")
        return None


def text_error(value: JsonValue, *, max_length: int) -> str | None:
    """Return what is wrong with a string of at most `max_length` code points, such as "must be a
    string"; None if nothing is."""
    if not isinstance(value, str):
        return "must be a string"
    if len(value) > max_length:
        return f"must have at most {max_length} characters"
    if CONTROL_CHARACTERS.search(value):
        return "may not contain control characters"
    return None
