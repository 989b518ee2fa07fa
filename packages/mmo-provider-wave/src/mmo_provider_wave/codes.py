"""Translates Wave's error codes: of refused requests, of failed attempts of payers, and of failed
pay-outs.

Source: https://docs.wave.com/checkout, https://docs.wave.com/payout (error codes)"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from mmo_sansio import ErrorCode
from mmo_sansio.providers import Type


@frozen
class Failure:
    """Holds the error codes of a code of Wave's, which depend on whose wallet is debited."""

    payin: ErrorCode
    payout: ErrorCode
    reason: str
    """What has happened, for staff: the message where Wave gives none."""

    def error_code(self, type: Type) -> ErrorCode:
        if type is Type.PAYIN:
            return self.payin
        return self.payout


def _both(code: ErrorCode, reason: str) -> Failure:
    return Failure(code, code, reason)


_DECLINED = ErrorCode.TRANSACTION_DECLINED
_MISCONFIGURED = ErrorCode.MERCHANT_MISCONFIGURED

# The meaning of every documented code; any other is `transaction_declined`.
FAILURES: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        # Of requests (docs.wave.com/business; none was observed yet).
        "request-validation-error": _both(_MISCONFIGURED, "Wave does not take the request."),
        "request-not-json": _both(_MISCONFIGURED, "Wave could not read the request."),
        "request-parsing-error": _both(_MISCONFIGURED, "Wave could not read the request."),
        "aggregated-merchant-required": _both(
            _MISCONFIGURED, "The wallet is an aggregator's, which names a merchant."
        ),
        "invalid-aggregated-merchant-id": _both(_MISCONFIGURED, "Wave does not know the merchant."),
        "currency-mismatch": _both(_MISCONFIGURED, "The wallet has another currency."),
        "country-mismatch": _both(
            ErrorCode.USER_NOT_FOUND, "The number is of another country than the wallet."
        ),
        # Of the payer's attempts (docs.wave.com/checkout), and of pay-outs (docs.wave.com/payout).
        "insufficient-funds": Failure(
            ErrorCode.USER_INSUFFICIENT_FUNDS,
            ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
            "The wallet that pays holds too little.",
        ),
        "blocked-account": _both(ErrorCode.USER_ACCOUNT_BLOCKED, "The payer's account is blocked."),
        "cross-border-payment-not-allowed": _both(
            _DECLINED, "The payer's account is of another country."
        ),
        "customer-age-restricted": _both(_DECLINED, "The payer is a minor."),
        "kyb-limits-exceeded": _both(_MISCONFIGURED, "Our own account has reached a limit."),
        "payer-mobile-mismatch": _both(
            _DECLINED, "Another number than the one that was named has tried to pay."
        ),
        "payment-failure": _both(_DECLINED, "Wave had a technical fault."),
        "recipient-minor": _both(_DECLINED, "The payee is a minor."),
        "recipient-account-blocked": _both(
            ErrorCode.USER_ACCOUNT_BLOCKED, "The payee's account is blocked."
        ),
        "recipient-account-inactive": _both(
            ErrorCode.USER_ACCOUNT_BLOCKED, "The payee's account is not active."
        ),
        "recipient-limit-exceeded": _both(
            ErrorCode.USER_LIMIT_EXCEEDED, "The payee has reached a limit."
        ),
    }
)

OTHER_FAILURE: Final = _both(_DECLINED, "")

# Codes that refuse our key or our wallet for everything: they say nothing of the payment.
KEY_REFUSALS: Final = frozenset(
    {
        "missing-auth-header",
        "invalid-auth",
        "api-key-not-provided",
        "no-matching-api-key",
        "api-key-revoked",
        "authorization-error",
        "disabled-wallet",
    }
)

# Codes that refuse our wallet for this kind of request: a key permits some kinds only.
PERMISSION_REFUSALS: Final = frozenset({"invalid-wallet", "unauthorized-wallet"})

ACCOUNT_REFUSALS: Final = KEY_REFUSALS | PERMISSION_REFUSALS

# Codes after which Wave has an earlier request of the same key: only a question tells.
INCONCLUSIVE: Final = frozenset({"idempotency-mismatch"})


def find_failure(code: str | None) -> Failure:
    """Return the meaning of a code."""
    return FAILURES.get(code or "", OTHER_FAILURE)
