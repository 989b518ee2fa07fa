"""What a store in memory keeps, and how a batch finds and leaves it."""

from __future__ import annotations

from attrs import Factory, define, evolve

from mmo_sansio.messages.changes import BreakerKept, CallbackRecorded, Journaled, SuspenseNoted
from mmo_sansio.messages.intents import IntentKey
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.resilience.ownership import ChannelBook
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand
from mmo_trio.storage.interface.admin_types import (
    AuditRow,
    BreakerChange,
    Operator,
    Proposal,
    Session,
)
from mmo_trio.storage.interface.store import ClosedProvider, StoredKey, SuspenseEntry


@define
class OfficeKept:
    """The rest it finds among what the store has."""

    operators: dict[str, Operator] = Factory(dict)
    sessions: dict[bytes, Session] = Factory(dict)
    proposals: list[Proposal] = Factory(list)
    audit: list[AuditRow] = Factory(list)
    breaker_changes: list[BreakerChange] = Factory(list)

    def keep_breaker(self, kept: BreakerKept, at: Instant) -> None:
        """Note it when it has opened or closed."""
        earlier = [each.state for each in self.breaker_changes if each.brand == kept.brand]
        before = earlier[-1] if earlier else BreakerState.CLOSED.value
        if kept.breaker.state.value != before:
            change = BreakerChange(kept.brand, at, kept.breaker.state.value)
            self.breaker_changes.append(change)


@define
class Memory:
    """What a store in memory keeps. Opening it again is what a restart is to other stores."""

    is_shared: bool = False
    """Whether it may be open several times at once, as a database is to several processes."""
    ledger: Ledger = Factory(Ledger)
    held: dict[IntentKey, int] = Factory(dict)
    """Kept intents that are with somebody, by the number of a lease; 0 is who has it to itself."""
    channels: ChannelBook = Factory(ChannelBook)
    journal: list[Journaled] = Factory(list)
    callbacks: list[CallbackRecorded] = Factory(list)
    suspense: list[SuspenseEntry] = Factory(list)
    brands: dict[str, Brand] = Factory(dict)
    keys: list[StoredKey] = Factory(list)
    keys_made: int = 0
    closed: dict[str, ClosedProvider] = Factory(dict)
    latest_stamp: Instant = 0
    office: OfficeKept = Factory(OfficeKept)


def working_set(ledger: Ledger, reads: Reads) -> Ledger:
    """What is read, and nothing else; a known deposit brings its transaction along."""
    deposits = {key: ledger.deposits[key] for key in reads.deposits & ledger.deposits.keys()}
    wanted = reads.transactions.union(deposits.values())
    return Ledger(
        covers=evolve(reads, transactions=wanted),
        transactions={key: ledger.transactions[key] for key in wanted & ledger.transactions.keys()},
        references={
            key: ledger.references[key] for key in reads.references & ledger.references.keys()
        },
        deposits=deposits,
        intents={key: ledger.intents[key] for key in reads.intents & ledger.intents.keys()},
    )


def keep(memory: Memory, change: object) -> None:
    """What people look at and no decision does."""
    match change:
        case Journaled():
            memory.journal.append(change)
            memory.latest_stamp = max(memory.latest_stamp, change.at)
        case CallbackRecorded():
            memory.callbacks.append(change)
        case BreakerKept(brand, fence, breaker):
            memory.channels.keep(brand, fence, breaker)
            memory.office.keep_breaker(change, memory.callbacks[-1].at)
        case SuspenseNoted():
            _keep_suspense(memory, change)
        case _:
            pass


def _keep_suspense(memory: Memory, told: SuspenseNoted) -> None:
    identity = (told.provider, told.reason, told.gateway_reference, told.told)
    for index, each in enumerate(memory.suspense):
        if (each.provider, each.reason, each.gateway_reference, each.told) == identity:
            memory.suspense[index] = evolve(each, times=each.times + 1, last_at=told.at)
            return
    memory.suspense.append(
        SuspenseEntry(
            id=len(memory.suspense) + 1,
            reason=told.reason,
            provider=told.provider,
            told=told.told,
            gateway_reference=told.gateway_reference,
            brand=told.brand,
            first_at=told.at,
            last_at=told.at,
            times=1,
        )
    )
