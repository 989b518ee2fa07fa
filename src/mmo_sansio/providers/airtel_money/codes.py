"""Translates the operator's codes, by one table for each product and one for the router.

A code alone seldom settles a payment, so each row says two things. `outcome` is what the code means
by itself, and counts where no other part of the response contradicts it. `error_code` is the reason
of the failure when the payment's own status says that it failed (`TF`), whatever the code means by
itself: so "success" and "in process" have a reason, too."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from attrs import frozen

from mmo_sansio.values.clock import MINUTE, Span
from mmo_sansio.values.error_codes import ErrorCode


class AirtelOutcome(StrEnum):
    """Lists the meanings of a code by itself."""

    DONE = "done"
    PENDING = "open"
    """Nothing is final: poll."""
    REJECTED = "refused"
    """The payment was not and will not be carried out."""
    NOT_FOUND = "never taken"
    """The operator knows no such payment; final only after a safe wait."""


@frozen
class AirtelCode:
    """Defines a row of a table."""

    native: str
    meaning: str
    outcome: AirtelOutcome
    error_code: ErrorCode | None
    """The reason of a failure; None where a failure with this code contradicts itself, and causes
    another poll."""
    message: str | None = None
    """The row is only for messages with this text; None: for all."""
    is_ambiguous: bool = False
    """Whether a failure with this code counts only once polls have told nothing else for
    AMBIGUOUS_FAILURE_FINAL_AFTER, or an authentic callback has told the failure as well."""


_DONE = AirtelOutcome.DONE
_PENDING = AirtelOutcome.PENDING
_REJECTED = AirtelOutcome.REJECTED
_MISCONFIGURED = ErrorCode.MERCHANT_MISCONFIGURED
_DECLINED = ErrorCode.TRANSACTION_DECLINED

# A payment has failed once an ambiguous failure is all that was heard of it for so long: no prompt
# is open for so long, and the enquiry is asked several times in between.
AMBIGUOUS_FAILURE_FINAL_AFTER: Final = Span(20 * MINUTE)


def _ambiguous(
    native: str, error_code: ErrorCode = _DECLINED, *, message: str | None = None
) -> AirtelCode:
    return AirtelCode(native, "ambiguous", _PENDING, error_code, message, is_ambiguous=True)


# Pay-ins. A second list in circulation differs in 1007 and 1009; two independent ones agree with
# this. The short family (`DP008001…`) counts otherwise: it was seen in Uganda (2022), Niger (2022)
# and Zambia (2023), and no list of it is published.
COLLECTION: tuple[AirtelCode, ...] = (
    # Observed in callbacks of Uganda (2025-05): the message says what the code leaves open.
    _ambiguous("DP00800001000", ErrorCode.USER_ACCOUNT_BLOCKED, message="payer is barred"),
    _ambiguous(
        "DP00800001000",
        ErrorCode.AMOUNT_OUT_OF_RANGE,
        message="amount entered is not within the allowed range",
    ),
    _ambiguous("DP00800001000"),
    AirtelCode("DP00800001001", "success", _DONE, _DECLINED),
    AirtelCode("DP00800001002", "incorrect PIN", _REJECTED, ErrorCode.USER_WRONG_PIN),
    AirtelCode("DP00800001003", "wallet limit exceeded", _REJECTED, ErrorCode.USER_LIMIT_EXCEEDED),
    AirtelCode("DP00800001004", "amount below minimum", _REJECTED, ErrorCode.AMOUNT_OUT_OF_RANGE),
    # One code, two meanings (a note on Airtel Zambia's portal): the message tells them apart.
    AirtelCode(
        "DP00800001005",
        "no such number",
        _REJECTED,
        ErrorCode.USER_NOT_FOUND,
        message="msisdn not found",
    ),
    AirtelCode("DP00800001005", "the PIN was not entered", _REJECTED, ErrorCode.USER_TIMEOUT),
    AirtelCode("DP00800001006", "in process", _PENDING, _DECLINED),
    AirtelCode("DP00800001007", "not enough balance", _REJECTED, ErrorCode.USER_INSUFFICIENT_FUNDS),
    # In some markets the payer has refused: `refusal_is_of_payer`.
    AirtelCode("DP00800001008", "refused", _REJECTED, _DECLINED),
    AirtelCode("DP00800001009", "do not honour", _REJECTED, _DECLINED),
    # "Initiator is invalid": observed in callbacks of Uganda (2025-05).
    AirtelCode(
        "DP00800001010",
        "the payer's number is invalid",
        _REJECTED,
        ErrorCode.USER_NOT_FOUND,
        message="initiator is invalid",
    ),
    AirtelCode("DP00800001010", "our till is barred or not registered", _REJECTED, _MISCONFIGURED),
    AirtelCode("DP00800001024", "timed out", _PENDING, ErrorCode.PROVIDER_TIMEOUT),
    AirtelCode("DP00800001025", "not found", _PENDING, ErrorCode.PROVIDER_TIMEOUT),
    AirtelCode("DP00800001026", "the signature does not match", _REJECTED, _MISCONFIGURED),
    AirtelCode("DP00800001029", "expired", _REJECTED, ErrorCode.USER_TIMEOUT),
    # The short family: observed, and documented nowhere.
    AirtelCode("DP008001001", "success", _DONE, _DECLINED),
    AirtelCode("DP008001013", "refused", _REJECTED, _DECLINED),
    AirtelCode("DP008001016", "the payer's number is invalid", _REJECTED, ErrorCode.USER_NOT_FOUND),
    AirtelCode("DP008001021", "not enough balance", _REJECTED, ErrorCode.USER_INSUFFICIENT_FUNDS),
    AirtelCode("DP008001023", "incorrect PIN", _REJECTED, ErrorCode.USER_WRONG_PIN),
)

# Pay-outs, as three programs' lists report them; the numbers of a wrong signature differ in them.
DISBURSEMENT: tuple[AirtelCode, ...] = (
    _ambiguous("DP00900001000"),
    AirtelCode("DP00900001001", "success", _DONE, None),
    AirtelCode("DP00900001003", "daily maximum reached", _REJECTED, ErrorCode.USER_LIMIT_EXCEEDED),
    AirtelCode("DP00900001004", "amount out of range", _REJECTED, ErrorCode.AMOUNT_OUT_OF_RANGE),
    AirtelCode("DP00900001005", "failed", _REJECTED, _DECLINED),
    AirtelCode("DP00900001006", "in process", _PENDING, _DECLINED),
    AirtelCode(
        "DP00900001007", "our wallet lacks funds", _REJECTED, ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
    ),
    AirtelCode("DP00900001009", "the payee is invalid", _REJECTED, ErrorCode.USER_NOT_FOUND),
    AirtelCode("DP00900001010", "our user may not pay", _REJECTED, _MISCONFIGURED),
    # Perhaps another payment: this one is asked about first.
    AirtelCode(
        "DP00900001011", "a similar transaction exists", _PENDING, ErrorCode.DUPLICATE_REQUEST
    ),
    AirtelCode("DP00900001012", "wrong mobile number", _REJECTED, ErrorCode.USER_NOT_FOUND),
    AirtelCode("DP00900001013", "refused", _REJECTED, _DECLINED),
    AirtelCode(
        "DP00900001014", "timed out, may have been processed", _PENDING, ErrorCode.PROVIDER_TIMEOUT
    ),
    # A failure that is not found, or was sent before, contradicts itself: asked again.
    AirtelCode("DP00900001015", "not found", _PENDING, None),
    AirtelCode("DP00900001016", "signature or authorisation", _REJECTED, _MISCONFIGURED),
    AirtelCode("DP00900001017", "the transaction id was used before", _PENDING, None),
    AirtelCode("DP00900001018", "signature or authorisation", _REJECTED, _MISCONFIGURED),
    AirtelCode("DP00900001019", "signature or authorisation", _REJECTED, _MISCONFIGURED),
)

# Codes of the router in front of the products, and old codes: reported by two lists.
ROUTER: tuple[AirtelCode, ...] = (
    AirtelCode("ROUTER001", "no wallet configured", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER003", "a parameter is missing", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER005", "no route to the country", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER006", "bad country", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER007", "not provisioned for the country", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER112", "bad currency", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER114", "our PIN could not be validated", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER115", "our PIN is wrong", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER116", "our PIN could not be decrypted", _REJECTED, _MISCONFIGURED),
    AirtelCode("ROUTER117", "request timeout", _PENDING, ErrorCode.PROVIDER_TIMEOUT),
    AirtelCode("ROUTER119", "no currency", _REJECTED, _MISCONFIGURED),
    _ambiguous("ESB000001"),
    _ambiguous("ESB000004"),
    _ambiguous("ESB000008"),
    # Of the request: what became of the payment the other members say.
    AirtelCode("ESB000010", "success of the request", _PENDING, _DECLINED),
    AirtelCode("ESB000011", "failed", _REJECTED, _DECLINED),
    _ambiguous("ESB000014"),
    _ambiguous("0000900"),
    AirtelCode("ESB000033", "bad length of the number", _REJECTED, ErrorCode.USER_NOT_FOUND),
    AirtelCode("ESB000034", "bad country or currency", _REJECTED, _MISCONFIGURED),
    AirtelCode("ESB000035", "bad country or currency", _REJECTED, _MISCONFIGURED),
    AirtelCode("ESB000036", "bad length of the number", _REJECTED, ErrorCode.USER_NOT_FOUND),
    AirtelCode("ESB000039", "vendor not configured", _REJECTED, _MISCONFIGURED),
    AirtelCode("ESB000041", "the transaction id was used before", _PENDING, None),
    AirtelCode("ESB000045", "no such transaction", AirtelOutcome.NOT_FOUND, None),
    AirtelCode("DP02200000002", "user not found", _REJECTED, ErrorCode.USER_NOT_FOUND),
    AirtelCode("DP02100000002", "user not found", _REJECTED, ErrorCode.USER_NOT_FOUND),
)

# Codes of a user enquiry about a number without an account. `DP02200000000`, a failed enquiry, is
# none: two public clients take it for either.
UNKNOWN_USER = frozenset({"DP02200000002", "DP02100000002", "ESB000033", "ESB000036"})

# Codes that refuse our application, its signature or our PIN, which every payment would meet.
ACCOUNT_REFUSALS = frozenset(
    {
        "DP00800001010",
        "DP00800001026",
        "DP00900001010",
        "DP00900001016",
        "DP00900001018",
        "DP00900001019",
        "ROUTER001",
        "ROUTER005",
        "ROUTER007",
        "ROUTER114",
        "ROUTER115",
        "ROUTER116",
        "ESB000039",
    }
)

# Codes of a response when the operator has a new key, which is then fetched, once.
STALE_KEY_CODES = frozenset({"DP00800001026", "ROUTER116"})

# The code for a collection that is not found, from the product. It fails no payment by itself, so
# its row is PENDING; the router's own is a row with NOT_FOUND, which counts after a safe wait.
NOT_FOUND_CODE = "DP00800001025"

# The payer's rejection in markets that confirm it (`refusal_is_of_payer`); in other markets any
# rejection.
REJECTED_BY_PAYER_CODE = "DP00800001008"

# Statuses of responses without a code after which a submission was certainly not carried out.
HTTP_REJECTIONS: Mapping[int, ErrorCode] = MappingProxyType(
    {401: _MISCONFIGURED, 403: _MISCONFIGURED}
)


def find_code(
    native: str | None, message: str | None, product: tuple[AirtelCode, ...]
) -> AirtelCode | None:
    """Return the row for a code and its message, of the product or the router; None for an
    undocumented code."""
    text = (message or "").lower()
    # The first row that fits counts: those for a message stand before the one for all.
    for code in product + ROUTER:
        if code.native == native and (code.message is None or code.message in text):
            return code
    return None


def is_inconclusive_status(status: int) -> bool:
    """Return whether a response with this HTTP status leaves the outcome open, whatever its body
    says."""
    # A proxy may have made the body, and the operator have carried it out (S6).
    return status == 408 or status >= 500
