"""What the operator's reasons mean: one table, whether a reason stands in a FAILED payment or in an HTTP error."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Type


@frozen
class Meaning:
    """A reason in our own words, which depend on whose wallet is debited."""

    payin: ErrorCode
    payout: ErrorCode


def _both(code: ErrorCode) -> Meaning:
    return Meaning(code, code)


_MISCONFIGURED = _both(ErrorCode.MERCHANT_MISCONFIGURED)
_DECLINED = ErrorCode.TRANSACTION_DECLINED

REASONS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "NOT_ENOUGH_FUNDS": Meaning(
            ErrorCode.USER_INSUFFICIENT_FUNDS, ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
        ),
        "LOW_BALANCE_OR_PAYEE_LIMIT_REACHED_OR_NOT_ALLOWED": Meaning(
            ErrorCode.USER_INSUFFICIENT_FUNDS, _DECLINED
        ),
        "INTERNAL_PROCESSING_ERROR": _both(_DECLINED),
        "APPROVAL_REJECTED": Meaning(ErrorCode.USER_CANCELLED, _DECLINED),
        "REJECTED": Meaning(ErrorCode.USER_CANCELLED, _DECLINED),
        "TRANSACTION_CANCELED": Meaning(ErrorCode.USER_CANCELLED, _DECLINED),
        "PAYMENT_NOT_APPROVED": Meaning(ErrorCode.USER_CANCELLED, _DECLINED),
        "COULD_NOT_PERFORM_TRANSACTION": Meaning(ErrorCode.USER_TIMEOUT, _DECLINED),
        "EXPIRED": _both(ErrorCode.TRANSACTION_EXPIRED),
        "PAYER_NOT_FOUND": Meaning(ErrorCode.USER_NOT_FOUND, ErrorCode.MERCHANT_MISCONFIGURED),
        "PAYEE_NOT_FOUND": Meaning(ErrorCode.MERCHANT_MISCONFIGURED, ErrorCode.USER_NOT_FOUND),
        "PAYEE_NOT_ALLOWED_TO_RECEIVE": Meaning(
            ErrorCode.MERCHANT_MISCONFIGURED, ErrorCode.USER_ACCOUNT_BLOCKED
        ),
        "SENDER_ACCOUNT_NOT_ACTIVE": Meaning(
            ErrorCode.USER_ACCOUNT_BLOCKED, ErrorCode.MERCHANT_MISCONFIGURED
        ),
        "PAYER_LIMIT_REACHED": Meaning(
            ErrorCode.USER_LIMIT_EXCEEDED, ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
        ),
        "PAYEE_LIMIT_REACHED": Meaning(_DECLINED, ErrorCode.USER_LIMIT_EXCEEDED),
        "NOT_ALLOWED": _MISCONFIGURED,
        "NOT_ALLOWED_TARGET_ENVIRONMENT": _MISCONFIGURED,
        "INVALID_CURRENCY": _MISCONFIGURED,
        "INVALID_CALLBACK_URL_HOST": _MISCONFIGURED,
        "VALIDATION_ERROR": _MISCONFIGURED,
        "SERVICE_UNAVAILABLE": _both(ErrorCode.PROVIDER_UNAVAILABLE),
    }
)
"""By the operator's own code; any other is `transaction_declined`."""

RUNNING: Final = frozenset(
    {"PENDING", "ONGOING", "PAYER_ONGOING", "DELAYED", "PAYER_DELAYED", "PAYEE_DELAYED"}
)
"""Reasons that say that nothing is decided, whatever status they come with."""

ALREADY_THERE: Final = "RESOURCE_ALREADY_EXIST"
"""The X-Reference-Id was used before: the operator has the submission."""

NOT_FOUND: Final = frozenset({"RESOURCE_NOT_FOUND", "TRANSACTION_NOT_FOUND"})
"""In a 404 to a question: no such X-Reference-Id. A 404 without it comes from elsewhere, and says nothing."""

LEAVES_OPEN: Final = frozenset({"INTERNAL_PROCESSING_ERROR", "SERVICE_UNAVAILABLE"})
"""In a 5xx to a submission: it may have been taken all the same."""

_AMOUNT_WORDS = ("amount", "decimal")


def error_code(reason: str | None, message: str | None, type: Type) -> ErrorCode:
    """What a reason means for a payment that goes this way."""
    if reason == "VALIDATION_ERROR" and any(
        word in (message or "").lower() for word in _AMOUNT_WORDS
    ):
        return ErrorCode.AMOUNT_OUT_OF_RANGE
    meaning = REASONS.get(reason or "")
    if meaning is None:
        return _DECLINED
    return meaning.payin if type is Type.PAYIN else meaning.payout
