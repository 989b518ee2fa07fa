"""The store in memory, for tests and as an example: it passes the same checks, but ends with its process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice, takewhile

import trio
from attrs import evolve

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.messages.intents import DeliverCallback, DurableIntent
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, LookUp, Records, empty_page
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.resilience.ownership import OVERDUE_AFTER, is_in_wake_share
from mmo_sansio.resilience.store_clock import StoreClock
from mmo_sansio.resilience.store_mark import StoreMark, StoreState
from mmo_sansio.values.clock import FIRST_INSTANT, Instant, Span, earlier
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import BrandRecord, Configuration, KeyOwner, ServingProcess
from mmo_trio.storage.interface.store import (
    CLOCK_RECORDS_KEPT_FOR,
    DecideBatch,
    StoredClockRecord,
    StoreUnavailable,
    WorkItem,
)
from mmo_trio.storage.memory.admin import MemoryAdminStore
from mmo_trio.storage.memory.ownership import MemoryChannelOwnership
from mmo_trio.storage.memory.retention import MemoryRetentionStore
from mmo_trio.storage.memory.state import MemoryState
from mmo_trio.storage.shared.payment_index import position_of
from mmo_trio.storage.shared.records_size import count_fitting

__all__ = ["MemoryState", "MemoryStore", "open_memory"]


@asynccontextmanager
async def open_memory(memory: MemoryState | None = None) -> AsyncIterator[MemoryStore]:
    """Open the store as its one serving process, or as one of those that share it."""
    store = MemoryStore(memory or MemoryState())
    try:
        yield store
    finally:
        await store.aclose()


class MemoryStore:
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`open_memory`."""

    batches_in_flight = 1

    def __init__(self, memory: MemoryState, pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint) -> None:
        """Each call first waits for `pause`."""
        self._state: MemoryState | None = memory
        self._pause = pause
        self.admin = MemoryAdminStore(self._open_state)
        self.retention = MemoryRetentionStore(self._open_state)
        self.ownership = MemoryChannelOwnership(memory, pause) if memory.is_shared else None
        if not memory.is_shared:
            memory.claims.clear()
            memory.configurations_in_use.clear()

    async def _open_state(self) -> MemoryState:
        """Return the state, as long as the store is open."""
        await self._pause()
        if self._state is None:
            raise StoreUnavailable("the store is closed")
        return self._state

    @property
    def _holder(self) -> int:
        """Return the number of the lease under which this process claims durable intents."""
        return 0 if self.ownership is None else self.ownership.lease_number

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        memory = await self._open_state()
        decisions = decide(memory.ledger.working_set(reads))
        memory.apply(decisions, self._holder)
        return decisions

    async def clock_record(self, boot_id: str) -> StoredClockRecord | None:
        records = (await self._open_state()).clock_records
        found = max(records.values(), key=lambda each: (each.boot_id == boot_id, each.time), default=None)
        return None if found is None else StoredClockRecord(found, age=None)

    async def read_clock(self, boot_id: str) -> StoreClock | None:
        await self._open_state()
        return None

    async def save_clock_record(self, record: ClockRecord) -> None:
        memory = await self._open_state()
        oldest = earlier(record.time, CLOCK_RECORDS_KEPT_FOR)
        memory.clock_records = {id: each for id, each in memory.clock_records.items() if each.time >= oldest}
        memory.clock_records[record.boot_id] = record

    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        memory = await self._open_state()
        return next((at for at, each in memory.wakes if at > after and self._is_in_share(memory, each)), None)

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        memory = await self._open_state()
        due = (
            reference
            for at, reference in takewhile(lambda wake: wake[0] <= now, memory.wakes)
            if at <= now - OVERDUE_AFTER or self._is_in_share(memory, reference)
        )
        return list(islice(due, limit))

    def _is_in_share(self, memory: MemoryState, reference: str) -> bool:
        """Return whether this process has to wake this payment."""
        if self.ownership is None:
            return True
        return is_in_wake_share(reference, self._holder, memory.ownership.alive(now=memory.clock()))

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        memory = await self._open_state()
        ledger = memory.ledger
        unclaimed = (key for key, intent in ledger.intents.items() if self._is_unclaimed(memory, intent))
        free = list(islice((key for key in unclaimed if key not in memory.locked_intents), limit))
        memory.claims.update((key, self._holder) for key in free)
        return [WorkItem(ledger.intents[key], ledger.transactions[key[0]]) for key in free]

    def _is_unclaimed(self, memory: MemoryState, intent: DurableIntent) -> bool:
        holder = memory.claims.get((intent.gateway_reference, intent.kind))
        if self.ownership is None:
            return holder is None
        if isinstance(intent, DeliverCallback):
            return False
        return holder is None or memory.ownership.is_over(holder)

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return (await self._open_state()).ownership.breakers()

    async def held_until(self) -> Instant:
        records = (await self._open_state()).clock_records.values()
        return max((each.served_until for each in records), default=Instant(0))

    async def release_held(self, now: Instant) -> None:
        memory = await self._open_state()
        for id, each in memory.clock_records.items():
            memory.clock_records[id] = evolve(each, served_until=min(each.served_until, now))

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
        every = (await self._open_state()).ledger.transactions.values()
        rows = sorted((each for each in every if _matches(each, query)), key=position_of)
        before, after = query.before, query.after
        if before is not None:
            nearest = [row for row in reversed(rows) if position_of(row) < before][: query.page_size]
        else:
            nearest = [row for row in rows if after is None or position_of(row) > after][: query.page_size]
        page = nearest[: count_fitting((len(transaction_object(row)) for row in nearest), query)]
        if not page:
            return empty_page(query, has_opposite=bool(rows))
        if before is not None:
            page.reverse()
        return Records(
            tuple(map(transaction_object, page)),
            position_of(page[0]),
            position_of(page[-1]),
            has_previous=page[0] != rows[0],
            has_next=page[-1] != rows[-1],
        )

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return (await self._open_state()).ledger.transactions.get(gateway_reference)

    async def transactions(self, gateway_references: Sequence[str]) -> Mapping[str, Transaction]:
        stored = (await self._open_state()).ledger.transactions
        return {each: stored[each] for each in gateway_references if each in stored}

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        for each in (await self._open_state()).ledger.transactions.values():
            if each.order.page and each.order.page.token == token:
                return each
        return None

    async def deposit_claim(self, provider: str, receipt: str) -> DepositClaim | None:
        return (await self._open_state()).ledger.claims.get((provider, receipt))

    async def due_claims(self, now: Instant, *, limit: int) -> Sequence[DepositClaim]:
        claims = (await self._open_state()).ledger.claims.values()
        due = [(each.wake_at, each.receipt, each) for each in claims if each.wake_at is not None]
        return [each for at, _, each in sorted(due, key=lambda row: row[:2]) if at <= now][:limit]

    async def begin_listing(self, provider: str, now: Instant, *, interval: Span) -> Instant | None:
        listings = (await self._open_state()).listings
        begun_at, listed_until = listings.get(provider, (None, now))
        if begun_at is not None and begun_at > now - interval:
            return None
        listings[provider] = (now, listed_until)
        return listed_until

    async def save_listed(self, provider: str, until: Instant) -> None:
        listings = (await self._open_state()).listings
        begun_at, listed_until = listings[provider]
        listings[provider] = (begun_at, max(listed_until, until))

    async def key_owner(self, *digests: bytes) -> KeyOwner | None:
        memory = await self._open_state()
        for key in memory.keys:
            if key.digest in digests and key.retired_at is None:
                return KeyOwner(memory.brands[key.brand], str(key.id))
        return None

    async def brand_record(self, brand: str) -> BrandRecord | None:
        memory = await self._open_state()
        found = memory.brands.get(brand)
        return None if found is None else BrandRecord(found, tuple(key for key in memory.keys if key.brand == brand))

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        every = (await self._open_state()).ledger.transactions.values()
        found = [each for each in every if each.reference[-12:] == suffix]
        return found[0] if len(found) == 1 else None

    async def configuration(self) -> Configuration:
        memory = await self._open_state()
        closed = frozenset(memory.closed_providers)
        return Configuration(memory.configuration_generation, closed, memory.restored_brands)

    async def use_configuration(self, generation: int, *, process: str) -> None:
        memory = await self._open_state()
        memory.configurations_in_use[self._holder] = ServingProcess(process, generation)

    async def serving_processes(self) -> Sequence[ServingProcess]:
        memory = await self._open_state()
        alive = memory.ownership.alive(now=memory.clock()) if memory.is_shared else (self._holder,)
        unknown = ServingProcess("a process that has not said its name", None)
        return [memory.configurations_in_use.get(holder, unknown) for holder in alive]

    @property
    def raised_mark(self) -> StoreMark | None:
        return None if self._state is None or not self._state.store.mark.epoch else self._state.store.mark

    async def state(self) -> StoreState:
        return (await self._open_state()).store

    async def check(self) -> None:
        await self._open_state()

    async def aclose(self) -> None:
        if self.ownership is not None:
            self.ownership.close()
        self._state = None
        await trio.lowlevel.checkpoint()


def _matches(transaction: Transaction, query: ListRecords) -> bool:
    order = transaction.order
    return (
        order.brand == query.brand
        and query.begin <= order.created_at < query.end
        and query.type in (None, order.type)
        and query.method in (None, order.method)
        and query.status in (None, transaction.status)
    )
