"""The catalogue of asynchronous error codes: every reason for which an accepted payment can fail (clause E1)."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from attrs import frozen


class ErrorCode(StrEnum):
    """A machine-readable reason of a failed transaction; no path emits anything else."""

    USER_INSUFFICIENT_FUNDS = "user_insufficient_funds"
    USER_TIMEOUT = "user_timeout"
    USER_CANCELLED = "user_cancelled"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_TIMEOUT = "provider_timeout"
    TRANSACTION_EXPIRED = "transaction_expired"


@frozen
class Explanation:
    """What a code means to those who meet it."""

    meaning: str
    """One sentence for the merchant: it becomes the transaction's errorMessage."""
    who_acts: str
    """Who can change something: `payer`, `merchant` or `operator`."""
    advice: str
    """What that one can do."""
    for_payer: str
    """A sentence that may be shown to the payer."""


EXPLANATIONS = MappingProxyType(
    {
        ErrorCode.USER_INSUFFICIENT_FUNDS: Explanation(
            "The account does not hold enough money for this payment.",
            "payer",
            "Top up the account, or start a new payment with a smaller amount.",
            "There is not enough money in your account.",
        ),
        ErrorCode.USER_TIMEOUT: Explanation(
            "The payer did not confirm the payment in time.",
            "payer",
            "Start a new payment and confirm it on the phone while the prompt is shown.",
            "The payment was not confirmed in time.",
        ),
        ErrorCode.USER_CANCELLED: Explanation(
            "The payer refused the payment.",
            "payer",
            "Start a new payment if it is still wanted.",
            "You cancelled the payment.",
        ),
        ErrorCode.PROVIDER_UNAVAILABLE: Explanation(
            "The mobile money provider could not take the payment.",
            "merchant",
            "Wait a few minutes and start a new payment with a new reference.",
            "The mobile money service is not available at the moment.",
        ),
        ErrorCode.PROVIDER_TIMEOUT: Explanation(
            "The mobile money provider gave no result in time and has confirmed that no money was moved.",
            "merchant",
            "Start a new payment with a new reference.",
            "The mobile money service took too long. No money was taken.",
        ),
        ErrorCode.TRANSACTION_EXPIRED: Explanation(
            "No final result was known when the time limit of a pending transaction passed.",
            "operator",
            "Compare with the provider's statement; a result that comes later is kept for a person to see.",
            "The payment was not completed in time.",
        ),
    }
)
"""One explanation for each code there is."""
