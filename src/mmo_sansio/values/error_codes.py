"""Lists the error codes of failed transactions: every reason for which an accepted payment can fail
(clause E1)."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from attrs import frozen


class ErrorCode(StrEnum):
    """A machine-readable reason of a failed transaction; no code path emits another one."""

    # The codes of the specification.
    USER_INSUFFICIENT_FUNDS = "user_insufficient_funds"
    USER_TIMEOUT = "user_timeout"
    USER_CANCELLED = "user_cancelled"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_TIMEOUT = "provider_timeout"
    TRANSACTION_EXPIRED = "transaction_expired"
    # Further ones: what operators tell, under one name for all of them, and what staff decide.
    USER_NOT_FOUND = "user_not_found"
    USER_ACCOUNT_BLOCKED = "user_account_blocked"
    USER_LIMIT_EXCEEDED = "user_limit_exceeded"
    USER_WRONG_PIN = "user_wrong_pin"
    USER_BUSY = "user_busy"
    AMOUNT_OUT_OF_RANGE = "amount_out_of_range"
    MERCHANT_INSUFFICIENT_FUNDS = "merchant_insufficient_funds"
    MERCHANT_MISCONFIGURED = "merchant_misconfigured"
    DUPLICATE_REQUEST = "duplicate_request"
    TRANSACTION_DECLINED = "transaction_declined"
    PAYMENT_STOPPED = "payment_stopped"


class PayerStep(StrEnum):
    """Says what the payer does after a failed payment; with it the payer's page has one of three
    endings.

    `TRY_AGAIN` and `TOP_UP` end with "not paid", and how to start again; `WAIT` with "it is not
    clear whether you paid"; all others with "not paid, trying again will not help", and what
    helps."""

    TRY_AGAIN = "try_again"
    TOP_UP = "top_up"
    CHANGE_NUMBER = "change_number"
    ASK_PROVIDER = "ask_provider"
    ASK_SHOP = "ask_shop"
    WAIT = "wait"
    """For each code that does not prove that no money has moved: who pays again may pay twice."""


@frozen
class Explanation:
    """Explains a code to the people who meet it."""

    meaning: str
    """One sentence for the merchant: it becomes the transaction's errorMessage."""
    who_acts: str
    """The party that can change something: `payer`, `merchant` or `staff`."""
    advice: str
    """What that party can do."""
    for_payer: str
    """A sentence that may be shown to the payer."""
    payer_step: PayerStep

    @property
    def proves_nothing_moved(self) -> bool:
        """Tell whether certainly no money has moved: otherwise who pays again may pay twice."""
        return self.payer_step is not PayerStep.WAIT


