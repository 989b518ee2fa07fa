"""The store on SQLite: one writer thread that makes a whole batch durable in one hop, and readers beside it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import trio

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
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
    StoredApiKey,
    StoreUnavailable,
    SuspenseEntry,
    WorkItem,
)
from mmo_trio.storage.shared.coalescing import Coalescer
from mmo_trio.storage.shared.net_effect import net_effect
from mmo_trio.storage.sql import lists
from mmo_trio.storage.sql.admin_store import SqlAdminStore
from mmo_trio.storage.sql.serialization import without_checksum
from mmo_trio.storage.sqlite import admin, batches
from mmo_trio.storage.sqlite import queries as reading
from mmo_trio.storage.sqlite.connection import (
    ServingLock,
    SqliteCall,
    connect,
    run_query,
    translate_errors,
)
from mmo_trio.storage.sqlite.writer import SqliteWriter, WriteAttempt

T = TypeVar("T")

STORE_TIMEOUT_S = 10.0
"""How long a caller waits for its answer before it is told that it can't be had (P5)."""

READERS_MAX = 4
"""How many questions are answered at once; a commit never waits for them."""

_PROGRESS_HANDLER_STEPS = 50_000


class SqliteStore:
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`mmo_trio.storage.sqlite.open_sqlite`."""

    def __init__(
        self,
        path: Path,
        writer: sqlite3.Connection,
        serving_lock: ServingLock | None,
        timeout_s: float,
    ) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._serving_lock = serving_lock
        self._writer = SqliteWriter(path, writer, timeout_s)
        self._idle_readers: list[sqlite3.Connection] = []
        self._read_limiter = trio.CapacityLimiter(READERS_MAX)
        self._look_up_coalescer = Coalescer[AnyLookUp, bytes | None](self._look_up_all)
        self._keys_coalescer = Coalescer[str, Sequence[StoredApiKey]](self._keys_of_all)
        self._is_closed = False
        self._last_claimed_id = 0
        """Id of the last kept intent of nobody that was handed out."""
        self.admin = SqlAdminStore(
            lambda begin: self._read(lambda c: run_query(c, begin())),
            lambda begin: self._writer.write(lambda c: run_query(c, begin())),
        )

    # What the engine and the workers need

    @property
    def batches_in_flight(self) -> int:
        """There is one writer."""
        return 1

    @property
    def ownership(self) -> None:
        """One process has the file to itself."""
        return None

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return await self._read(reading.breakers)

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """One hop: BEGIN IMMEDIATE, load, decide, write, COMMIT."""
        attempt, recent = WriteAttempt(), self._writer.recent

        def work(connection: sqlite3.Connection) -> Sequence[Decision]:
            recent.drop_if_stale(connection)
            decisions = decide(batches.load_batch(connection, reads, recent))
            batch = net_effect(decisions)
            if not batch.is_empty:
                attempt.scheduled = tuple(batch.scheduled)
                batches.write_batch(connection, batch, is_claimed=self._serving_lock is not None)
                recent.add(batch.written_transactions)
            return decisions

        return await self._writer.write(work, attempt)

    async def latest_stamp(self) -> Instant:
        return await self._read(reading.latest_stamp)

    async def next_wake(self) -> Instant | None:
        return await self._read(reading.next_wake)

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        return await self._read(lambda c: reading.due(c, now, limit))

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Only a serving process takes on work. What was handed out lies at or below a mark: nothing is written."""
        assert self._serving_lock is not None, "administration takes on no work"
        settled = [each for each in self._writer.in_doubt if each.has_ended]
        strays = [key for each in settled for key in each.scheduled]
        mark = self._last_claimed_id

        def ask(connection: sqlite3.Connection) -> Sequence[tuple[int, WorkItem]]:
            stray = [(0, work) for work in reading.open_intents(connection, strays)]
            return (*stray, *reading.unclaimed_intents(connection, mark, limit))

        found = await self._read(ask)
        assert self._last_claimed_id == mark, "one task at a time takes on work"
        self._writer.in_doubt = [each for each in self._writer.in_doubt if each not in settled]
        self._last_claimed_id = max((mark, *(id for id, _ in found)))
        return [work for _, work in found]

    # Questions

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        row = await self._look_up_coalescer(query)
        return None if row is None else without_checksum(row)

    async def _look_up_all(self, queries: Sequence[AnyLookUp]) -> Sequence[bytes | None]:
        return await self._read(lambda c: reading.look_up(c, queries))

    async def list_records(self, query: ListRecords) -> Records:
        return await self._read(lambda c: reading.list_records(c, query))

    async def transaction(self, gateway_reference: str) -> Transaction | None:
        return await self._read(lambda c: reading.transaction(c, gateway_reference))

    async def transaction_by_page_token(self, token: str) -> Transaction | None:
        return await self._read(lambda c: reading.transaction_by_page_token(c, token))

    async def find_transactions(
        self,
        *,
        reference: str | None = None,
        brand: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> Sequence[Transaction]:
        return await self._read(
            lambda c: run_query(c, lists.find_transactions(reference, brand, status, limit))
        )

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

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        return await self._read(lambda c: reading.timeline(c, gateway_reference))

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        return await self._read(
            lambda c: run_query(c, lists.callbacks(brand, gateway_reference, limit))
        )

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        return await self._read(lambda c: run_query(c, lists.suspense(brand, with_closed, limit)))

    async def brands(self) -> Sequence[BrandRecord]:
        return await self._read(reading.brands)

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        return await self._read(lambda c: reading.brand_by_key(c, digest))

    async def keys_of(self, brand: str) -> Sequence[StoredApiKey]:
        return await self._keys_coalescer(brand)

    async def _keys_of_all(self, brands: Sequence[str]) -> Sequence[Sequence[StoredApiKey]]:
        return await self._read(lambda c: [reading.keys_of(c, brand) for brand in brands])

    # Administration

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        return await self._writer.write(
            lambda c: admin.close_suspense(c, id, by=by, note=note, now=now)
        )

    async def save_brands(self, brands: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        await self._writer.write(lambda c: admin.save_brands(c, brands, removed))

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        return await self._writer.write(lambda c: admin.add_key(c, brand, digest, sealed, now))

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        return await self._writer.write(lambda c: admin.retire_key(c, brand, id, now))

    async def close_provider(self, closed: ClosedProvider) -> bool:
        return await self._writer.write(lambda c: admin.close_provider(c, closed))

    async def open_provider(self, name: str) -> bool:
        return await self._writer.write(lambda c: admin.open_provider(c, name))

    async def check(self) -> None:
        await self._writer.write(admin.write_nothing)

    async def integrity_errors(self) -> Sequence[str]:
        """Everything that is wrong with the file, in words; empty when it is sound. Reads all of it."""
        return await trio.to_thread.run_sync(self._check_integrity, limiter=self._read_limiter)

    async def aclose(self) -> None:
        """Let go of the file, and of the right to serve it, once the write that is under way has ended. A write that
        hangs is left to the end of the process."""
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.stop_accepting()
        with trio.move_on_after(self._timeout_s):
            async with self._writer.write_limiter:
                await trio.to_thread.run_sync(self._close)

    # Threads

    async def _read(self, call: SqliteCall[T]) -> T:
        with trio.move_on_after(self._timeout_s):
            return await trio.to_thread.run_sync(
                self._read_in_thread, call, limiter=self._read_limiter, abandon_on_cancel=True
            )
        raise StoreUnavailable(f"the store didn't answer within {self._timeout_s:g} s")

    def _read_in_thread(self, call: SqliteCall[T]) -> T:
        """One snapshot for all statements, and a deadline for them (SQLite looks at it itself)."""
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        deadline = time.monotonic() + self._timeout_s
        with translate_errors():
            connection = self._acquire_reader()
            try:
                connection.set_progress_handler(
                    lambda: time.monotonic() > deadline, _PROGRESS_HANDLER_STEPS
                )
                connection.execute("BEGIN")
                result = call(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        self._idle_readers.append(connection)
        if self._is_closed:
            self._close_readers()
        return result

    def _acquire_reader(self) -> sqlite3.Connection:
        try:
            return self._idle_readers.pop()
        except IndexError:
            return connect(self._path, query_only=True)

    def _check_integrity(self) -> Sequence[str]:
        with translate_errors():
            connection = connect(self._path, query_only=True)
            try:
                return admin.integrity_errors(connection)
            finally:
                connection.close()

    def _close(self) -> None:
        self._close_readers()
        self._writer.close()
        if self._serving_lock is not None:
            self._serving_lock.release()

    def _close_readers(self) -> None:
        while self._idle_readers:
            self._idle_readers.pop().close()
