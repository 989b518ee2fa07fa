"""Reads what a store holds at the end of a simulated world: the gateway's own books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import Proposal, SuspenseEntry
from mmo_trio.storage.interface.store import Store, WorkItem

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


async def read_books(store: Store, brands: Sequence[str]) -> WorldBooks:
    """Read the books of these brands by way of the store's own interface."""
    admin = store.admin
    found: list[Transaction] = []
    for brand in brands:
        found += await admin.find_transactions(brand=brand, limit=ROWS_MAX)
    found.sort(key=lambda each: each.reference)
    references = [each.reference for each in found]
    suspense: dict[str, list[SuspenseEntry]] = {}
    for entry in await admin.suspense(with_closed=True, limit=ROWS_MAX):
        suspense.setdefault(entry.gateway_reference or "", []).append(entry)
    return WorldBooks(
        transactions={each.reference: each for each in found},
        journal={each: await admin.timeline(each) for each in references},
        callbacks={each: await admin.callbacks(gateway_reference=each) for each in references},
        suspense=suspense,
        proposals=await admin.proposals(limit=ROWS_MAX),
        unfinished=await store.claim_abandoned(limit=ROWS_MAX),
        next_wake=await store.next_wake(),
    )
