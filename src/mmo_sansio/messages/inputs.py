"""Defines everything that can happen: requests (imperative, may be rejected) and reports (past
tense).

A `user` is the member of staff who acts, for the journal. `asked_at` says when the question was
asked that a report answers at an address of that question, where it counts once; None: it came by
another way. The `version` of a report is the payment's when the submission or the poll was recorded
that it answers; None: it answers none, as a notification."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen

from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.messages.reversals import ReversalInput
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Brand,
    DepositAnswerOutcome,
    DepositTrust,
    Evidence,
    Operation,
    Party,
    QrCode,
    Source,
    Terms,
)
from mmo_sansio.values.money import Money
from mmo_sansio.values.payer_actions import EnterCode, PayerAction


@frozen
class Draft:
    """A draft is a creation request in the right format; the payment rules decide whether the brand
    may create it."""

    operation: Operation
    method: str
    amount: Decimal
    """Above 0, at most 10^15; its decimals are checked after the support of the currency (C9)."""
    currency: str
    country: str
    result_url: str
    merchant_reference: str
    reconciliation_reference: str | None = None
    """None means the merchantReference (C7)."""
    party: Party | None = None
    """None exactly for a tax payout, whose recipient is implied (M5)."""
    labels: str | None = None
    """Text of a JSON object, as it came (M4)."""
    display_qr_url: str | None = None
    success_redirect_url: str | None = None
    error_redirect_url: str | None = None
    scenario: str | None = None
    """The scenario that the sandbox provider plays; accepted in a sandbox only."""


@frozen
class CreatePayment:
    """A merchant requests a payment (C1 to C5)."""

    brand: Brand
    gateway_reference: str
    """A fresh ULID."""
    draft: Draft
    page_token: str = field(default="", repr=False)
    """A fresh token that cannot be guessed; used for web pay-ins only."""
    terms: Terms = Terms()
    api_key_id: str | None = None
    """The id of the API key that the request was authenticated with (A4); None when no key was."""
    reserved_provider: str | None = None
    """The provider with which the caller has reserved a conversation, so that the payment may be
    recorded as submitted at once. None: a worker records that later (`BeginSubmission`)."""
    simulated_providers: frozenset[str] = frozenset()
    """The providers whose accounts are simulated: no money moves by their payments."""


@frozen
class ConfirmPage:
    """The payer presses the button of the hosted page (W1)."""

    gateway_reference: str
    code: str | None = field(default=None, repr=False)
    """The code that the page has asked for; None: it was not asked for, or not given."""


@frozen
class PayerReturned:
    """A browser has come back from the page of the operator. Anybody can say so: it is a reason to
    ask, not a result (W2)."""

    gateway_reference: str


@frozen
class ResolveManually:
    """Staff complete a transaction by hand, with a reason (completionSource `manual`)."""

    gateway_reference: str
    provider: str
    """The payment's provider."""
    user: str
    reason: str
    """The reason, for the journal."""
    error_code: ErrorCode | None = None
    """None: it succeeded."""
    final: Money | None = None
    """The settled amount; None means the requested amount."""
    provider_reference: str | None = None
    """The provider's own id of the payment; of a success it is taken for a receipt, which settles
    this payment only."""
    evidence: str = ""
    """What proves the outcome, for the journal."""


@frozen
class CorrectTimes:
    """Staff correct the times of a payment that was taken under a wrong clock, and of its
    reversals."""

    gateway_reference: str
    user: str
    claim: tuple[str, str] | None = None
    """The provider and the receipt of a claim of a deposit whose times are corrected, too; the
    payment is then the one that it names or would become."""


class WithheldReason(StrEnum):
    """Says why the gateway does not send a payment that is due."""

    PROVIDER_CLOSED = "provider_closed"
    """Staff have closed the provider."""
    TOO_LATE = "too_late"
    """The time for submissions of this payment is over."""
    ACCOUNT_CHANGED = "account_changed"
    """The account is simulated now and was not when the payment was accepted, or the other way
    round."""


@frozen
class BeginSubmission:
    """A worker is about to send the payment to its provider, which may have it from now on (S6); or
    it may not be sent, and fails."""

    gateway_reference: str
    withheld: WithheldReason | None = None
    attempt: str | None = None
    """What only this attempt is named, so that its repetition is known where it is not known
    whether it was recorded; None: it is not repeated."""


