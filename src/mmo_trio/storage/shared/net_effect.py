"""What a batch of decisions comes to: its net effect, so that a store writes each row once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from attrs import Factory, define

from mmo_sansio.messages.changes import (
    BreakerKept,
    CallbackRecorded,
    Change,
    DepositRecorded,
    IntentConcluded,
    Journaled,
    QrRecorded,
    ReferenceConsumed,
    SuspenseNoted,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.intents import AskProvider, IntentKey
from mmo_sansio.payments.decision import Decision
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction


@define
class Batch:
    """The rows that a batch of decisions adds, changes and removes."""

    created: dict[str, Transaction] = Factory(dict)
    """New transactions by gatewayReference, as they are at the end of the batch."""
    advanced: dict[str, tuple[int, Transaction]] = Factory(dict)
    """Stored transactions that moved: the version that must be stored, and how they are at the end of the batch."""
    references: list[ReferenceConsumed] = Factory(list)
    deposits: list[DepositRecorded] = Factory(list)
    concluded: set[IntentKey] = Factory(set)
    """Kept intents to remove, before the scheduled ones are added."""
    scheduled: dict[IntentKey, None] = Factory(dict)
    """Kept intents that are open at the end of the batch, in order."""
    callbacks: list[CallbackRecorded] = Factory(list)
    breakers: dict[str, BreakerKept] = Factory(dict)
    """By brand, as they are at the end of the batch."""
    suspense: list[SuspenseNoted] = Factory(list)
    journal: list[Journaled] = Factory(list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write. Every decision with changes has a line in the journal."""
        return not self.journal and not self.scheduled

    @property
    def written(self) -> Iterator[Transaction]:
        """The transactions that are new or have moved, as they are at the end of the batch."""
        yield from self.created.values()
        for _, now in self.advanced.values():
            yield now

    @property
    def latest_stamp(self) -> Instant:
        """The latest instant in it."""
        return max((line.at for line in self.journal), default=0)

    def add(self, change: Change) -> None:
        """Let one more change become part of it, after those that are.

        Raises AssertionError when a transaction moves from another version than it has.
        """
        match change:
            case ReferenceConsumed():
                self.references.append(change)
            case TransactionCreated(transaction):
                assert transaction.reference not in self.created
                self.created[transaction.reference] = transaction
            case TransactionAdvanced(was, now):
                self._advance(was, now)
            case Journaled():
                self.journal.append(change)
            case IntentConcluded(key):
                self.scheduled.pop(key, None)
                self.concluded.add(key)
            case CallbackRecorded():
                self.callbacks.append(change)
            case BreakerKept(brand):
                self.breakers[brand] = change
            case DepositRecorded():
                self.deposits.append(change)
            case QrRecorded():
                pass  # The journal's line holds it.
            case SuspenseNoted():
                self.suspense.append(change)
            case _:
                assert_never(change)

    def _advance(self, was: Transaction, now: Transaction) -> None:
        before, after = was.progress.version, now.progress.version
        assert after == before + 1
        reference = now.reference
        if reference in self.created:
            assert self.created[reference].progress.version == before
            self.created[reference] = now
        elif reference in self.advanced:
            stored, earlier = self.advanced[reference]
            assert earlier.progress.version == before
            self.advanced[reference] = (stored, now)
        else:
            self.advanced[reference] = (before, now)


def batch_of(decisions: Iterable[Decision]) -> Batch:
    """The net effect of these decisions, in their order."""
    batch = Batch()
    for decision in decisions:
        for change in decision.changes:
            batch.add(change)
        for intent in decision.intents:
            if not isinstance(intent, AskProvider):
                batch.scheduled[intent.gateway_reference, intent.kind] = None
    return batch