# One explanation for each code.
EXPLANATIONS = MappingProxyType(
    {
        ErrorCode.USER_INSUFFICIENT_FUNDS: Explanation(
            "The account does not hold enough money for this payment.",
            "payer",
            "Top up the account, or start a new payment with a smaller amount.",
            "There is not enough money in your account.",
            PayerStep.TOP_UP,
        ),
        ErrorCode.USER_TIMEOUT: Explanation(
            "The payer did not confirm the payment in time.",
            "payer",
            "Start a new payment and confirm it on the phone while the prompt is shown. A payment "
            "on the hosted page"
            " also ends like this when it was not sent to its provider before the page closed, by "
            "default after 30"
            " minutes.",
            "The payment was not confirmed in time.",
            PayerStep.TRY_AGAIN,
        ),
        ErrorCode.USER_CANCELLED: Explanation(
            "The customer refused the payment.",
            "payer",
            "Start a new payment if it is still wanted.",
            "You cancelled the payment.",
            PayerStep.TRY_AGAIN,
        ),
        ErrorCode.PROVIDER_UNAVAILABLE: Explanation(
            "The mobile money provider could not take the payment.",
            "merchant",
            "Wait a few minutes and start a new payment with a new reference.",
            "The mobile money service is not available at the moment.",
            PayerStep.TRY_AGAIN,
        ),
        ErrorCode.PROVIDER_TIMEOUT: Explanation(
            "The mobile money provider ended the payment because it took too long.",
            "merchant",
            "Look at the provider's native code in providerData, and make sure that no money was "
            "moved before you start"
            " a new payment with a new reference.",
            "The mobile money service took too long.",
            PayerStep.WAIT,
        ),
        ErrorCode.TRANSACTION_EXPIRED: Explanation(
            "No final result was known when the time limit of a pending transaction passed.",
            "staff",
            "Compare with the provider's statement; a result that comes later is kept for a "
            "person to see. Where the"
            " errorMessage says that the provider reported a receipt, the money has probably "
            "moved: do not pay again"
            " before the gateway's staff, whose suspense book has the receipt, have asked the "
            "provider.",
            "No answer came in time.",
            PayerStep.WAIT,
        ),
        ErrorCode.USER_NOT_FOUND: Explanation(
            "The number has no mobile money account with this provider.",
            "payer",
            "Check the number and its provider, then start a new payment.",
            "There is no mobile money account for this number.",
            PayerStep.CHANGE_NUMBER,
        ),
        ErrorCode.USER_ACCOUNT_BLOCKED: Explanation(
            "The account can't be used for payments at present.",
            "payer",
            "Ask the provider why the account is blocked, then start a new payment.",
            "Your account can't be used at the moment.",
            PayerStep.ASK_PROVIDER,
        ),
        ErrorCode.USER_LIMIT_EXCEEDED: Explanation(
            "The payment is beyond a limit of the customer's account.",
            "payer",
            "Start a new payment with a smaller amount, or once the limit has been renewed.",
            "This payment is beyond the limit of your account.",
            PayerStep.ASK_PROVIDER,
        ),
        ErrorCode.USER_WRONG_PIN: Explanation(
            "The payer gave a wrong PIN.",
            "payer",
            "Start a new payment and give the right PIN.",
            "The PIN was wrong.",
            PayerStep.TRY_AGAIN,
        ),
        ErrorCode.USER_BUSY: Explanation(
            "Another prompt or payment was open on the customer's account.",
            "payer",
            "Finish the other one, wait a minute and start a new payment.",
            "Another payment is open on your phone. Please finish it first.",
            PayerStep.TRY_AGAIN,
        ),
        ErrorCode.AMOUNT_OUT_OF_RANGE: Explanation(
            "The provider does not take this amount.",
            "merchant",
            "Start a new payment with an amount that the provider takes; ask for the method's "
            "limits to be set right.",
            "This amount can't be paid this way.",
            PayerStep.ASK_SHOP,
        ),
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: Explanation(
            "The account that pays out does not hold enough money.",
            "staff",
            "Fund the account with the provider, then start a new payment.",
            "The payment can't be made at the moment.",
            PayerStep.ASK_SHOP,
        ),
        ErrorCode.MERCHANT_MISCONFIGURED: Explanation(
            "The provider refused the gateway's own account, credentials or settings.",
            "staff",
            "See the provider's native code in providerData and correct the account or its "
            "settings.",
            "The payment can't be made at the moment.",
            PayerStep.ASK_SHOP,
        ),
        ErrorCode.DUPLICATE_REQUEST: Explanation(
            "The provider took the payment for a repetition of another one and refused it.",
            "merchant",
            "Wait a few minutes, compare with the earlier payment, and start a new one if it is "
            "still wanted.",
            "This looks like a payment that was made a moment ago.",
            PayerStep.WAIT,
        ),
        ErrorCode.TRANSACTION_DECLINED: Explanation(
            "The provider declined the payment without a reason that is known here.",
            "merchant",
            "See the provider's native code in providerData; ask the provider if it happens again.",
            "The payment was declined.",
            PayerStep.ASK_PROVIDER,
        ),
        ErrorCode.PAYMENT_STOPPED: Explanation(
            "The gateway's staff stopped this merchant's payments before this one was sent to the "
            "provider.",
            "merchant",
            "No money was moved. Ask the gateway's staff, and start a new payment with a new "
            "reference once they accept"
            " your requests again.",
            "The payment was stopped.",
            PayerStep.ASK_SHOP,
        ),
    }
)

# The errorMessage of a payment that expires although its provider has reported a receipt.
EXPIRED_WITH_RECEIPT = (
    f"{EXPLANATIONS[ErrorCode.TRANSACTION_EXPIRED].meaning} The provider reported a receipt for "
    f"it and did not confirm"
    " it: the money may have moved."
)
