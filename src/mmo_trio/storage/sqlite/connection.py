"""Connections to the SQLite file, their settings and the meaning of their errors; and where a
store's calls run."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
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

T = TypeVar("T")
SqliteCall: TypeAlias = Callable[[sqlite3.Connection], T]
"""Synchronous code that runs in a thread, inside one transaction."""

BUSY_TIMEOUT_S = 2.0
"""Seconds to wait for another process's write, e.g. a command's, before the caller has to retry."""

_PRAGMAS = """
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = ON;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
    PRAGMA secure_delete = ON;
    PRAGMA wal_autocheckpoint = 2000;
    PRAGMA journal_size_limit = 67108864;
"""
"""Every commit is on the disk before its reply; the write-ahead log is emptied every 2,000 pages (8
MB) and cut back to 64 MiB after a long reader let it grow. Each connection caches up to 16 MiB of
pages. What is removed is overwritten with zeros."""

_TRANSIENT_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
}
_RECONNECT_CODES = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}
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
    values = [json.dumps(each) if isinstance(each, list) else each for each in statement.values]
    return connection.execute(text, values).fetchall()


READERS_MAX: Final = 4
"""Reads at once; a commit never waits for them."""


class OpenConnection(Protocol):
    """Opens a connection; see `connect`."""

    def __call__(self, path: Path, *, query_only: bool = False) -> sqlite3.Connection: ...


class CallRunner(Protocol):
    """Runs synchronous calls for tasks."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise what it raises. A task that is cancelled goes on
        at once; its call is run all the same, and its result dropped. Raises StoreUnavailable after
        `end`."""

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
class _QueuedCall(Generic[T]):
    """A call whose task waits for its result."""

    call: Callable[[], T]
    path: _ReturnPath
    results: list[outcome.Outcome[T]] = Factory(list)
    """One, until the task takes it out."""

    def run(self) -> None:
        """Make the call; called in the thread."""
        self.results.append(outcome.capture(self.call))
        self.path.wake()

    def drop(self) -> None:
        """Let its task raise StoreUnavailable; called instead of `run`."""
        self.results.append(outcome.Error(StoreUnavailable(CLOSED_TEXT)))
        self.path.wake()


@define(eq=False)
class CallThreads:
    """Threads that run the calls of tasks, begun in the order in which they came. Each begins with
    the first call that finds the others busy. A call that hangs does not keep the process from
    ending.

    `trio.to_thread.run_sync` takes a limiter, copies the context and finds a thread for each call.
    And it tells the result by a message to Trio's loop, which wakes a task of the loop first and
    the caller one turn later; here the thread wakes the caller itself, by a byte into a socket on
    which it waits."""

    name: str
    threads_max: int = 1
    _calls: SimpleQueue[_QueuedCall[Any] | None] = Factory(SimpleQueue)
    _threads: int = 0
    _has_ended: bool = False
    _waiting: int = 0
    """Calls whose tasks wait, and those whose tasks were cancelled."""
    _idle_paths: list[_ReturnPath] = Factory(list)
    """The ways back of calls that have ended, for the next ones: one for each thread. A crowd of
    calls leaves no further descriptor open."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise what it raises; see `CallRunner`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._has_ended:  # Nobody would take it out of the queue.
            await refuse_closed()

        path = self._idle_paths.pop() if self._idle_paths else _ReturnPath()
        queued = _QueuedCall(call, path)
        self._calls.put(queued)
        self._waiting += 1
        if self._threads < min(self._waiting, self.threads_max):
            self._threads += 1
            context = copy_context()  # Log lines name their process by it.
            threading.Thread(
                target=context.run, args=(self._run_calls,), name=self.name, daemon=True
            ).start()

        # After a cancellation the path is not used again: its byte comes too late.
        await path.wait()
        self._waiting -= 1
        if len(self._idle_paths) < self.threads_max:
            self._idle_paths.append(path)
        return queued.results.pop().unwrap()

    def drop_waiting(self) -> None:
        """Let the calls that have not begun raise StoreUnavailable; before `end` only."""
        with suppress(Empty):
            while (queued := self._calls.get_nowait()) is not None:
                queued.drop()

    def end(self) -> None:
        """End the threads after the calls that are there."""
        self._has_ended = True
        for _ in range(self._threads):
            self._calls.put(None)

    def _run_calls(self) -> None:
        while (queued := self._calls.get()) is not None:
            queued.run()
            del queued  # What it refers to lives no longer than its caller wants.


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
    make_writer: Callable[[], CallRunner] = partial(CallThreads, "SQLite writer")
    """Makes what runs the calls that write, one by one and in their order."""
    make_readers: Callable[[], CallRunner] = partial(CallThreads, "SQLite reader", READERS_MAX)
    """Makes what runs the calls that read."""
    clock: GatewayClock = Factory(GatewayClock)
    """Its `wall` is recorded as the store's time, its `monotonic` measures how long a call
    takes."""
