"""The store on SQLite: one writer thread that makes a whole batch durable in one hop, and readers beside it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import trio

from mmo_sansio.messages.changes import CallbackRecorded, Journaled
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
    Decide,
    StoredKey,
    StoreUnavailable,
    SuspenseEntry,
    Work,
)
from mmo_trio.storage.shared.coalescing import Gathering
from mmo_trio.storage.shared.net_effect import batch_of
from mmo_trio.storage.sql import lists
from mmo_trio.storage.sql.admin_store import SqlOffice
from mmo_trio.storage.sql.serialization import without_checksum
from mmo_trio.storage.sqlite import admin, batches
from mmo_trio.storage.sqlite import queries as reading
from mmo_trio.storage.sqlite.connection import Ask, ServingLock, connect, errors_translated, hold
from mmo_trio.storage.sqlite.writer import Attempt, Writer

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long a caller waits for its answer before it is told that it can't be had (P5)."""

READERS = 4
"""How many questions are answered at once; a commit never waits for them."""

_STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 50_000


class SqliteStore:
    """See :class:`mmo_trio.storage.interface.store.Store`; made by :func:`mmo_trio.storage.sqlite.open_sqlite`."""

    def __init__(
        self, path: Path, writer: sqlite3.Connection, lock: ServingLock | None, patience_s: float
    ) -> None:
        self._path = path
        self._patience_s = patience_s
        self._lock = lock
        self._writer = Writer(path, writer, patience_s)
        self._readers: list[sqlite3.Connection] = []
        self._reading = trio.CapacityLimiter(READERS)
        self._look_up = Gathering[AnyLookUp, bytes | None](self._look_up_together)
        self._keys_of = Gathering[str, Sequence[StoredKey]](self._keys_together)
        self._is_closed = False
        self._taken_on = 0
        """Id of the last kept intent of nobody that was handed out."""
        self.office = SqlOffice(
            lambda begin: self._read(lambda c: hold(c, begin())),
            lambda begin: self._writer.write(lambda c: hold(c, begin())),
        )

    # What the engine and the workers need

    @property
    def batches_in_flight(self) -> int:
        """There is one writer."""
        return 1

    @property
    def channels(self) -> None:
        """One process has the file to itself."""
        return None

    async def breakers(self) -> Mapping[str, BreakerSnapshot]:
        return await self._read(reading.breakers)

    async def transact(self, reads: Reads, decide: Decide) -> Sequence[Decision]:
        """One hop: BEGIN IMMEDIATE, load, decide, write, COMMIT."""
        attempt, recent = Attempt(), self._writer.recent

        def work(connection: sqlite3.Connection) -> Sequence[Decision]:
            recent.begin(connection)
            decisions = decide(batches.load(connection, reads, recent))
            batch = batch_of(decisions)
            if not batch.is_empty:
                attempt.scheduled = tuple(batch.scheduled)
                batches.write(connection, batch, is_held=self._lock is not None)
                recent.keep(batch.written)
            return decisions

        return await self._writer.write(work, attempt)

    async def latest_stamp(self) -> Instant:
        return await self._read(reading.latest_stamp)

    async def next_wake(self) -> Instant | None:
        return await self._read(reading.next_wake)

    async def woken(self, now: Instant, *, limit: int) -> Sequence[str]:
        return await self._read(lambda c: reading.woken(c, now, limit))

    async def orphans(self, *, limit: int) -> Sequence[Work]:
        """Only a serving process takes on work. What was handed out lies at or below a mark: nothing is written."""
        assert self._lock is not None, "administration takes on no work"
        settled = [each for each in self._writer.in_doubt if each.has_ended]
        strays = [key for each in settled for key in each.scheduled]
        mark = self._taken_on

        def ask(connection: sqlite3.Connection) -> Sequence[tuple[int, Work]]:
            stray = [(0, work) for work in reading.open_intents(connection, strays)]
            return (*stray, *reading.intents_of_nobody(connection, mark, limit))

        found = await self._read(ask)
        assert self._taken_on == mark, "one task at a time takes on work"
        self._writer.in_doubt = [each for each in self._writer.in_doubt if each not in settled]
        self._taken_on = max((mark, *(id for id, _ in found)))
        return [work for _, work in found]

    # Questions

    async def look_up(self, query: AnyLookUp) -> bytes | None:
        row = await self._look_up(query)
        return None if row is None else without_checksum(row)

    async def _look_up_together(self, queries: Sequence[AnyLookUp]) -> Sequence[bytes | None]:
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
            lambda c: hold(c, lists.find_transactions(reference, brand, status, limit))
        )

    async def transaction_by_ending(self, ending: str) -> Transaction | None:
        return await self._read(lambda c: reading.transaction_by_ending(c, ending))

    async def unknown_since(self, before: Instant, *, limit: int = 500) -> Sequence[Transaction]:
        return await self._read(lambda c: reading.unknown_since(c, before, limit))

    async def backlog(self, *, stuck_before: Instant, overdue_before: Instant) -> Backlog:
        return await self._read(lambda c: reading.backlog(c, stuck_before, overdue_before))

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        return await self._read(reading.closed_providers)

    async def timeline(self, gateway_reference: str) -> Sequence[Journaled]:
        return await self._read(lambda c: reading.timeline(c, gateway_reference))

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        return await self._read(lambda c: hold(c, lists.callbacks(brand, gateway_reference, limit)))

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        return await self._read(lambda c: hold(c, lists.suspense(brand, with_closed, limit)))

    async def brands(self) -> Sequence[BrandRecord]:
        return await self._read(reading.brands)

    async def brand_by_key(self, digest: bytes) -> Brand | None:
        return await self._read(lambda c: reading.brand_by_key(c, digest))

    async def keys_of(self, brand: str) -> Sequence[StoredKey]:
        return await self._keys_of(brand)

    async def _keys_together(self, brands: Sequence[str]) -> Sequence[Sequence[StoredKey]]:
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
        await self._writer.write(admin.touch)

    async def faults(self) -> Sequence[str]:
        """Everything that is wrong with the file, in words; empty when it is sound. Reads all of it."""
        return await trio.to_thread.run_sync(self._look_for_faults, limiter=self._reading)

    async def aclose(self) -> None:
        """Let go of the file, and of the right to serve it, once the write that is under way has ended. A write that
        hangs is left to the end of the process."""
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.refuse()
        with trio.move_on_after(self._patience_s):
            async with self._writer.turn:
                await trio.to_thread.run_sync(self._close)

    # Threads

    async def _read(self, ask: Ask[T]) -> T:
        with trio.move_on_after(self._patience_s):
            return await trio.to_thread.run_sync(
                self._read_in_thread, ask, limiter=self._reading, abandon_on_cancel=True
            )
        raise StoreUnavailable(f"the store didn't answer within {self._patience_s:g} s")

    def _read_in_thread(self, ask: Ask[T]) -> T:
        """One snapshot for all statements, and a deadline for them (SQLite looks at it itself)."""
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        deadline = time.monotonic() + self._patience_s
        with errors_translated():
            connection = self._reader()
            try:
                connection.set_progress_handler(
                    lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS_AT_THE_CLOCK
                )
                connection.execute("BEGIN")
                result = ask(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        self._readers.append(connection)
        if self._is_closed:
            self._close_readers()
        return result

    def _reader(self) -> sqlite3.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return connect(self._path, query_only=True)

    def _look_for_faults(self) -> Sequence[str]:
        with errors_translated():
            connection = connect(self._path, query_only=True)
            try:
                return admin.faults(connection)
            finally:
                connection.close()

    def _close(self) -> None:
        self._close_readers()
        self._writer.close()
        if self._lock is not None:
            self._lock.release()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.pop().close()
