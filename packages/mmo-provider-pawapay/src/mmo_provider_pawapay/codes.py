"""Translates pawaPay's failure codes, which are the same in a rejected request and in a failed
payment.

Source: https://docs.pawapay.io/v2/docs/failure_codes
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from mmo_sansio import ErrorCode
from mmo_sansio.providers import Type


@frozen
class Failure:
    """Holds the error codes of a failure code, which depend on whose wallet is debited."""

    payin: ErrorCode
    payout: ErrorCode
    reason: str
    """What has happened, for staff: the message where pawaPay gives none."""

    def error_code(self, type: Type) -> ErrorCode:
        if type is Type.PAYIN:
            return self.payin
        return self.payout


def _both(code: ErrorCode, reason: str) -> Failure:
    return Failure(code, code, reason)


def _misconfigured(reason: str) -> Failure:
    return _both(ErrorCode.MERCHANT_MISCONFIGURED, reason)


_DECLINED = ErrorCode.TRANSACTION_DECLINED

# The meaning of every documented code; any other is `transaction_declined`.
FAILURES: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        # Of requests, as pawaPay's page lists them.
        "NO_AUTHENTICATION": _misconfigured("The request had no API token."),
        "AUTHENTICATION_ERROR": _misconfigured("pawaPay does not know the API token."),
        "AUTHORISATION_ERROR": _misconfigured("The API token does not permit this request."),
        "HTTP_SIGNATURE_ERROR": _misconfigured(
            "pawaPay takes signed requests only, and could not verify this one."
        ),
        "INVALID_INPUT": _misconfigured("pawaPay could not read the request."),
        "MISSING_PARAMETER": _misconfigured("The request lacks something that this market needs."),
        "UNSUPPORTED_PARAMETER": _misconfigured(
            "The request has something that pawaPay does not know."
        ),
        "INVALID_PARAMETER": _misconfigured("The request has a value that pawaPay does not take."),
        "DUPLICATE_METADATA_FIELD": _misconfigured("The request has a field of metadata twice."),
        "AMOUNT_OUT_OF_BOUNDS": _both(
            ErrorCode.AMOUNT_OUT_OF_RANGE, "The market has other limits."
        ),
        "INVALID_AMOUNT": _both(ErrorCode.AMOUNT_OUT_OF_RANGE, "The market takes fewer decimals."),
        "INVALID_PHONE_NUMBER": _both(
            ErrorCode.USER_NOT_FOUND, "It is no phone number of this market."
        ),
        "INVALID_CURRENCY": _misconfigured("The market has another currency."),
        "INVALID_PROVIDER": _misconfigured("pawaPay does not know the market."),
        "DEPOSITS_NOT_ALLOWED": _misconfigured("The account has no deposits in this market."),
        "PAYOUTS_NOT_ALLOWED": _misconfigured("The account has no pay-outs in this market."),
        "REFUNDS_NOT_ALLOWED": _misconfigured("The account has no refunds in this market."),
        "REMITTANCES_NOT_ALLOWED": _misconfigured("The account has no remittances in this market."),
        "PROVIDER_TEMPORARILY_UNAVAILABLE": _both(
            ErrorCode.PROVIDER_UNAVAILABLE, "The operator does not work."
        ),
        "NOT_FOUND": _misconfigured("pawaPay has no payment of this id."),
        "INVALID_STATE": _misconfigured("The state of the payment does not permit this."),
        "INVALID_CALLBACK_URL": _misconfigured("pawaPay can't reach the address for callbacks."),
        "INVALID_DATE_RANGE": _misconfigured("pawaPay does not take these dates."),
        "WALLET_NOT_FOUND": _misconfigured("The account has no such wallet."),
        # Of payments.
        "PAYMENT_NOT_APPROVED": Failure(
            ErrorCode.USER_TIMEOUT, _DECLINED, "The payer did not approve the payment."
        ),
        "INSUFFICIENT_BALANCE": Failure(
            ErrorCode.USER_INSUFFICIENT_FUNDS,
            ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
            "The wallet holds too little.",
        ),
        "PAYMENT_IN_PROGRESS": _both(
            ErrorCode.USER_BUSY, "Another payment waits on the customer's phone."
        ),
        "TRANSACTION_ALREADY_IN_PROCESS": _both(
            ErrorCode.USER_BUSY, "Another payment waits on the customer's phone."
        ),
        "PAYER_NOT_FOUND": _both(
            ErrorCode.USER_NOT_FOUND, "The number is no customer of this operator."
        ),
        "RECIPIENT_NOT_FOUND": _both(
            ErrorCode.USER_NOT_FOUND, "The number is no customer of this operator."
        ),
        "PAYER_LIMIT_REACHED": _both(
            ErrorCode.USER_LIMIT_EXCEEDED, "The payer's wallet has reached a limit."
        ),
        "RECIPIENT_LIMIT_REACHED": _both(
            ErrorCode.USER_LIMIT_EXCEEDED, "The payee's wallet has reached a limit."
        ),
        "WALLET_LIMIT_REACHED": _both(
            ErrorCode.USER_LIMIT_EXCEEDED, "The customer's wallet has reached a limit."
        ),
        "MANUALLY_CANCELLED": _both(
            _DECLINED, "Somebody has cancelled it while it waited at pawaPay."
        ),
        "PAWAPAY_WALLET_OUT_OF_FUNDS": _both(
            ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
            "The account's wallet with pawaPay holds too little.",
        ),
        "AMOUNT_TOO_LARGE": _both(
            ErrorCode.AMOUNT_OUT_OF_RANGE, "The amount is larger than what is left to refund."
        ),
        "DEPOSIT_ALREADY_REFUNDED": _both(
            ErrorCode.DUPLICATE_REQUEST, "The deposit has been refunded."
        ),
        "REFUND_IN_PROGRESS": _both(
            ErrorCode.DUPLICATE_REQUEST, "Another refund of the deposit is in progress."
        ),
        "UNSPECIFIED_FAILURE": _both(_DECLINED, "The operator gave no reason."),
        "UNKNOWN_ERROR": _both(_DECLINED, "pawaPay gave no reason."),
    }
)

# Codes in the answer to a submission that refuse our account: they say nothing of the payment.
ACCOUNT_REFUSALS: Final = frozenset(
    {"NO_AUTHENTICATION", "AUTHENTICATION_ERROR", "AUTHORISATION_ERROR", "HTTP_SIGNATURE_ERROR"}
)

# Codes in the answer to a submission after which pawaPay may have it: only a question tells.
INCONCLUSIVE: Final = frozenset({"UNKNOWN_ERROR"})

OTHER_FAILURE: Final = _both(_DECLINED, "")

WRONG_PIN: Final = Failure(ErrorCode.USER_WRONG_PIN, _DECLINED, "The payer's PIN was wrong.")
# In either order, as each operator has words of its own.
_WRONG_PIN_WORDS: Final = re.compile(
    r"\b(?:incorrect|wrong|invalid)\b.*\bpin\b|\bpin\b.*\b(?:incorrect|wrong|invalid)\b",
    re.IGNORECASE,
)


def find_failure(code: str | None, message: str | None) -> Failure:
    """Return the meaning of a code and its message: a payment that the payer did not approve may
    also be one with a wrong PIN, which only the message tells (a callback of 2025)."""
    if code == "PAYMENT_NOT_APPROVED" and _WRONG_PIN_WORDS.search(message or ""):
        return WRONG_PIN
    return FAILURES.get(code or "", OTHER_FAILURE)
