"""The store on SQLite: one writer thread that makes a whole batch durable in one hop, and
concurrent readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from mmo_sansio.messages.queries import AnyLookUp, ListRecords, Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import (
    FIRST_INSTANT,
    LAST_INSTANT,
    SECOND,
    Instant,
    MonotonicInstant,
    Span,
    later,
)
from mmo_trio.storage.interface.admin_types import BrandRecord, ServingProcess
from mmo_trio.storage.interface.store import (
    CHECK_TIMEOUT_S,
    DecideBatch,
    StoreUnavailable,
    WorkItem,
)
from mmo_trio.storage.sql.integrity import integrity_errors
from mmo_trio.storage.sql.net_effect import NetEffect, net_effect
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import Row, SqlQuery, SqlStatement, execute, run_query
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import statements
from mmo_trio.storage.sqlite.connection import (
    CLOSED_TEXT,
    SqliteCall,
    SqliteSystem,
    refuse_closed,
    run_statement,
    translate_errors,
)
from mmo_trio.storage.sqlite.files import ServingLock, ServingProbe, require_space
from mmo_trio.storage.sqlite.open_files import LogBound, OpenFiles
from mmo_trio.storage.sqlite.statements import advance_latest_stamp, load_batch, write_batch
from mmo_trio.storage.sqlite.writer import SqliteWriter, WriteAttempt
from mmo_trio.system.clock import GatewayClock

T = TypeVar("T")

# Seconds that a caller waits before StoreUnavailable or OutcomeUnknown is raised (P5).
STORE_TIMEOUT_S = 10.0

# Instructions of SQLite's machine between two looks at the clock: a few milliseconds.
_PROGRESS_HANDLER_STEPS = 50_000


class SqliteStore(Store):
    """See :class:`mmo_trio.storage.sql.store.Store`; made by
    :func:`mmo_trio.storage.sqlite.open_sqlite`."""

    batches_in_flight = 1
    """One, as there is one writer."""
    ownership = None
    """None, as one process has the file to itself."""

    def __init__(
        self,
        system: SqliteSystem,
        path: Path,
        writer: sqlite3.Connection,
        files: OpenFiles,
        serving_lock: ServingLock | None,
        timeout_s: float,
    ) -> None:
        self._log_bound = LogBound(system.clock.since_boot, partial(system.connect, path))
        self._writer = SqliteWriter(
            system,
            path,
            files,
            writer,
            timeout_s,
            serves=serving_lock is not None,
            log_bound=self._log_bound,
        )
        super().__init__(
            sqlite_schema(system.clock),
            self._read_query,
            self._write_query,
            self._writer.recent.discard,
        )
        self._system = system
        self._path = path
        self._files = files
        self._timeout_s = timeout_s
        self._serving_lock = serving_lock
        self._serving_probe = ServingProbe(path)
        self._idle_readers: list[sqlite3.Connection] = []
        self._readers = system.make_readers()
        self._is_closed = False

        # The generation of the configuration that was recorded last.
        self._used_generation: int | None = None

        # Id of the last unclaimed durable intent that was returned.
        self._last_claimed_id = 0

    async def transact(self, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
        """Make one hop: BEGIN IMMEDIATE, load, decide, write, COMMIT."""
        attempt, recent = WriteAttempt(), self._writer.recent

        def work(connection: sqlite3.Connection) -> Sequence[Decision]:
            recent.drop_if_stale(connection)
            decisions = decide(load_batch(connection, reads, recent))
            batch = net_effect(decisions)
            if not batch.is_empty:
                attempt.scheduled = tuple(batch.scheduled)
                attempt.creates_from = _first_date(batch)
                write_batch(connection, batch, is_claimed=self._serving_lock is not None)
                recent.add(batch.written_transactions)
            return decisions

        return await self._writer.write(work, attempt)

    async def list_records(self, query: ListRecords) -> Records:
        """Wait for a commit that may add payments to the window: they were dated before it (R7)."""
        await self._writer.wait_for_creations(query.end)
        return await super().list_records(query)

    async def next_wake(self, *, after: Instant = FIRST_INSTANT) -> Instant | None:
        return await self._read(lambda c: statements.next_wake(c, after))

    async def due(self, now: Instant, *, limit: int) -> Sequence[str]:
        return await self._read(lambda c: statements.due(c, now, limit))

    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]:
        """Claim work for a serving process. Ids up to `_last_claimed_id` are claimed, so nothing
        has to be written."""
        assert self._serving_lock is not None, "only a serving process claims work"
        # Two sources: commits whose callers gave up, of which some took place, and what commands
        # have scheduled.
        settled = [commit for commit in self._writer.in_doubt if commit.has_ended]
        keys = [key for commit in settled for key in commit.scheduled]
        last_id = self._last_claimed_id

        def claim(connection: sqlite3.Connection) -> Sequence[tuple[int, WorkItem]]:
            in_doubt = [(0, work) for work in statements.open_intents(connection, keys)]
            return (*in_doubt, *statements.unclaimed_intents(connection, last_id, limit))

        # Only now are they forgotten: a read that fails leaves them for the next round.
        found = await self._read(claim)
        assert self._last_claimed_id == last_id, "one task at a time claims work"
        self._writer.in_doubt = [
            commit for commit in self._writer.in_doubt if commit not in settled
        ]
        self._last_claimed_id = max((last_id, *(id for id, _ in found)))
        return [work for _, work in found]

    async def _look_up_all(self, look_ups: Sequence[AnyLookUp]) -> Sequence[Row | None]:
        return await self._read(lambda c: statements.look_up(c, look_ups))

    async def _find_brands(self, brands: Sequence[str]) -> Sequence[BrandRecord | None]:
        return await self._read(lambda c: [statements.find_brand(c, brand) for brand in brands])

    async def use_configuration(self, generation: int, *, process: str) -> None:
        if generation != self._used_generation:
            statement = "UPDATE configuration SET process = ?, in_use = ?"
            await self._write_query(lambda: execute(statement, process, generation))
            self._used_generation = generation

    async def serving_processes(self) -> Sequence[ServingProcess]:
        """Return the one process that may serve the file, if it does."""
        if self._serving_lock is None and not self._serving_probe.is_served():
            return ()
        return await self._fetch(_parse_serving, "SELECT process, in_use FROM configuration")

    @property
    def raised_state(self) -> StoreState | None:
        return self._writer.raised_state

    @property
    def log_bytes(self) -> int | None:
        return self._log_bound.log_bytes

    @property
    def has_unmarked_commits(self) -> bool:
        return self._writer.has_unmarked_commits

    async def raise_epoch(self) -> None:
        await self._writer.raise_epoch()

    def count_commands(self) -> None:
        self._writer.count_commands()

    async def check(self) -> None:
        """Begin and commit an empty transaction, which writes nothing, and look at the files and
        the disk."""
        with trio.move_on_after(CHECK_TIMEOUT_S):
            await self._writer.write(lambda _: self._check_files())
            return
        raise StoreUnavailable(f"the store didn't answer within {CHECK_TIMEOUT_S:g} s")

    async def integrity_errors(self) -> Sequence[str]:
        """Return a sentence for each error in the file. Reads all of it."""
        if self._is_closed:
            await refuse_closed()
        return await self._readers.run(self._check_integrity)

    async def aclose(self) -> None:
        """Close the file and release the serving lock, once the current write has ended; what has
        not begun raises StoreUnavailable. A write that hangs lasts until the end of the process."""
        if self._is_closed:
            return

        self._is_closed = True
        self._writer.stop_accepting()
        self._readers.drop_waiting()

        # The lock is released in the thread of the writer, after its last write.
        try:
            with trio.move_on_after(self._timeout_s):
                await self._writer.finish(self._close)
        finally:
            self._readers.end()

    # Threads

    async def _fetch(self, parse: Callable[[Sequence[Row]], T], statement: str, *values: Any) -> T:
        return await self._read(lambda c: parse(c.execute(statement, values).fetchall()))

    async def _read_query(self, make_query: Callable[[], SqlQuery[T]], /) -> T:
        return await self._read(lambda c: run_query(make_query(), partial(run_statement, c)))

    async def _write_query(
        self, make_query: Callable[[], SqlQuery[T]], /, stamp: Instant = Instant(0)
    ) -> T:
        def work(connection: sqlite3.Connection) -> T:
            result = run_query(make_query(), partial(run_statement, connection))
            advance_latest_stamp(connection, stamp)
            return result

        return await self._writer.write(work)

    async def _read(self, call: SqliteCall[T]) -> T:
        """Run a call in a reader's thread. Its time is counted from here; one that has waited for
        half of it is refused, as too few would end in time of those that begin late."""
        if self._is_closed:
            await refuse_closed()

        deadline = later(self._system.clock.since_boot(), Span(int(self._timeout_s * SECOND)))
        read = partial(self._read_in_thread, call, deadline)
        with trio.move_on_after(self._timeout_s):
            return await self._readers.run(read, turn_within_s=self._timeout_s / 2)

        raise StoreUnavailable(f"the store didn't answer within {self._timeout_s:g} s")

    def _read_in_thread(self, call: SqliteCall[T], deadline: MonotonicInstant) -> T:
        """Run all statements in one snapshot, with a deadline that SQLite itself checks: that of
        the call, or an earlier one while the log has to be emptied."""
        if self._is_closed:
            raise StoreUnavailable(CLOSED_TEXT)

        self._files.require_in_place()
        now = self._system.clock.since_boot
        with translate_errors(), self._log_bound.reading(deadline) as read:
            connection = self._acquire_reader()
            try:
                connection.set_progress_handler(
                    lambda: now() > read.ends_at, _PROGRESS_HANDLER_STEPS
                )
                # A transaction, so that all statements see one snapshot.
                connection.execute("BEGIN")
                result = call(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise

        # Where the store was closed meanwhile, nobody else closes this one.
        self._idle_readers.append(connection)
        if self._is_closed:
            self._close_readers()

        return result

    def _acquire_reader(self) -> sqlite3.Connection:
        try:
            return self._idle_readers.pop()
        except IndexError:
            self._files.verify()
            return self._system.connect(self._path, query_only=True)

    def _check_files(self) -> None:
        self._files.verify()
        require_space(self._path)

    def _check_integrity(self) -> Sequence[str]:
        with translate_errors():
            connection = self._system.connect(self._path, query_only=True)
            try:
                # One snapshot, while the gateway may go on writing.
                connection.execute("BEGIN")

                # 1. The pages, by SQLite itself.
                pages = [row[0] for row in connection.execute("PRAGMA integrity_check")]
                if pages == ["ok"]:
                    found = []
                else:
                    found = [f"SQLite finds: {page}" for page in pages]

                # 2. The rows, by us.
                run = partial(run_statement, connection)
                try:
                    return [*found, *run_query(integrity_errors(self._schema), run)]
                except sqlite3.DatabaseError:
                    # Behind a damaged page there may be no row to name.
                    if not found:
                        raise
                    return found
            finally:
                connection.close()

    def _close(self) -> None:
        # The lock last: while SQLite has the file open, nobody else may serve it.
        self._close_readers()
        self._writer.close()
        self._serving_probe.release()
        if self._serving_lock is not None:
            self._serving_lock.release()

    def _close_readers(self) -> None:
        while self._idle_readers:
            self._idle_readers.pop().close()


def sqlite_schema(clock: GatewayClock) -> SqlSchema:
    """Return the schema, whose present is that of this wall clock."""
    return SqlSchema(
        transaction_key=("gateway_reference",),
        held_until=(("clock_records", "served_until"), ("latest_stamp", "at")),
        reference_suffix="substr(gateway_reference, -12)",
        host_of_brand="brand ->> 'host'",
        breaker_table="breakers",
        clear_breaker="DELETE FROM breakers WHERE brand = ?",
        clock_record_age="NULL",
        clock_query="",
        now=lambda: SqlStatement("?", (clock.raw_wall_time(),)),
        touch_clock_record="",
        takes_arrays=False,
        invariant_violations={
            "transactions that are final and still wake, or pending and never do": (
                "transactions WHERE (status = 'pending') = (wake_at IS NULL)"
            )
        },
    )


def _first_date(batch: NetEffect) -> Instant:
    """Return the wall time before which a batch dates no payment. Its creations are in the order of
    their dates."""
    if batch.redated:
        return Instant(0)
    first = next(iter(batch.created.values()), None)
    if first is None:
        return LAST_INSTANT
    return first.order.created_at


def _parse_serving(rows: Sequence[Row]) -> Sequence[ServingProcess]:
    return [
        ServingProcess(name or "the process that serves the file", generation)
        for name, generation in rows
    ]
