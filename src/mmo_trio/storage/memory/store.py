"""The store in memory: for tests and for reading; it keeps the same promises except surviving its process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import evolve, frozen

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.messages.changes import CallbackRecorded, Journaled
from mmo_sansio.messages.intents import AskProvider, DeliverCallback, KeptIntent
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, LookUp, Position, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.payments.stuck import may_be_under_way
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.ownership import OVERDUE, is_in_share
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.store import (
    Backlog,
    BrandRecord,
    ClosedProvider,
    Decide,
    StoredKey,
    StoreUnavailable,
    SuspenseEntry,
    Work,
)
from mmo_trio.storage.memory.admin import MemoryOffice
from mmo_trio.storage.memory.ownership import MemoryChannels, store_time
from mmo_trio.storage.memory.state import Memory, keep, working_set

__all__ = ["Memory", "MemoryStore", "open_memory"]


@asynccontextmanager
async def open_memory(memory: Memory | None = None) -> AsyncIterator[MemoryStore]:
    """Open it as its one serving process, or as one of those that share it."""
    store = MemoryStore(memory or Memory())
    try:
        yield store
    finally:
        await store.aclose()


@frozen
class _Row:
    position: Position
    transaction: Transaction


class MemoryStore:
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`open_memory`."""

    batches_in_flight = 1

    def __init__(self, memory: Memory) -> None:
        self._kept: Memory | None = memory
        self.office = MemoryOffice(self._memory)
        self.channels = MemoryChannels(memory) if memory.is_shared else None
        if not memory.is_shared:
            memory.held.clear()

    async def _memory(self) -> Memory:
        """What is kept, as long as the store is open."""
        await trio.lowlevel.checkpoint()
        if self._kept is None:
            raise StoreUnavailable("the store is closed")
        return self._kept

    @property
    def _number(self) -> int:
        """What its kept intents are held under."""
        return 0 if self.channels is None else self.channels.number

    async def transact(self, reads: Reads, decide: Decide) -> Sequence[Decision]:
        memory = await self._memory()
        decisions = decide(working_set(memory.ledger, reads))
        for decision in decisions:
            memory.ledger.apply(decision.changes, decision.intents)
            memory.held.update(
                ((intent.gateway_reference, intent.kind), self._number)
                for intent in decision.intents
                if not isinstance(intent, AskProvider)
            )
            for change in decision.changes:
                keep(memory, change)
        return decisions

    async def latest_stamp(self) -> Instant:
        return (await self._memory()).latest_stamp

    async def next_wake(self) -> Instant | None:
        memory = await self._memory()
        return min(
            (at for at, reference in _due(memory) if self._is_mine(memory, reference)), default=None
        )

    async def woken(self, now: Instant, *, limit: int) -> Sequence[str]:
        memory = await self._memory()
        due = sorted(
            (at, reference)
            for at, reference in _due(memory)
            if at <= now and (at <= now - OVERDUE or self._is_mine(memory, reference))
        )
        return [reference for _, reference in due[:limit]]

    def _is_mine(self, memory: Memory, reference: str) -> bool:
        """Whether this payment is this process's to wake."""
        if self.channels is None:
            return True
        return is_in_share(reference, self._number, memory.channels.alive(now=store_time()))

    async def orphans(self, *, limit: int) -> Sequence[Work]:
        memory = await self._memory()
        ledger = memory.ledger
        free = [key for key, intent in ledger.intents.items() if self._is_free(memory, intent)][
            :limit
        ]
        memory.held.update((key, self._number) for key in free)
        return [Work(ledger.intents[key], ledger.transactions[key[0]]) for key in free]

    def _is_free(self, memory: Memory, intent: KeptIntent) -> bool:
        holder = memory.held.get((intent.gateway_reference, intent.kind))
        if self.channels is None:
            return holder is None
        if isinstance(intent, DeliverCallback):
            return False
        return holder is None or not memory.channels.is_alive(holder, now=store_time())

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return (await self._memory()).channels.breakers()

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        ledger = (await self._memory()).ledger
        if isinstance(query, LookUp):
            reference: str | None = query.gateway_reference
        else:
            use = ledger.references.get((query.brand, query.merchant_reference))
            reference = use.gateway_reference if use else None
        found = ledger.transactions.get(reference) if reference else None
        if found is None or found.order.brand != query.brand:
            return None
        return transaction_object(found)

    async def list_records(self, query: ListRecords) -> Records:
        rows = [row for row in _rows(await self._memory()) if _matches(row.transaction, query)]
        if query.before is not None:
            before = [row for row in rows if _precedes(row.position, query.before)]
            page = before[-query.page_size :]
        else:
            after = query.after
            following = [row for row in rows if after is None or _precedes(after, row.position)]
            page = following[: query.page_size]
        if not page:
            return Records((), None, None, has_previous=False, has_next=False)
        return Records(
            tuple(transaction_object(row.transaction) for row in page),
            page[0].position,
            page[-1].position,
            has_previous=page[0] != rows[0],
            has_next=page[-1] != rows[-1],
        )

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return (await self._memory()).ledger.transactions.get(gateway_reference)

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        for each in (await self._memory()).ledger.transactions.values():
            if each.order.page and each.order.page.token == token:
                return each
        return None

    async def find_transactions(
        self,
        *,
        reference: str | None = None,
        brand: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> Sequence[Transaction]:
        found = [
            row.transaction
            for row in reversed(_rows(await self._memory()))
            if reference in (None, row.transaction.reference)
            or reference == row.transaction.order.merchant_reference
        ]
        return [
            each
            for each in found
            if brand in (None, each.order.brand) and status in (None, each.status)
        ][:limit]

    async def timeline(self, gateway_reference: str) -> Sequence[Journaled]:
        journal = (await self._memory()).journal
        return [line for line in journal if line.gateway_reference == gateway_reference]

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        found = [
            each
            for each in (await self._memory()).callbacks
            if brand in (None, each.brand) and gateway_reference in (None, each.gateway_reference)
        ][-limit:]
        if gateway_reference is not None:
            return found
        return [evolve(each, attempt=evolve(each.attempt, body=b"")) for each in found]

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        return [
            each
            for each in (await self._memory()).suspense
            if brand in (None, each.brand) and (with_closed or each.closed_at is None)
        ][:limit]

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        memory = await self._memory()
        for index, each in enumerate(memory.suspense):
            if each.id == id and each.closed_at is None:
                memory.suspense[index] = evolve(each, closed_at=now, closed_by=by, note=note)
                memory.latest_stamp = max(memory.latest_stamp, now)
                return True
        return False

    async def brands(self) -> Sequence[BrandRecord]:
        memory = await self._memory()
        return [
            BrandRecord(brand, tuple(key for key in memory.keys if key.brand == id))
            for id, brand in sorted(memory.brands.items())
        ]

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        memory = await self._memory()
        for key in memory.keys:
            if key.digest == digest and key.retired_at is None:
                return memory.brands[key.brand]
        return None

    async def keys_of(self, brand: str) -> Sequence[StoredKey]:
        return [key for key in (await self._memory()).keys if key.brand == brand]

    async def save_brands(self, brands: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        memory = await self._memory()
        for id in removed:
            memory.brands.pop(id, None)
            memory.channels.forget(id)
        memory.keys = [key for key in memory.keys if key.brand in memory.brands]
        memory.brands.update((brand.id, brand) for brand in brands)

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        memory = await self._memory()
        if brand not in memory.brands:
            raise KeyError(brand)
        if any(key.digest == digest for key in memory.keys):
            return False
        memory.keys_made += 1
        memory.keys.append(StoredKey(memory.keys_made, brand, digest, sealed, now))
        memory.latest_stamp = max(memory.latest_stamp, now)
        return True

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        memory = await self._memory()
        for index, key in enumerate(memory.keys):
            if (key.brand, key.id, key.retired_at) == (brand, id, None):
                memory.keys[index] = evolve(key, retired_at=now)
                memory.latest_stamp = max(memory.latest_stamp, now)
                return True
        return False

    async def transaction_by_ending(self, ending: str) -> Transaction | None:
        every = (await self._memory()).ledger.transactions.values()
        found = [each for each in every if each.reference[-12:] == ending]
        return found[0] if len(found) == 1 else None

    async def unknown_since(self, before: Instant, *, limit: int = 500) -> Sequence[Transaction]:
        rows = (row.transaction for row in _rows(await self._memory()))
        return [each for each in rows if may_be_under_way(each, before)][:limit]

    async def backlog(self, *, stuck_before: Instant, overdue_before: Instant) -> Backlog:
        memory = await self._memory()
        pending = [
            each.transaction
            for each in _rows(memory)
            if each.transaction.progress.wake_at is not None
        ]
        return Backlog(
            pending=len(pending),
            stuck=sum(each.order.created_at < stuck_before for each in pending),
            overdue=sum((each.progress.wake_at or 0) < overdue_before for each in pending),
            callbacks=sum(
                isinstance(each, DeliverCallback) for each in memory.ledger.intents.values()
            ),
            suspense=sum(each.closed_at is None for each in memory.suspense),
        )

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        return sorted((await self._memory()).closed.values(), key=lambda each: each.name)

    async def close_provider(self, closed: ClosedProvider) -> bool:
        memory = await self._memory()
        memory.latest_stamp = max(memory.latest_stamp, closed.closed_at)
        return memory.closed.setdefault(closed.name, closed) is closed

    async def open_provider(self, name: str) -> bool:
        return (await self._memory()).closed.pop(name, None) is not None

    async def check(self) -> None:
        await self._memory()

    async def aclose(self) -> None:
        if self.channels is not None:
            self.channels.close()
        self._kept = None
        await trio.lowlevel.checkpoint()


def _due(memory: Memory) -> Iterable[tuple[Instant, str]]:
    for each in memory.ledger.transactions.values():
        if each.progress.wake_at is not None:
            yield each.progress.wake_at, each.reference


def _rows(memory: Memory) -> list[_Row]:
    """All transactions in the total order of records."""
    rows = [
        _Row(Position(each.order.created_at, each.reference), each)
        for each in memory.ledger.transactions.values()
    ]
    return sorted(rows, key=lambda row: (row.position.created_at, row.position.gateway_reference))


def _precedes(one: Position, other: Position) -> bool:
    return (one.created_at, one.gateway_reference) < (other.created_at, other.gateway_reference)


def _matches(transaction: Transaction, query: ListRecords) -> bool:
    order = transaction.order
    return (
        order.brand == query.brand
        and query.begin <= order.created_at < query.end
        and query.type in (None, order.type)
        and query.method in (None, order.method)
        and query.status in (None, transaction.status)
    )
