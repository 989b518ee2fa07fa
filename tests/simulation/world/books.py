"""Reads what a store holds at the end of a simulated world: the gateway's own books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.messages.intents import PollProvider
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import Proposal, SuspenseEntry
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.sql.store import Store

ROWS_MAX: Final = 100_000


@frozen
class WorldBooks:
    """Holds a copy of everything that judges look at."""

    transactions: Mapping[str, Transaction]
    """By gatewayReference, in the order of their creation."""
    journal: Mapping[str, Sequence[JournalEntry]]
    callbacks: Mapping[str, Sequence[CallbackRecorded]]
    suspense: Mapping[str, Sequence[SuspenseEntry]]
    """By gatewayReference; the empty text for entries about none."""
    proposals: Sequence[Proposal]
    """What staff have proposed about payments."""
    unfinished: Sequence[WorkItem]
    """Intents that nobody has carried out."""
    next_wake: Instant | None
    """When something is due; None when nothing is pending."""
    ledger: Ledger
    """What decisions would be made from."""
    breakers: Mapping[str, BreakerSnapshot]


async def read_books(store: Store, brands: Sequence[str], decided: Ledger) -> WorldBooks:
    """Read the books of these brands by way of the store's own interface, the ledger by the keys of
    what was decided and of what is stored."""
    admin = store.admin
    found: list[Transaction] = []
    for brand in brands:
        found += await admin.find_transactions(brand=brand, limit=ROWS_MAX)
    found.sort(key=lambda each: each.reference)
    references = [each.reference for each in found]
    suspense: dict[str, list[SuspenseEntry]] = {}
    for entry in await admin.suspense(with_closed=True, limit=ROWS_MAX):
        suspense.setdefault(entry.gateway_reference or "", []).append(entry)
    unfinished = await store.claim_abandoned(limit=ROWS_MAX)
    claimed = [each.intent for each in unfinished if not isinstance(each.intent, PollProvider)]
    reads = Reads(
        transactions=frozenset([*decided.transactions, *references]),
        references=frozenset(decided.references),
        deposits=frozenset(decided.deposits),
        intents=frozenset(
            [*decided.intents, *((each.gateway_reference, each.kind) for each in claimed)]
        ),
        claims=frozenset(decided.claims),
        usage=frozenset(decided.usage),
        reversals=frozenset(decided.reversals),
    )
    return WorldBooks(
        transactions={each.reference: each for each in found},
        journal={each: await admin.timeline(each) for each in references},
        callbacks={each: await admin.callbacks(gateway_reference=each) for each in references},
        suspense=suspense,
        proposals=await admin.proposals(limit=ROWS_MAX),
        unfinished=unfinished,
        next_wake=await store.next_wake(),
        ledger=await _read_ledger(store, reads),
        breakers=await store.breakers(),
    )


async def _read_ledger(store: Store, reads: Reads) -> Ledger:
    found: list[Ledger] = []

    def decide_nothing(ledger: Ledger) -> Sequence[Decision]:
        found.append(ledger)
        return ()

    await store.transact(reads, decide_nothing)
    return found[-1]
