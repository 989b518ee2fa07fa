"""Connections to the SQLite file, their settings and the meaning of their errors; and where a
store's calls run."""

from __future__ import annotations

import json
import math
import socket
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, NoReturn, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import outcome
import trio
from attrs import Factory, define, frozen

from mmo_trio.storage.interface.store import StoreCorrupt, StoreUnavailable
from mmo_trio.storage.sql.statements import ANY_OF, Row, SqlStatement
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.waiting import ParkingSpot

T = TypeVar("T")

# Synchronous code that runs in a thread, inside one transaction.
SqliteCall: TypeAlias = Callable[[sqlite3.Connection], T]

# Seconds to wait for another process's write, e.g. a command's, before the caller has to retry.
BUSY_TIMEOUT_S = 2.0

# Every commit is on the disk before its reply, on macOS, too, where a plain fsync may leave it in
# the disk's own memory; the write-ahead log is emptied every 2,000 pages (8 MB), and cut back to 10
# MiB after reads let it grow (:mod:`.open_files`). Each connection caches up to 16 MiB of pages.
# What is removed is overwritten with zeros.
_PRAGMAS = """
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA foreign_keys = ON;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
    PRAGMA secure_delete = ON;
    PRAGMA wal_autocheckpoint = 2000;
    PRAGMA journal_size_limit = 10485760;
"""

