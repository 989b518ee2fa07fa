"""Opens the shipped store on SQLite in a simulated world: its file is a real one, its calls take
virtual time, and what befalls the disk and the process befalls them where it does in reality."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import trio
from attrs import Factory, define, field

from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_trio.storage.interface.store import DecideBatch, StoreUnavailable
from mmo_trio.storage.sqlite import SqliteStore, open_sqlite
from mmo_trio.storage.sqlite.connection import BUSY_TIMEOUT_S, READERS_MAX, CallRunner, SqliteSystem
from mmo_trio.system.clock import GatewayClock
from tests.simulation.stores.faults import NO_FAULTS, FaultDraws, StoreFaults
from tests.simulation.stores.machine import StoreMachine, tick_after
from tests.simulation.stores.virtual_threads import VirtualThread
from tests.support.sqlite_store import StoreFile, TrioClock, connect_to_copy

T = TypeVar("T")

PAUSED: Final = 0.02
"""The share of statements that write before which a thread stands still, as others have the
processor."""
PAUSED_S: Final = (0.0001, 0.005)
_WRITES: Final = ("INSERT", "UPDATE", "DELETE")


def make_at_once(call: Callable[[], None]) -> None:
    """Make a call of a process that is never suspended."""
    call()


@define(eq=False)
class SimulatedFile:
    """Is a file with the disk that it is on; it outlives its processes.

    `machine.run` must run as long as it is used.
    """

    draws: FaultDraws
    faults: StoreFaults = NO_FAULTS
    """The faults from now on; the world may replace them at any time."""
    observe: Callable[[Sequence[Decision]], None] = lambda decisions: None
    """Learns what each commit has decided that takes place."""
    machine: StoreMachine = Factory(StoreMachine)
    stored: StoreFile = Factory(StoreFile)
    _left_open: list[sqlite3.Connection] = field(factory=list, init=False)
    """What the last process had open when it was killed: so its log is there when the next one
    begins."""
    _disk_full_until: float = field(default=0.0, init=False)

    @property
    def is_disk_full(self) -> bool:
        """Tell whether nothing can be written now."""
        return trio.current_time() < self._disk_full_until

    def fill_disk(self, for_s: float) -> None:
        """Refuse commits for this time; what is read is read."""
        self.draws.note("disk_full", for_s=for_s)
        self._disk_full_until = max(self._disk_full_until, trio.current_time() + for_s)

    def leave_open(self, connections: Sequence[sqlite3.Connection]) -> None:
        """Keep what a killed process had open until `clear`."""
        self._left_open += connections

    def clear(self) -> None:
        """Close what killed processes had open."""
        while self._left_open:
            self._left_open.pop().close()


@define(eq=False)
class FileProcess:
    """Is one life of a process, as far as it uses the file."""

    file: SimulatedFile
    name: str
    clock: GatewayClock = Factory(TrioClock)
    when_running: Callable[[Callable[[], None]], None] = make_at_once
    """Makes a call at once, or as soon as the process is resumed."""
    is_alive: bool = field(default=True, init=False)
    thread: VirtualThread = field(init=False)
    """The one that writes."""
    decided: Sequence[Decision] = field(default=(), init=False)
    """What its transaction in progress has decided."""
    _connections: list[sqlite3.Connection] = field(factory=list, init=False)
    _committing: sqlite3.Connection | None = field(default=None, init=False)
    """The connection on which a commit waits for the disk."""
    _store: SqliteStore | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.thread = VirtualThread(self.file.machine, self.when_running)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SqliteStore]:
        """Open the file as its one serving process. Raises what `open_sqlite` does."""
        system = SqliteSystem(
            self._connect, lambda: self.thread, lambda: _VirtualReaders(self), self.clock
        )
        try:
            async with open_sqlite(self.file.stored.path, serving=True, system=system) as store:
                self._store = store
                self.file.clear()
                self._observe(store)
                yield store
        finally:
            self.kill()  # A write that hangs lasts no longer.

    def kill(self) -> None:
        """End it at once: a commit that waits for the disk takes place or does not, and everything
        else that it has begun does not."""
        if not self.is_alive:
            return
        self.is_alive = False
        if self._committing is not None and not self.file.is_disk_full and self.file.draws.either():
            self.commit_now(self._committing)
        for each in self._connections:
            with suppress(sqlite3.ProgrammingError):  # It has closed this one itself.
                each.rollback()
        self.file.leave_open(self._connections)
        self.thread.kill()
        if self._store is not None:
            self._store._is_closed = True
            self._store._writer.stop_accepting()
            self._store._serving_probe.release()
            if self._store._serving_lock is not None:
                self._store._serving_lock.release()

    def require_alive(self) -> None:
        """Raise StoreUnavailable in a process that was killed, whose tasks are still ending."""
        if not self.is_alive:
            raise StoreUnavailable("the process was killed")

    def happens(self, kind: str, probability: float) -> bool:
        """Draw whether a fault of this kind occurs now."""
        return self.file.draws.happens(kind, probability, process=self.name)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin to write, unless another process does for too long."""
        self.decided = ()
        if self.happens("refused", self.file.faults.refused):
            self.thread.stand_still(BUSY_TIMEOUT_S)
            raise sqlite_error("database is locked", sqlite3.SQLITE_BUSY)
        connection.execute("BEGIN IMMEDIATE")

    def commit(self, connection: sqlite3.Connection) -> None:
        """Commit once the disk has taken its time, or fail in a way that does not tell whether that
        took place."""
        file, faults = self.file, self.file.faults
        pause_s = file.draws.time_s(faults.commit_s)
        if self.happens("stall", faults.stall):
            pause_s += file.draws.time_s(faults.stall_s)
        self._committing = connection
        self.thread.stand_still(pause_s)
        self._committing = None
        self.require_space()
        if not self.happens("lost_after", faults.lost_after):
            self.commit_now(connection)
            return
        if file.draws.either():
            self.commit_now(connection)
        raise sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)

    def commit_now(self, connection: sqlite3.Connection) -> None:
        """Let the commit take place."""
        connection.execute("COMMIT")
        self.file.draws.trace("store_commit", process=self.name)
        self.file.observe(self.decided)

    def write(self, statement: Callable[..., T], *given: Any) -> T:
        """Run a statement that writes; the thread may stand still before it."""
        draws = self.file.draws
        if self.file.faults.commit_s[1] and draws.random.random() < PAUSED:
            self.thread.stand_still(draws.time_s(PAUSED_S))
        if self.file.is_disk_full and draws.either():  # Else the commit finds it.
            self.require_space()
        return statement(*given)

    def require_space(self) -> None:
        """Raise the error of a full disk."""
        if self.file.is_disk_full:
            raise sqlite_error("database or disk is full", sqlite3.SQLITE_FULL)

    def _connect(self, path: Path, *, query_only: bool = False) -> sqlite3.Connection:
        self.require_alive()
        connection = connect_to_copy(path, query_only=query_only)
        self._connections.append(connection)
        return (
            connection
            if query_only
            else cast(sqlite3.Connection, _WritingConnection(self, connection))
        )

    def _observe(self, store: SqliteStore) -> None:
        """Note what each transaction of this store decides."""
        transact = store.transact

        async def transact_observed(reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
            def decide_observed(ledger: Ledger) -> Sequence[Decision]:
                self.decided = decide(ledger)
                return self.decided

            return await transact(reads, decide_observed)

        store.transact = transact_observed  # type: ignore[method-assign]


@define(eq=False)
class _WritingConnection:
    """Lets the world act between the statements of a transaction that writes, and at its end."""

    process: FileProcess
    real: sqlite3.Connection
    changes: int = 0
    """How many there were when its transaction began."""
    statements: int = 0
    """How many its transaction has run."""

    def execute(self, sql: str, *values: Any) -> Any:
        """See `sqlite3.Connection.execute`."""
        if sql == "BEGIN IMMEDIATE":
            self.changes, self.statements = self.real.total_changes, 0
            return self.process.begin(self.real)
        if sql == "COMMIT":
            return self._commit()
        self.statements += 1
        if sql.lstrip().startswith(_WRITES):
            return self.process.write(self.real.execute, sql, *values)
        return self.real.execute(sql, *values)

    def executemany(self, sql: str, rows: Any) -> Any:
        """See `sqlite3.Connection.executemany`."""
        self.statements += 1
        return self.process.write(self.real.executemany, sql, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def _commit(self) -> None:
        if self.real.total_changes > self.changes:
            self.process.commit(self.real)
            return
        if (
            not self.statements
        ):  # The store checks whether it could write: of the system it asks about the real disk.
            self.process.require_space()
        self.real.execute("COMMIT")


@define(eq=False)
class _VirtualReaders(CallRunner):
    """Makes the calls that read; each takes a time until it begins, and none while it lasts."""

    process: FileProcess
    free: trio.Semaphore = Factory(lambda: trio.Semaphore(READERS_MAX))

    async def run(self, call: Callable[[], T], *, turn_within_s: float = math.inf) -> T:
        """Return what the call returns, or raise what it raises; see `CallRunner`."""
        self.process.require_alive()
        draws, faults = self.process.file.draws, self.process.file.faults
        delay_s = draws.time_s(faults.latency_s)
        if self.process.happens("late", faults.late):
            delay_s += draws.time_s(faults.late_s)
        try:
            self.free.acquire_nowait()  # Which costs no turn of Trio.
        except trio.WouldBlock:
            await self.free.acquire()
        try:
            await trio.sleep_until(tick_after(delay_s))
        finally:
            self.free.release()
        self.process.require_alive()
        draws.trace("store_read", process=self.process.name)
        return call()

    def drop_waiting(self) -> None:
        """Do nothing: what waits finds the store closed when it begins."""

    def end(self) -> None:
        """Do nothing."""


def sqlite_error(text: str, code: int) -> sqlite3.OperationalError:
    """Return an error of SQLite with its code."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error
