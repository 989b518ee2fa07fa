"""Translates the operator's reasons, which are the same in a FAILED payment and in an HTTP
error."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Type


@frozen
class MtnErrorMapping:
    """Holds the error codes of a reason, which depend on whose wallet is debited."""

    payin: ErrorCode
    payout: ErrorCode


def _same_both_ways(code: ErrorCode) -> MtnErrorMapping:
    return MtnErrorMapping(code, code)


_MISCONFIGURED = _same_both_ways(ErrorCode.MERCHANT_MISCONFIGURED)
_DECLINED = ErrorCode.TRANSACTION_DECLINED

# The meaning of the operator's codes; any other is `transaction_declined`.
REASONS: Final[Mapping[str, MtnErrorMapping]] = MappingProxyType(
    {
        # Documented, unless a line says otherwise: MTN's page on error codes, and the class
        # ErrorReason of its API. Whose wallet it is depends on the direction.
        "NOT_ENOUGH_FUNDS": MtnErrorMapping(
            ErrorCode.USER_INSUFFICIENT_FUNDS, ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
        ),
        # Reported from live markets, by other people's programs.
        "LOW_BALANCE_OR_PAYEE_LIMIT_REACHED_OR_NOT_ALLOWED": MtnErrorMapping(
            ErrorCode.USER_INSUFFICIENT_FUNDS, _DECLINED
        ),
        # Mostly a lack of funds, MTN's page says, and much else.
        "INTERNAL_PROCESSING_ERROR": _same_both_ways(_DECLINED),
        "APPROVAL_REJECTED": MtnErrorMapping(ErrorCode.USER_CANCELLED, _DECLINED),
        # Reported by clients; no list of MTN's has it.
        "REJECTED": MtnErrorMapping(ErrorCode.USER_CANCELLED, _DECLINED),
        "TRANSACTION_CANCELED": MtnErrorMapping(ErrorCode.USER_CANCELLED, _DECLINED),
        "PAYMENT_NOT_APPROVED": MtnErrorMapping(ErrorCode.USER_CANCELLED, _DECLINED),
        # Not approved within five minutes. Nobody approves a pay-out, so of one it says nothing.
        "COULD_NOT_PERFORM_TRANSACTION": MtnErrorMapping(ErrorCode.USER_TIMEOUT, _DECLINED),
        # A pay-out waits for nobody but the operator.
        "EXPIRED": MtnErrorMapping(ErrorCode.USER_TIMEOUT, ErrorCode.PROVIDER_TIMEOUT),
        "PAYER_NOT_FOUND": MtnErrorMapping(
            ErrorCode.USER_NOT_FOUND, ErrorCode.MERCHANT_MISCONFIGURED
        ),
        # Of a pay-in: our own account is blocked.
        "PAYEE_NOT_FOUND": MtnErrorMapping(
            ErrorCode.MERCHANT_MISCONFIGURED, ErrorCode.USER_NOT_FOUND
        ),
        "PAYEE_NOT_ALLOWED_TO_RECEIVE": MtnErrorMapping(
            ErrorCode.MERCHANT_MISCONFIGURED, ErrorCode.USER_ACCOUNT_BLOCKED
        ),
        "SENDER_ACCOUNT_NOT_ACTIVE": MtnErrorMapping(
            ErrorCode.USER_ACCOUNT_BLOCKED, ErrorCode.MERCHANT_MISCONFIGURED
        ),
        # Of a pay-out: the payer is our own account, which may pay no more for now.
        "PAYER_LIMIT_REACHED": MtnErrorMapping(
            ErrorCode.USER_LIMIT_EXCEEDED, ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
        ),
        "PAYEE_LIMIT_REACHED": MtnErrorMapping(_DECLINED, ErrorCode.USER_LIMIT_EXCEEDED),
        "NOT_ALLOWED": _MISCONFIGURED,
        "NOT_ALLOWED_TARGET_ENVIRONMENT": _MISCONFIGURED,
        "INVALID_CURRENCY": _MISCONFIGURED,
        "INVALID_CALLBACK_URL_HOST": _MISCONFIGURED,
        "VALIDATION_ERROR": _MISCONFIGURED,
        # Only as the reason of a payment that has FAILED: in a 5xx it proves nothing.
        "SERVICE_UNAVAILABLE": _same_both_ways(ErrorCode.PROVIDER_UNAVAILABLE),
    }
)

# The status of a payment that was paid.
SUCCESSFUL: Final = "SUCCESSFUL"

# Reasons of a payment that is still pending, whatever its status.
PENDING_REASONS: Final = frozenset(
    {"PENDING", "ONGOING", "PAYER_ONGOING", "DELAYED", "PAYER_DELAYED", "PAYEE_DELAYED"}
)

# Statuses of a payment that MTN has, and that has no result yet. The sandbox answered CREATED about
# 46733123454 (September 2026).
PENDING_STATUSES: Final = PENDING_REASONS | {"CREATED"}

# The X-Reference-Id was used before: the operator has the submission.
ALREADY_EXISTS: Final = "RESOURCE_ALREADY_EXIST"

RESOURCE_NOT_FOUND: Final = "RESOURCE_NOT_FOUND"

# The code in a 404 to a poll: no such X-Reference-Id. A 404 without it proves nothing.
NOT_FOUND_CODES: Final = frozenset({RESOURCE_NOT_FOUND, "TRANSACTION_NOT_FOUND"})

# The codes in a 404 to a question for the name behind a number.
UNKNOWN_HOLDER_CODES: Final = frozenset({RESOURCE_NOT_FOUND, "PAYEE_NOT_FOUND", "PAYER_NOT_FOUND"})

# Codes in a 5xx to a submission, which may have been accepted.
INCONCLUSIVE_REASONS: Final = frozenset({"INTERNAL_PROCESSING_ERROR", "SERVICE_UNAVAILABLE"})

# Codes of what every submission of the account would meet.
ACCOUNT_REFUSALS: Final = frozenset({"NOT_ALLOWED_TARGET_ENVIRONMENT", "INVALID_CALLBACK_URL_HOST"})


def refuses_account(status: int, code: str | None) -> bool:
    """Tell whether the answer to a submission refuses the account's keys or its set-up, so that it
    says nothing of the payment: a 403 without a known code comes from the list of addresses, or
    from a firewall in front of MTN."""
    # Keys; an address that MTN or its firewall does not know; a set-up that every payment has.
    is_turned_away = status == 403 and code not in REASONS
    return status == 401 or is_turned_away or code in ACCOUNT_REFUSALS


# "Unsupported decimals" is documented; how a message names an amount is assumed.
_AMOUNT_WORDS = ("amount", "decimal")


def to_error_code(reason: str | None, message: str | None, type: Type) -> ErrorCode:
    """Return the meaning of a reason for a payment in this direction."""
    if reason == "VALIDATION_ERROR" and any(
        word in (message or "").lower() for word in _AMOUNT_WORDS
    ):
        return ErrorCode.AMOUNT_OUT_OF_RANGE

    # What no list has says only that it has failed.
    meaning = REASONS.get(reason or "")
    if meaning is None:
        return _DECLINED
    if type is Type.PAYIN:
        return meaning.payin

    return meaning.payout