# 1. Nothing is wrong with the connection: the next try may succeed.
_TRANSIENT_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
}
# 2. Something outside is wrong, and the connection may not learn when it is well again.
_RECONNECT_CODES = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}
# 3. The file is damaged, or is no database: nobody should try again.
_CORRUPTION_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def connect(path: Path, *, query_only: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode, so that the caller writes BEGIN and COMMIT. The file
    must exist; SQLite gives its mode to its log."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        connection.executescript(_PRAGMAS)
        if query_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise

    return connection


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; SQLITE_OK for errors of Python's module itself."""
    # The low byte; the others say more exactly what was read or written.
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def must_reconnect_after(error: BaseException) -> bool:
    """Return whether the connection that raised this has to be opened again."""
    return isinstance(error, sqlite3.Error) and primary_code(error) not in _TRANSIENT_CODES


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise SQLite's errors as a store's; programming errors stay what they are."""
    try:
        yield
    except sqlite3.Error as error:
        raise_translated(error)


def raise_translated(error: sqlite3.Error) -> NoReturn:
    """Raise one of SQLite's errors as a store's, as `translate_errors` does, for the hottest path:
    a context manager costs 7 us each time."""
    code = primary_code(error)
    if code in _TRANSIENT_CODES or code in _RECONNECT_CODES:
        raise StoreUnavailable(f"SQLite: {error}") from error
    if code in _CORRUPTION_CODES:
        raise StoreCorrupt(f"SQLite: {error}") from error
    raise error


def run_statement(connection: sqlite3.Connection, statement: SqlStatement) -> Sequence[Row]:
    """Return the rows of a statement, inside the connection's transaction. A list is one value: an
    array of JSON."""
    text = statement.text.replace(ANY_OF, "IN (SELECT value FROM json_each(?))")
    values = [json.dumps(value) if isinstance(value, list) else value for value in statement.values]
    return connection.execute(text, values).fetchall()


# Reads at once; a commit never waits for them.
READERS_MAX: Final = 4

# Calls that wait for a place with the threads of one kind.
WAITING_MAX: Final = 4_096


class OpenConnection(Protocol):
    """Opens a connection; see `connect`."""

    def __call__(self, path: Path, *, query_only: bool = False) -> sqlite3.Connection: ...


class CallRunner(Protocol):
    """Runs synchronous calls for tasks."""

    async def run(self, call: Callable[[], T], *, turn_within_s: float = math.inf) -> T:
        """Return what the call returns, or raise what it raises. A task that is cancelled goes on
        at once; a call that has begun goes on without it, and its result is dropped.

        Raises StoreUnavailable after `end`, and when the call has not had its turn in that time."""

    def drop_waiting(self) -> None:
        """Let the calls that have not begun raise StoreUnavailable."""

    def end(self) -> None:
        """Release what the calls ran in, after those that are there."""


CLOSED_TEXT: Final = "the store is closed"


async def refuse_closed() -> NoReturn:
    """Raise StoreUnavailable. A caller that tries again at once lets others run meanwhile."""
    await trio.lowlevel.checkpoint()
    raise StoreUnavailable(CLOSED_TEXT)


@define(eq=False)
class _PlacedCall(Generic[T]):
    """A call that has its place with the threads. Its task waits for the result, or has gone."""

    call: Callable[[], T]
    path: _ReturnPath
    on_end: Callable[[], None]
    """Called in the thread, in place of waking the task, when that has gone."""
    result: outcome.Outcome[T] | None = None
    _is_abandoned: bool = False
    _lock: threading.Lock = Factory(threading.Lock)
    """Settles which came first, the result or the end of the wait for it."""

    def run(self) -> None:
        """Make the call; called in the thread."""
        self._settle(outcome.capture(self.call))

    def drop(self) -> None:
        """Let its task raise StoreUnavailable; called instead of `run`."""
        self._settle(outcome.Error(StoreUnavailable(CLOSED_TEXT)))

    def abandon(self) -> bool:
        """Mark the end of the task's wait; return whether the call has not ended."""
        with self._lock:
            self._is_abandoned = self.result is None

        return self._is_abandoned

    def _settle(self, result: outcome.Outcome[T]) -> None:
        with self._lock:
            self.result = result

        # Settled under the lock: from here on neither side changes its mind.
        if self._is_abandoned:
            self.on_end()
        else:
            self.path.wake()


@define(eq=False)
class CallThreads:
    """Threads that run the calls of tasks, begun in the order in which they came. Each begins with
    the first call that finds the others busy. A call that hangs does not keep the process from
    ending.

    The threads have as few calls as keep them busy. The others wait in Trio, where who gives up
    leaves the queue, and need no descriptor.

    `trio.to_thread.run_sync` takes a limiter, copies the context and finds a thread for each call.
    And it tells the result by a message to Trio's loop, which wakes a task of the loop first and
    the caller one turn later; here the thread wakes the caller itself, by a byte into a socket on
    which it waits."""

    name: str
    threads_max: int = 1
    ahead: int = 0
    """Calls that the threads have beside those that they run, so that none waits for Trio."""
    _calls: SimpleQueue[_PlacedCall[Any] | None] = Factory(SimpleQueue)
    _threads: int = 0
    _has_ended: bool = False
    _placed: int = 0
    """Calls that have a place with the threads."""
    _waiting: deque[ParkingSpot[None]] = Factory(deque)
    """Where tasks wait for a place."""
    _idle_paths: list[_ReturnPath] = Factory(list)
    """The ways back of calls that have ended, for the next ones: one for each thread."""

    async def run(self, call: Callable[[], T], *, turn_within_s: float = math.inf) -> T:
        """Return what the call returns, or raise what it raises; see `CallRunner`."""
        await trio.lowlevel.checkpoint_if_cancelled()

        # Nobody would take it out of the queue.
        if self._has_ended:
            await refuse_closed()

        # 1. Wait in Trio for a place with the threads.
        await self._take_place(turn_within_s)

        if self._idle_paths:
            path = self._idle_paths.pop()
        else:
            path = _ReturnPath()

        # 2. Give the call to the threads, and begin one more where all are busy.
        token = trio.lowlevel.current_trio_token()
        placed = _PlacedCall(call, path, partial(self._leave_place_from_thread, token))
        self._calls.put(placed)
        if self._threads < min(self._placed, self.threads_max):
            self._threads += 1

            # Log lines name their process by the context.
            context = copy_context()
            threading.Thread(
                target=context.run, args=(self._run_calls,), name=self.name, daemon=True
            ).start()

        # 3. Wait for the thread's byte.
        try:
            await path.wait()
        except BaseException:
            # The path is not used again: its byte comes too late. The place is free now if the call
            # has ended; else the thread gives it back.
            if not placed.abandon():
                self._leave_place()
            raise

        if len(self._idle_paths) < self.threads_max:
            self._idle_paths.append(path)

        self._leave_place()
        assert placed.result is not None
        return placed.result.unwrap()

    async def _take_place(self, within_s: float) -> None:
        if self._placed < self.threads_max + self.ahead:
            self._placed += 1
            return

        if len(self._waiting) >= WAITING_MAX:
            await trio.lowlevel.checkpoint()
            raise StoreUnavailable(f"{WAITING_MAX} calls wait for the store")

        spot: ParkingSpot[None] = ParkingSpot()
        self._waiting.append(spot)
        with trio.move_on_after(within_s):
            await spot.park(on_cancel=lambda: self._waiting.remove(spot))
            return

        raise StoreUnavailable(f"the store had no turn for it within {within_s:g} s")

    def _leave_place(self) -> None:
        """Give a place to the task that has waited longest, or leave it free."""
        if self._waiting:
            self._waiting.popleft().unpark(outcome.Value(None))
        else:
            self._placed -= 1

    def _leave_place_from_thread(self, token: trio.lowlevel.TrioToken) -> None:
        try:
            token.run_sync_soon(self._leave_place)
        except trio.RunFinishedError:
            # Nobody waits in a loop that has ended.
            self._placed -= 1

    def drop_waiting(self) -> None:
        """Let the calls that have not begun raise StoreUnavailable; before `end` only."""
        while self._waiting:
            self._waiting.popleft().unpark(outcome.Error(StoreUnavailable(CLOSED_TEXT)))

        with suppress(Empty):
            while (placed := self._calls.get_nowait()) is not None:
                placed.drop()

    def end(self) -> None:
        """End the threads after the calls that are there."""
        self._has_ended = True
        for _ in range(self._threads):
            self._calls.put(None)

    def _run_calls(self) -> None:
        while (placed := self._calls.get()) is not None:
            placed.run()

            # What it refers to lives no longer than its caller wants.
            del placed


class _ReturnPath:
    """Wakes one waiting task from the thread. Its sockets are closed when neither needs it any
    more."""

    def __init__(self) -> None:
        self._receiving, self._sending = socket.socketpair()
        self._receiving.setblocking(False)

    def __del__(self) -> None:
        self._receiving.close()
        self._sending.close()

    def wake(self) -> None:
        """Wake the task that waits, or the next one that will; called in the thread, once for each
        wait."""
        self._sending.send(b"\0")

    async def wait(self) -> None:
        """Wait for `wake`."""
        await trio.lowlevel.wait_readable(self._receiving)
        self._receiving.recv(1)


@frozen
class SqliteSystem:
    """Holds what a store takes from the system; a test gives it something else."""

    connect: OpenConnection = connect
    make_writer: Callable[[], CallRunner] = partial(CallThreads, "SQLite writer", ahead=1)
    """Makes what runs the calls that write, one by one and in their order."""
    make_readers: Callable[[], CallRunner] = partial(CallThreads, "SQLite reader", READERS_MAX)
    """Makes what runs the calls that read."""
    clock: GatewayClock = Factory(GatewayClock)
    """Its `wall` is recorded as the store's time, its `monotonic` measures how long a call
    takes."""
