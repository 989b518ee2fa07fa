"""What a store in memory keeps, and how a batch finds and leaves it."""

from __future__ import annotations

from attrs import Factory, define, evolve

from mmo_sansio.changes import BreakerKept, CallbackRecorded, Journaled, SuspenseNoted
from mmo_sansio.channels import ChannelBook
from mmo_sansio.clock import Instant
from mmo_sansio.intents import IntentKey
from mmo_sansio.ledger import Ledger, Reads
from mmo_sansio.model import Brand
from mmo_trio.storage.base import ClosedProvider, StoredKey, SuspenseEntry
from mmo_trio.storage.office.kept import OfficeKept


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