@frozen
class StopPayment:
    """Staff have put the brand on hold: a payment that was not submitted yet fails."""

    gateway_reference: str
    user: str


@frozen
class MarkRestored:
    """The store was restored from a backup in which the payment had not ended: it may have been
    submitted since."""

    gateway_reference: str
    user: str


@frozen
class RecordLostUse:
    """The store was restored from a backup that lacks a payment: its merchantReference counts as
    used (C12)."""

    brand: str
    merchant_reference: str
    gateway_reference: str
    """The lost payment's, or what else a statement names it by."""
    user: str


@frozen
class ProviderAccepted:
    """The provider has the request and has not decided yet."""

    gateway_reference: str
    provider: str
    source: Source
    provider_reference: str | None = None
    poll_after: Span | None = None
    """How long to wait before the first poll, by the provider's advice; None: the usual
    interval."""
    qr: QrCode | None = None
    """The code for the payer of a QR pay-in (Q1)."""
    payer_action: PayerAction | None = None
    """What the payer has to do elsewhere; None: nothing that this answer tells."""
    is_told_when_asked: bool = False
    """Whether the provider notifies of no result: it is asked on after the payment's expiry."""
    asked_at: Instant | None = None
    version: int | None = None


@frozen
class ProviderSucceeded:
    """The provider has moved the money."""

    gateway_reference: str
    provider: str
    source: Source
    provider_reference: str | None = None
    final: Money | None = None
    """The settled amount; None means the requested amount."""
    fee: Money | None = None
    party_data: str | None = None
    """Text of a JSON object."""
    settles_receipt: bool = False
    """Whether `provider_reference` is a receipt that deposits could claim, too: it then settles
    this payment only."""
    lacks_receipt: bool = False
    """Whether the provider gives such receipts, but has not named this one: its notification, or a
    deposit that names the payment, may bring it."""
    asked_at: Instant | None = None
    version: int | None = None


@frozen
class ProviderFailed:
    """The provider reports that it did not and will not move the money."""

    gateway_reference: str
    provider: str
    source: Source
    error_code: ErrorCode
    provider_reference: str | None = None
    native_code: str | None = None
    native_message: str | None = None
    asked_at: Instant | None = None
    version: int | None = None


@frozen
class ProviderUnreachable:
    """A request to the provider had no usable response: it may or may not have been received
    (S6)."""

    gateway_reference: str
    provider: str
    reason: str
    poll_after: Span | None = None
    """How long to wait before the next poll, by the provider's advice; None: the usual interval."""
    denies_receipt: bool = False
    """Whether the provider was asked about the reported receipt, and its answer contradicts the
    report."""
    asked_at: Instant | None = None
    evidence: Evidence | None = None
    """What the provider's own answer says of a success, where something else in it can't be used;
    None: it says nothing of one."""
    denies_payment: bool = False
    """Whether the provider says that nothing came of the payment, but not beyond doubt: it has none
    such, or calls it failed and the reason ambiguous."""
    is_answered_later: bool = False
    """Whether the provider took a question and answers it by a notification, as it always does."""
    version: int | None = None


@frozen
class ProviderNeverReceived:
    """The provider is certain that it never received a request for this payment, and none is in
    flight."""

    gateway_reference: str
    provider: str
    version: int
    """A slow response to an old poll says nothing about a later submission (S6)."""
    payer_action: EnterCode | None = None
    """What the provider needs of the payer before the payment can be sent; None: nothing."""
    asked_at: Instant | None = None


@frozen
class ProviderCannotTell:
    """The provider cannot be polled about this payment: only its notification, or staff, can end
    it. It counts only where it answers the latest poll, as a later acceptance or hint may tell by
    what to poll."""

    gateway_reference: str
    provider: str
    version: int | None = None


@frozen
class ProviderHinted:
    """An unsigned notification names a payment: a reason to poll the provider, not a result."""

    gateway_reference: str
    provider: str
    content: str = ""
    """Its text: stored with the payment for the adapter that polls, and for staff when the payment
    is not one of ours (S5)."""
    native_code: str | None = None
    """The provider's code for the result that it reports."""
    evidence: Evidence | None = None
    """What it is worth where it came to an address that only the provider was given; None: it is a
    reason to poll, and nothing else."""
    version: int | None = None
    says_paid: bool = False
    """Whether its text calls the payment paid. Nothing proves that: it only leaves an entry for
    staff where the payment fails all the same."""


