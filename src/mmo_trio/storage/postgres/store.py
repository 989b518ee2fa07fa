"""The store on PostgreSQL: a batch is one round trip to load, one to write and commit, and no lock in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar
from uuid import UUID

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.messages.intents import IntentKey, IntentKind
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.store import (
    Backlog,
    BrandRecord,
    ClosedProvider,
    DecideBatch,
    OutcomeUnknown,
    StoredApiKey,
    StoreUnavailable,
    SuspenseEntry,
    WorkItem,
)
from mmo_trio.storage.postgres import admin, integrity, ownership, records_horizon
from mmo_trio.storage.postgres import queries as reading
from mmo_trio.storage.postgres.batch_load import load_batch
from mmo_trio.storage.postgres.batch_statements import batch_statements
from mmo_trio.storage.postgres.bridge import AsyncioBridge, PostgresConnection, loop_time_s
from mmo_trio.storage.postgres.commits import (
    Commit,
    CommitDeadlines,
    CommitInDoubt,
    commit_until_known,
    is_committed,
)
from mmo_trio.storage.postgres.connections import Pool, PostgresCall, call_with_retry
from mmo_trio.storage.postgres.ownership import PostgresChannelOwnership
from mmo_trio.storage.postgres.queries import run_query
from mmo_trio.storage.shared.coalescing import Coalescer
from mmo_trio.storage.shared.net_effect import net_effect
from mmo_trio.storage.sql.admin_store import SqlAdminStore
from mmo_trio.storage.sql.serialization import without_checksum

T = TypeVar("T")

_INTEGRITY_CHECK_TIMEOUT_S = 24 * 3600.0


class PostgresStore:
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`mmo_trio.storage.postgres.open_postgres`."""

    def __init__(
        self,
        bridge: AsyncioBridge,
        writer_pool: Pool,
        reader_pool: Pool,
        holder: int,
        timeout_s: float,
    ) -> None:
        self._bridge = bridge
        self._writer_pool = writer_pool
        self._reader_pool = reader_pool
        serves = holder != ownership.NO_HOLDER
        self._ownership = PostgresChannelOwnership(bridge, writer_pool, holder) if serves else None
        self._timeout_s = timeout_s
        self.admin = SqlAdminStore(
            lambda begin: self._read(lambda c: run_query(c, begin())),
            lambda begin: self._write(lambda c: run_query(c, begin())),
        )
        self._look_up_coalescer = Coalescer[AnyLookUp, bytes | None](self._look_up_all)
        self._keys_coalescer = Coalescer[str, Sequence[StoredApiKey]](self._keys_of_all)
        self._is_closed = False
        self._records_horizon = Instant(0)
        """No transaction below it will appear any more."""
        self._in_doubt: list[tuple[UUID, Sequence[IntentKey]]] = []
        """Commits whose caller doesn't know what became of them, and the kept intents that nobody here acts upon."""

    # What the engine and the workers need

    @property
    def ownership(self) -> PostgresChannelOwnership | None:
        """Any number of processes may serve it; administration holds nothing."""
        return self._ownership

    @property
    def batches_in_flight(self) -> int:
        """Two: while one commits, the next one is loaded and decided. To each other they are as two nodes."""
        return 2

    @property
    def _holder(self) -> int:
        return ownership.NO_HOLDER if self._ownership is None else self._ownership.lease_number

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return await self._read(ownership.breakers)

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """Two round trips: load; then, when another node wasn't quicker, write and commit."""
        scheduled: list[IntentKey] = []

        async def attempt(
            connection: PostgresConnection, commit: Commit[Sequence[Decision]]
        ) -> Sequence[Decision]:
            loaded = await load_batch(connection, reads)
            decisions = decide(loaded.ledger)
            batch = net_effect(decisions)
            scheduled[:] = batch.scheduled
            if not batch.is_empty:
                statements = batch_statements(batch, loaded, holder=self._holder)
                await commit.run_whole_transaction(
                    connection, batch.latest_stamp, statements, decisions
                )
            return decisions

        try:
            return await self._commit(attempt)
        except CommitInDoubt as error:
            self._in_doubt.append((error.commit_id, tuple(scheduled)))
            raise

    async def latest_stamp(self) -> Instant:
        return await self._read(reading.latest_stamp)

    async def next_wake(self) -> Instant | None:
        return await self._read(lambda c: ownership.next_wake(c, self._holder))

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        return await self._read(lambda c: ownership.due(c, self._holder, now, limit))

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Also what this process itself has scheduled without learning that it did."""
        assert self._holder != ownership.NO_HOLDER, "administration takes on no work"
        strays = await self._resolve_in_doubt()
        try:
            return (
                *strays,
                *await self._write(lambda c: ownership.claim_abandoned(c, self._holder, limit)),
            )
        except StoreUnavailable:
            if strays:
                return strays
            raise

    async def _resolve_in_doubt(self) -> Sequence[WorkItem]:
        """What commits in doubt have scheduled, once it is known that they took place."""
        found: list[WorkItem] = []
        for doubt in tuple(self._in_doubt):
            id, keys = doubt
            keys = [key for key in keys if key[1] is not IntentKind.CALLBACK]
            try:
                took_place: bool = await self._bridge.run(self._is_committed, id)
                if took_place:
                    found += await self._read(partial(reading.open_intents, keys=keys))
            except (StoreUnavailable, OutcomeUnknown):
                break
            self._in_doubt.remove(doubt)
        return found

    async def _is_committed(self, id: UUID) -> bool:
        return await is_committed(self._writer_pool, id, loop_time_s() + self._timeout_s)

    # Questions

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        row = await self._look_up_coalescer(query)
        return None if row is None else without_checksum(row)

    async def _look_up_all(self, queries: Sequence[AnyLookUp]) -> Sequence[bytes | None]:
        return await self._read(lambda c: reading.look_up(c, queries))

    async def list_records(self, query: ListRecords) -> Records:
        async def ask(connection: PostgresConnection) -> Records:
            if query.end > self._records_horizon:
                complete = await records_horizon.advance_horizon(connection, query.end)
                self._records_horizon = max(self._records_horizon, complete)
            return await reading.list_records(connection, query)

        return await self._read(ask)

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return await self._read(lambda c: reading.transaction(c, gateway_reference))

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        return await self._read(lambda c: reading.transaction_by_page_token(c, token))

    async def transaction_by_suffix(self, suffix: str) -> Transaction | None:
        return await self._read(lambda c: reading.transaction_by_suffix(c, suffix))

    async def unknown_outcomes(
        self, submitted_before: Instant, *, limit: int = 500
    ) -> Sequence[Transaction]:
        return await self._read(lambda c: reading.unknown_outcomes(c, submitted_before, limit))

    async def backlog(self, *, stuck_before: Instant, overdue_before: Instant) -> Backlog:
        return await self._read(lambda c: reading.backlog(c, stuck_before, overdue_before))

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        return await self._read(reading.closed_providers)

    async def find_transactions(
        self,
        *,
        reference: str | None = None,
        brand: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> Sequence[Transaction]:
        return await self._read(
            lambda c: reading.find_transactions(c, reference, brand, status, limit)
        )

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        return await self._read(lambda c: reading.timeline(c, gateway_reference))

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        return await self._read(lambda c: reading.callbacks(c, brand, gateway_reference, limit))

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        return await self._read(lambda c: reading.suspense(c, brand, with_closed, limit))

    async def brands(self) -> Sequence[BrandRecord]:
        return await self._read(reading.brands)

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        return await self._read(lambda c: reading.brand_by_key(c, digest))

    async def keys_of(self, brand: str) -> Sequence[StoredApiKey]:
        return await self._keys_coalescer(brand)

    async def _keys_of_all(self, brands: Sequence[str]) -> Sequence[Sequence[StoredApiKey]]:
        return await self._read(lambda c: reading.keys_of(c, brands))

    # Administration

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        return await self._write(
            lambda c: admin.close_suspense(c, id, by=by, note=note, now=now), now
        )

    async def save_brands(self, brands: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        await self._write(lambda c: admin.save_brands(c, brands, removed))

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        return await self._write(lambda c: admin.add_key(c, brand, digest, sealed, now), now)

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        return await self._write(lambda c: admin.retire_key(c, brand, id, now), now)

    async def close_provider(self, closed: ClosedProvider) -> bool:
        return await self._write(lambda c: admin.close_provider(c, closed), closed.closed_at)

    async def open_provider(self, name: str) -> bool:
        return await self._write(lambda c: admin.open_provider(c, name))

    async def check(self) -> None:
        async def touch(connection: PostgresConnection) -> None:
            await connection.execute("UPDATE horizon SET at = at")

        await self._read(touch)

    async def integrity_errors(self) -> Sequence[str]:
        """Everything that is wrong with the database, in words; empty when it is sound. Reads all of it."""
        self._require_open()

        async def crossing() -> Sequence[str]:
            deadline = loop_time_s() + _INTEGRITY_CHECK_TIMEOUT_S
            return await call_with_retry(self._reader_pool, integrity.integrity_errors, deadline)

        return await self._bridge.run(crossing)

    async def extend_lease(self) -> None:
        """Stay alive, as far as other processes can see."""
        await self._read(lambda c: ownership.extend_lease(c, self._holder))

    async def purge(self) -> None:
        """Forget what nobody needs any more."""
        await self._read(ownership.purge)

    async def aclose(self) -> None:
        """Let others take on at once what this process holds; later calls raise StoreUnavailable."""
        if self._is_closed:
            return
        if self._holder != ownership.NO_HOLDER:
            with suppress(StoreUnavailable):  # The lease runs out anyway.
                await self._read(lambda c: ownership.end_lease(c, self._holder))
        if self._ownership is not None:
            self._ownership.close()
        self._is_closed = True

    # Crossings of the bridge

    async def _read(self, call: PostgresCall[T]) -> T:
        """One crossing for a question."""
        self._require_open()

        async def crossing() -> T:
            deadline = loop_time_s() + self._timeout_s
            return await call_with_retry(self._reader_pool, call, deadline)

        return await self._bridge.run(crossing)

    async def _write(self, call: PostgresCall[T], stamp: Instant = Instant(0)) -> T:
        """One crossing for a change that isn't decided."""

        async def attempt(connection: PostgresConnection, commit: Commit[T]) -> T:
            await commit.begin(connection, stamp)
            result = await call(connection)
            await commit.end(connection, result)
            return result

        return await self._commit(attempt)

    async def _commit(self, attempt: Callable[[PostgresConnection, Commit[T]], Awaitable[T]]) -> T:
        self._require_open()

        async def crossing() -> T:
            deadlines = CommitDeadlines.within(self._timeout_s)
            return await commit_until_known(self._writer_pool, attempt, deadlines)

        return await self._bridge.run(crossing)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
