"""The store in memory: for tests and for reading; it keeps the same promises except surviving its process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import evolve, frozen

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.messages.intents import DeliverCallback, DurableIntent, PollProvider
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, LookUp, Position, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.payments.stuck import has_unknown_outcome
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.ownership import OVERDUE_AFTER, is_in_wake_share
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.store import (
    Backlog,
    BrandRecord,
    ClosedProvider,
    DecideBatch,
    StoredApiKey,
    StoreUnavailable,
    SuspenseEntry,
    WorkItem,
)
from mmo_trio.storage.memory.admin import MemoryAdminStore
from mmo_trio.storage.memory.ownership import MemoryChannelOwnership, store_time
from mmo_trio.storage.memory.state import MemoryState, record_change, working_set

__all__ = ["MemoryState", "MemoryStore", "open_memory"]


@asynccontextmanager
async def open_memory(memory: MemoryState | None = None) -> AsyncIterator[MemoryStore]:
    """Open it as its one serving process, or as one of those that share it."""
    store = MemoryStore(memory or MemoryState())
    try:
        yield store
    finally:
        await store.aclose()


@frozen
class _RecordsRow:
    position: Position
    transaction: Transaction


class MemoryStore:
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`open_memory`."""

    batches_in_flight = 1

    def __init__(self, memory: MemoryState) -> None:
        self._state: MemoryState | None = memory
        self.admin = MemoryAdminStore(self._open_state)
        self.ownership = MemoryChannelOwnership(memory) if memory.is_shared else None
        if not memory.is_shared:
            memory.claims.clear()

    async def _open_state(self) -> MemoryState:
        """What is kept, as long as the store is open."""
        await trio.lowlevel.checkpoint()
        if self._state is None:
            raise StoreUnavailable("the store is closed")
        return self._state

    @property
    def _holder(self) -> int:
        """What its kept intents are held under."""
        return 0 if self.ownership is None else self.ownership.lease_number

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        memory = await self._open_state()
        decisions = decide(working_set(memory.ledger, reads))
        for decision in decisions:
            memory.ledger.apply(decision.changes, decision.intents)
            memory.claims.update(
                ((intent.gateway_reference, intent.kind), self._holder)
                for intent in decision.intents
                if not isinstance(intent, PollProvider)
            )
            for change in decision.changes:
                record_change(memory, change)
        return decisions

    async def latest_stamp(self) -> Instant:
        return (await self._open_state()).latest_stamp

    async def next_wake(self) -> Instant | None:
        memory = await self._open_state()
        return min(
            (
                at
                for at, reference in _pending_wakes(memory)
                if self._is_in_share(memory, reference)
            ),
            default=None,
        )

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        memory = await self._open_state()
        due = sorted(
            (at, reference)
            for at, reference in _pending_wakes(memory)
            if at <= now and (at <= now - OVERDUE_AFTER or self._is_in_share(memory, reference))
        )
        return [reference for _, reference in due[:limit]]

    def _is_in_share(self, memory: MemoryState, reference: str) -> bool:
        """Whether this payment is this process's to wake."""
        if self.ownership is None:
            return True
        return is_in_wake_share(reference, self._holder, memory.ownership.alive(now=store_time()))

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        memory = await self._open_state()
        ledger = memory.ledger
        free = [
            key for key, intent in ledger.intents.items() if self._is_unclaimed(memory, intent)
        ][:limit]
        memory.claims.update((key, self._holder) for key in free)
        return [WorkItem(ledger.intents[key], ledger.transactions[key[0]]) for key in free]

    def _is_unclaimed(self, memory: MemoryState, intent: DurableIntent) -> bool:
        holder = memory.claims.get((intent.gateway_reference, intent.kind))
        if self.ownership is None:
            return holder is None
        if isinstance(intent, DeliverCallback):
            return False
        return holder is None or not memory.ownership.is_alive(holder, now=store_time())

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return (await self._open_state()).ownership.breakers()

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        ledger = (await self._open_state()).ledger
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
        rows = [
            row
            for row in _rows_in_order(await self._open_state())
            if _matches(row.transaction, query)
        ]
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
        return (await self._open_state()).ledger.transactions.get(gateway_reference)

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        for each in (await self._open_state()).ledger.transactions.values():
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
            for row in reversed(_rows_in_order(await self._open_state()))
            if reference in (None, row.transaction.reference)
            or reference == row.transaction.order.merchant_reference
        ]
        return [
            each
            for each in found
            if brand in (None, each.order.brand) and status in (None, each.status)
        ][:limit]

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        journal = (await self._open_state()).journal
        return [line for line in journal if line.gateway_reference == gateway_reference]

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        found = [
            each
            for each in (await self._open_state()).callbacks
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
            for each in (await self._open_state()).suspense
            if brand in (None, each.brand) and (with_closed or each.closed_at is None)
        ][:limit]

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        memory = await self._open_state()
        for index, each in enumerate(memory.suspense):
            if each.id == id and each.closed_at is None:
                memory.suspense[index] = evolve(each, closed_at=now, closed_by=by, note=note)
                memory.latest_stamp = max(memory.latest_stamp, now)
                return True
        return False

    async def brands(self) -> Sequence[BrandRecord]:
        memory = await self._open_state()
        return [
            BrandRecord(brand, tuple(key for key in memory.keys if key.brand == id))
            for id, brand in sorted(memory.brands.items())
        ]

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        memory = await self._open_state()
        for key in memory.keys:
            if key.digest == digest and key.retired_at is None:
                return memory.brands[key.brand]
        return None

    async def keys_of(self, brand: str) -> Sequence[StoredApiKey]:
        return [key for key in (await self._open_state()).keys if key.brand == brand]

    async def save_brands(self, brands: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        memory = await self._open_state()
        for id in removed:
            memory.brands.pop(id, None)
            memory.ownership.delete_breaker(id)
        memory.keys = [key for key in memory.keys if key.brand in memory.brands]
        memory.brands.update((brand.id, brand) for brand in brands)

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        memory = await self._open_state()
        if brand not in memory.brands:
            raise KeyError(brand)
        if any(key.digest == digest for key in memory.keys):
            return False
        memory.last_key_id += 1
        memory.keys.append(StoredApiKey(memory.last_key_id, brand, digest, sealed, now))
        memory.latest_stamp = max(memory.latest_stamp, now)
        return True

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        memory = await self._open_state()
        for index, key in enumerate(memory.keys):
            if (key.brand, key.id, key.retired_at) == (brand, id, None):
                memory.keys[index] = evolve(key, retired_at=now)
                memory.latest_stamp = max(memory.latest_stamp, now)
                return True
        return False

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        every = (await self._open_state()).ledger.transactions.values()
        found = [each for each in every if each.reference[-12:] == suffix]
        return found[0] if len(found) == 1 else None

    async def unknown_outcomes(
        self, submitted_before: Instant, *, limit: int = 500
    ) -> Sequence[Transaction]:
        rows = (row.transaction for row in _rows_in_order(await self._open_state()))
        return [each for each in rows if has_unknown_outcome(each, submitted_before)][:limit]

    async def backlog(self, *, stuck_before: Instant, overdue_before: Instant) -> Backlog:
        memory = await self._open_state()
        pending = [
            each.transaction
            for each in _rows_in_order(memory)
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
        return sorted(
            (await self._open_state()).closed_providers.values(), key=lambda each: each.name
        )

    async def close_provider(self, closed: ClosedProvider) -> bool:
        memory = await self._open_state()
        memory.latest_stamp = max(memory.latest_stamp, closed.closed_at)
        return memory.closed_providers.setdefault(closed.name, closed) is closed

    async def open_provider(self, name: str) -> bool:
        return (await self._open_state()).closed_providers.pop(name, None) is not None

    async def check(self) -> None:
        await self._open_state()

    async def aclose(self) -> None:
        if self.ownership is not None:
            self.ownership.close()
        self._state = None
        await trio.lowlevel.checkpoint()


def _pending_wakes(memory: MemoryState) -> Iterable[tuple[Instant, str]]:
    for each in memory.ledger.transactions.values():
        if each.progress.wake_at is not None:
            yield each.progress.wake_at, each.reference


def _rows_in_order(memory: MemoryState) -> list[_RecordsRow]:
    """All transactions in the total order of records."""
    rows = [
        _RecordsRow(Position(each.order.created_at, each.reference), each)
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