@frozen
class DepositNotified:
    """A provider reports an offline deposit (flow `push`, S4)."""

    provider: str
    provider_reference: str
    """The provider's own transaction id; with the provider, it identifies the deposit."""
    provider_title: str
    gateway_reference: str
    """A fresh ULID, used if the deposit is new."""
    brand: Brand | None
    """The brand whose account was paid; None when it matches no brand."""
    method: str
    amount: Money
    party: Party
    # A failed deposit is reported by some operators, and makes nothing (S4).
    succeeded: bool = True
    trust: DepositTrust = DepositTrust.CONFIRMED
    account: str = ""
    """The provider's account that was paid; empty where the notification names none."""
    bill_reference: str = ""
    """The payer's account or reference."""
    payment: str | None = None
    """The gatewayReference of the payment that the bill reference names; None: the deposit is of
    the payer's own accord."""
    is_simulated: bool = False
    """Whether the account that has reported it is simulated."""


@frozen
class DepositClaimWoke:
    """A claim's `wake_at` may have come."""

    provider: str
    receipt: str
    payment: str | None = None
    """The payment that the claim names."""


@frozen
class DepositAnswered:
    """A provider reports the state of a deposit, when asked about its receipt."""

    provider: str
    receipt: str
    outcome: DepositAnswerOutcome
    is_ours: bool = False
    """Whether the answer names an account of ours as the one that was paid."""
    amount: Money | None = None
    """The amount of the answer; None when it names none."""
    payer: str = ""
    """The telephone number of the account that has paid; empty where it is not told in full."""
    detail: str = ""
    """The provider's words, for staff."""
    payment: str | None = None
    """The payment that the claim names."""
    brand: Brand | None = None
    """The brand whose account was paid, for a claim that names no payment; None when it matches no
    brand."""
    method: str = ""
    asked_at: Instant | None = None


@frozen
class UnmatchedNotified:
    """A provider's notification names no payment and no deposit of ours; it is stored for staff
    (S5)."""

    provider: str
    content: str
    """The notification as text."""


@frozen
class TransactionWoke:
    """A transaction's `wake_at` may have come."""

    gateway_reference: str


@frozen
class CallbackConcluded:
    """The one attempt to deliver a callback has ended, or was not made (K3)."""

    gateway_reference: str
    attempt: DeliveryAttempt
    fence: int = 0
    """The fence of the merchant's channel under which it was sent; 0 where one process uses the
    store alone."""
    breaker: BreakerSnapshot | None = None
    """The merchant's breaker after this outcome, in the gateway's own time; None when it need not
    be stored."""


ProviderAnswer: TypeAlias = (
    ProviderAccepted
    | ProviderSucceeded
    | ProviderFailed
    | ProviderUnreachable
    | ProviderNeverReceived
)
ProviderReport: TypeAlias = ProviderAnswer | ProviderCannotTell
"""The possible results of a conversation with a provider, or of its notification."""


@frozen
class QrConcluded:
    """The one attempt to deliver a QR code has ended, or was not made (Q1)."""

    gateway_reference: str
    attempt: DeliveryAttempt


@frozen
class EndedPollConcluded:
    """The provider was asked about a payment that has ended, and its report is recorded; or it was
    asked in vain for so long that staff have to ask it."""

    gateway_reference: str
    is_unanswered: bool = False
    hint: str | None = None
    """The text of the hints with which it was asked; None: there was none."""
    provider_reference: str | None = None
    """The provider's id of the payment with which it was asked, where it is not stored with it."""


Input: TypeAlias = (
    CreatePayment
    | ConfirmPage
    | PayerReturned
    | ResolveManually
    | CorrectTimes
    | BeginSubmission
    | StopPayment
    | MarkRestored
    | RecordLostUse
    | ProviderReport
    | ProviderHinted
    | DepositNotified
    | DepositClaimWoke
    | DepositAnswered
    | UnmatchedNotified
    | TransactionWoke
    | CallbackConcluded
    | QrConcluded
    | EndedPollConcluded
    | ReversalInput
)
"""The inputs of `decide`."""
