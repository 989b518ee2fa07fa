"""Facts that a decision makes true: a store makes those of one decision durable together, in order."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from attrs import frozen

from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.messages.intents import IntentKey
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction


@frozen
class ReferenceConsumed:
    """A brand has used a merchantReference (C12); the newest use of it counts."""

    brand: str
    merchant_reference: str
    gateway_reference: str
    at: Instant


@frozen
class DepositRecorded:
    """An offline deposit has become a transaction (S4)."""

    provider: str
    provider_reference: str
    gateway_reference: str


@frozen
class TransactionCreated:
    """A transaction exists from now on."""

    transaction: Transaction


@frozen
class TransactionAdvanced:
    """A transaction has moved; both sides are there, so that a store can guard and the journal explain."""

    before: Transaction
    after: Transaction


@frozen
class IntentConcluded:
    """A kept intent is done, or is not wanted any more."""

    key: IntentKey


@frozen
class CallbackRecorded:
    """The outcome of a callback's one attempt (K3, K4)."""

    gateway_reference: str
    brand: str
    attempt: DeliveryAttempt
    at: Instant


@frozen
class BreakerSaved:
    """A merchant's breaker, as the next owner of the channel goes on from it (K5)."""

    brand: str
    fence: int
    """The number that its owner held the channel under: an earlier one changes nothing."""
    breaker: BreakerSnapshot


@frozen
class QrRecorded:
    """The outcome of a QR code's one delivery (Q1). Its line in the journal holds it; stores keep nothing else."""

    gateway_reference: str
    brand: str
    attempt: DeliveryAttempt
    at: Instant


class SuspenseReason(StrEnum):
    """Why something stands in the suspense book (S4, S5)."""

    LATE_RESULT = "late_result"
    """A result for a transaction that one of our own timers had ended."""
    REPEATED_RESULT = "repeated_result"
    """The same result told again."""
    CONFLICTING_RESULT = "conflicting_result"
    """Another result than the one on record."""
    UNKNOWN_TRANSACTION = "unknown_transaction"
    WRONG_PROVIDER = "wrong_provider"
    WRONG_CURRENCY = "wrong_currency"
    UNMATCHED_DEPOSIT = "unmatched_deposit"
    CONFLICTING_DEPOSIT = "conflicting_deposit"
    UNSUPPORTED_CURRENCY = "unsupported_currency"
    UNREADABLE = "unreadable"


@frozen
class SuspenseRecorded:
    """Something a provider told was not applied and waits for a person (S5)."""

    at: Instant
    reason: SuspenseReason
    provider: str
    content: str
    """What was told, as the text of a JSON object. The same thing told again for the same reason only counts up."""
    gateway_reference: str | None = None
    brand: str | None = None


@frozen
class JournalEntry:
    """One line of a payment's timeline: who did what, when, from where to where."""

    at: Instant
    input_name: str
    """Name of the input that was decided."""
    actor: str
    """`merchant`, `payer`, `operator:NAME`, `provider:NAME`, `clock` or `gateway`."""
    gateway_reference: str | None
    brand: str | None
    stage_before: str | None
    stage_after: str | None
    detail: str
    """Text of a JSON object."""


Change: TypeAlias = (
    ReferenceConsumed
    | DepositRecorded
    | TransactionCreated
    | TransactionAdvanced
    | IntentConcluded
    | CallbackRecorded
    | QrRecorded
    | BreakerSaved
    | SuspenseRecorded
    | JournalEntry
)
"""Everything that can become true."""
