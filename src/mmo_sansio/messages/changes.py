"""Defines the facts that a decision makes true; a store makes those of one decision durable
together, in order."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from attrs import frozen

from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.messages.intents import IntentKey
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import DepositClaim, Status, Transaction, UsageShare
from mmo_sansio.values.reversals import Reversal


@frozen
class ReferenceConsumed:
    """A brand has used a merchantReference (C12); its newest use counts."""

    brand: str
    merchant_reference: str
    gateway_reference: str
    at: Instant
    earlier: Status = Status.FAILED
    """How the payments before under this reference ended, as all of them have: SUCCESS when one was
    paid, FAILED when none was, or there were none."""
    is_lost: bool = False
    """Whether the store lacks the payment, as it was restored from a backup."""


@frozen
class UsageChanged:
    """A payment adds to a counter of its brand, or what it added is taken back."""

    brand: str
    share: UsageShare
    limit: int | None = None
    """The most that the counter may reach; a store that finds more than this decides again."""


@frozen
class DepositRecorded:
    """An offline deposit has become a transaction (S4)."""

    provider: str
    provider_reference: str
    gateway_reference: str


@frozen
class DepositClaimChanged:
    """A claim of a deposit is new, has moved, or was withdrawn."""

    before: DepositClaim | None
    after: DepositClaim | None
    """None: it was withdrawn, and its receipt may be claimed again."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the provider and the receipt."""
        claim = self.after or self.before
        assert claim is not None
        return claim.provider, claim.receipt


@frozen
class ReversalChanged:
    """A reversal is new, or has moved; all of a payment are guarded together, as their sum is
    limited."""

    known: tuple[Reversal, ...]
    """The payment's reversals before, in the order of their numbers."""
    after: Reversal

    @property
    def before(self) -> Reversal | None:
        """Return it as it was; None for a new one."""
        return next(
            (version for version in self.known if version.number == self.after.number), None
        )

    @property
    def reversals(self) -> tuple[Reversal, ...]:
        """Return the payment's reversals afterwards."""
        # A new one has the next number, so it is put at the end.
        index = self.after.number - 1
        return (*self.known[:index], self.after, *self.known[index + 1 :])


@frozen
class TransactionCreated:
    """A new transaction exists."""

    transaction: Transaction


@frozen
class TransactionAdvanced:
    """A transaction has moved, or its times were corrected; with both sides a store can guard the
    change, and the journal can explain it. The order is the same on both sides unless its times
    were corrected."""

    before: Transaction
    after: Transaction


@frozen
class IntentConcluded:
    """A durable intent is done, or no longer needed."""

    key: IntentKey


@frozen
class CallbackRecorded:
    """The one attempt to deliver a callback has ended (K3, K4)."""

    gateway_reference: str
    brand: str
    attempt: DeliveryAttempt
    at: Instant


@frozen
class BreakerSaved:
    """A merchant's breaker is stored; the next owner of the channel continues from it (K5)."""

    brand: str
    fence: int
    """The fence of the channel's owner; an earlier one changes nothing."""
    breaker: BreakerSnapshot


@frozen
class QrRecorded:
    """The one attempt to deliver a QR code has ended (Q1). Only its journal entry is stored."""

    gateway_reference: str
    brand: str
    attempt: DeliveryAttempt
    at: Instant


class SuspenseReason(StrEnum):
    """Says why a report is in the suspense book (S4, S5)."""

    LATE_RESULT = "late_result"
    """A result for a transaction that one of the gateway's timers had ended."""
    REPEATED_RESULT = "repeated_result"
    """The same result, reported again."""
    CONFLICTING_RESULT = "conflicting_result"
    """Another result than the one on record."""
    UNKNOWN_TRANSACTION = "unknown_transaction"
    """Nothing of ours was sent to this provider under this reference."""
    WRONG_PROVIDER = "wrong_provider"
    """The payment went to another provider than the one that reports."""
    WRONG_CURRENCY = "wrong_currency"
    """The amount is in another currency than the payment."""
    UNMATCHED_DEPOSIT = "unmatched_deposit"
    """No brand or account of ours is found by what the deposit names."""
    CONFLICTING_DEPOSIT = "conflicting_deposit"
    """A deposit whose receipt has settled something else, or that names a payment which ended
    otherwise."""
    UNCONFIRMED_DEPOSIT = "unconfirmed_deposit"
    """A deposit that the provider does not confirm."""
    AMOUNT_DIFFERS = "amount_differs"
    """A deposit that names a payment of another amount."""
    UNCONFIRMED_RECEIPT = "unconfirmed_receipt"
    """A receipt that the provider reported for a payment, and did not confirm when asked."""
    UNPROVED_SUCCESS = "unproved_success"
    """A payment that has failed, and that a notification has called paid; nothing proves it."""
    UNANSWERED_QUESTION = "unanswered_question"
    """A payment that has ended, about which the provider was asked in vain: it may have been
    paid."""
    UNSUPPORTED_CURRENCY = "unsupported_currency"
    """The method that was paid has no limits in this currency."""
    SETTLED_LESS = "settled_less"
    """A payment has succeeded with less than was requested."""
    SETTLED_MORE = "settled_more"
    """A payment has succeeded with more than was requested."""
    UNREADABLE = "unreadable"
    """The notification names nothing that is known, or no store can hold it."""


@frozen
class SuspenseRecorded:
    """A provider's report was not applied and waits for staff (S5)."""

    at: Instant
    reason: SuspenseReason
    provider: str
    content: str
    """The report, as the text of a JSON object. The same report for the same reason only increments
    a count."""
    gateway_reference: str | None = None
    brand: str | None = None


@frozen
class SuspenseClosed:
    """An entry of the suspense book needs nobody any more; one that staff have closed before stays
    as it is."""

    entry: int
    """Its id in the store."""
    at: Instant
    note: str
    """Why, in a sentence for staff."""


@frozen
class SuspenseReopened:
    """An entry of the suspense book that had been closed by itself needs somebody again; one that
    staff have closed stays closed."""

    entry: int
    """Its id in the store."""


@frozen
class JournalEntry:
    """A journal entry is one line of a payment's timeline: the actor, the time, and the stages
    before and after."""

    at: Instant
    input_name: str
    """Name of the input that was decided."""
    actor: str
    """`merchant`, `payer`, `user:NAME`, `provider:NAME`, `clock` or `gateway`."""
    gateway_reference: str | None
    brand: str | None
    stage_before: str | None
    stage_after: str | None
    detail: str
    """Text of a JSON object."""


Change: TypeAlias = (
    ReferenceConsumed
    | UsageChanged
    | DepositRecorded
    | DepositClaimChanged
    | ReversalChanged
    | TransactionCreated
    | TransactionAdvanced
    | IntentConcluded
    | CallbackRecorded
    | QrRecorded
    | BreakerSaved
    | SuspenseRecorded
    | SuspenseClosed
    | SuspenseReopened
    | JournalEntry
)
"""Everything that can become true."""
