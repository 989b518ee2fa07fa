"""A connection to PostgreSQL that is used from Trio: psycopg's own, but each wait for the server is
Trio's.

psycopg waits with asyncio in two places only: `AsyncConnection.wait`, which is replaced here, and
when it connects or asks the server to cancel. Both of the latter are rare; each runs on an asyncio
loop of its own, which runs on Trio.

The trap: `import trio_asyncio` must come before `import psycopg`. psycopg binds
`asyncio.get_running_loop` when it is imported, and trio-asyncio replaces that function when *it* is
imported; the other way round every attempt to connect fails with "no running event loop". So this
module imports both, in this order, the package imports this module before any other of its own, and
`run_in_asyncio` checks whether other code imported psycopg first.

psycopg has no SQLSTATE of a connection that was never made, only the server's sentence in the
server's language. libpq gives the SQLSTATE in its place when it is asked to, by a function that
psycopg leaves to ctypes (see its `pgconn_ptr`). So a connection that has failed is made once more
for the sake of the SQLSTATE. Texts of libpq itself, about TLS, are always in English, as this
process sets no locale."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import select
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from typing import Any, Final, TypeAlias, TypeVar

import trio
import trio_asyncio
from attrs import frozen

# isort: split
import psycopg
import psycopg.waiting
from psycopg import pq
from psycopg.abc import PQGen, PQGenConn
from psycopg.errors import Diagnostic
from psycopg.waiting import Ready, Wait, wait_conn_async

from mmo_trio.storage.interface.store import StoreUnusable

T = TypeVar("T")
SetVerbosity: TypeAlias = Callable[[int, int], int]

_CANCEL_TIMEOUT_S = 3.0
"""Seconds that a request to cancel may take."""

_CANCEL_INTERVAL_S = 1.0
"""Seconds between two requests: one that finds no statement running has no effect."""


_VERBOSITY_SQLSTATE: Final = 3
"""PQERRORS_SQLSTATE of libpq-fe.h."""

_SQLSTATE = re.compile(r":  ([0-9A-Z]{5})$", re.MULTILINE)
_DIAGNOSIS_TIMEOUT_S = 3.0
_POLL_INTERVAL_S = 0.1

INVALID_PASSWORD: Final = "28P01"
INVALID_AUTHORIZATION: Final = "28000"
READ_ONLY: Final = "25006"

_BY_LIBPQ_TEXT: Final = (
    ("no password supplied", INVALID_PASSWORD),
    ("server does not support SSL", INVALID_AUTHORIZATION),
    ("certificate verify failed", INVALID_AUTHORIZATION),
    ("does not match host name", INVALID_AUTHORIZATION),
    ("root certificate file", INVALID_AUTHORIZATION),
    ("session is read-only", READ_ONLY),
    ("server is in hot standby mode", READ_ONLY),
)
"""What libpq itself rejects, and the SQLSTATE that a server would have for it."""


@frozen
class Timeline:
    """The timeline that a server writes: each promotion of a copy begins another one, with a higher
    number."""

    system: int
    """Which database cluster it belongs to; a number that `initdb` has made."""
    number: int

    def is_replaced_by(self, other: Timeline | None) -> bool:
        """Return whether the other one is of the same system and began later."""
        return other is not None and other.system == self.system and other.number > self.number


class PostgresConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection to PostgreSQL for Trio tasks; after a cancellation it can only be ended, see
    `end_session`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared: set[bytes] = set()
        """Names of the statements that `pipeline` has prepared on it."""
        self.opened_at = self.planned_at = 0.0
        """By Trio's clock: when it was opened, and when its plans were made or discarded."""
        self.timeline: Timeline | None = None
        """What its server writes; None where the role may not see it."""
        self.warnings: list[str] = []
        """What the server warned of since somebody cleared this."""
        self.add_notice_handler(partial(_keep_warning, self.warnings))

    async def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        """Run one of psycopg's generators to its end."""
        handle = self.pgconn.socket
        try:
            wanted = next(gen)
            while True:
                if wanted == Wait.R:
                    await trio.lowlevel.wait_readable(handle)
                    wanted = gen.send(Ready.R)
                elif wanted == Wait.W:
                    await trio.lowlevel.wait_writable(handle)
                    wanted = gen.send(Ready.W)
                else:
                    wanted = gen.send(await _wait_for_either(handle))
        except StopIteration as end:
            result: T = end.value
            return result
        except OSError as error:
            raise psycopg.OperationalError("the connection's socket is closed") from error

    @property
    def is_idle(self) -> bool:
        """Whether the server waits for a statement, outside any transaction."""
        return self.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _keep_warning(warnings: list[str], diagnostic: Diagnostic) -> None:
    if diagnostic.severity_nonlocalized == "WARNING":
        warnings.append(diagnostic.message_primary or "a warning without words")


async def _wait_for_either(handle: int) -> Ready:
    """Wait until the socket can be read from or written to, which is at once unless its buffer is
    full."""
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLOUT)
    for _, events in poll.poll(0):
        return Ready(
            (Ready.W if events & select.POLLOUT else 0)
            | (Ready.R if events & ~select.POLLOUT else 0)
        )
    ready = Ready.NONE

    async def wait_readable() -> None:
        nonlocal ready
        await trio.lowlevel.wait_readable(handle)
        ready = Ready(ready | Ready.R)
        nursery.cancel_scope.cancel()

    async def wait_writable() -> None:
        nonlocal ready
        await trio.lowlevel.wait_writable(handle)
        ready = Ready(ready | Ready.W)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_readable)
        nursery.start_soon(wait_writable)
    return ready


async def run_in_asyncio(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run asyncio code to its end. Raises StoreUnusable when psycopg was imported too early."""
    if vars(psycopg.waiting)["get_running_loop"] is not asyncio.get_running_loop:
        raise StoreUnusable(
            "this program imported psycopg before trio_asyncio: import "
            "mmo_trio.storage.postgres first"
        )
    with unwrap_single_exception():
        async with trio_asyncio.open_loop() as loop:
            result: T = await loop.run_aio_coroutine(work())
    return result


async def open_connection(conninfo: str) -> PostgresConnection:
    """Connect once. Raises psycopg.Error with its SQLSTATE, as far as that can be learnt."""
    connection = await run_in_asyncio(partial(_connect, conninfo))
    connection.opened_at = connection.planned_at = trio.current_time()
    return connection


async def _connect(conninfo: str) -> PostgresConnection:
    try:
        return await PostgresConnection.connect(conninfo, autocommit=True, prepare_threshold=0)
    except psycopg.Error as error:
        error.sqlstate = error.sqlstate or await find_sqlstate(conninfo, error)
        raise


async def find_sqlstate(conninfo: str, error: psycopg.Error) -> str | None:
    """Return the SQLSTATE of a connection that has failed with this error; None when there is none,
    or it can't be learnt."""
    text = str(error)
    for phrase, state in _BY_LIBPQ_TEXT:
        if phrase in text:
            return state
    set_verbosity = _find_verbosity_function()
    if (
        set_verbosity is None or ":  " not in text
    ):  # libpq puts two spaces between a server's "FATAL:" and its sentence.
        return None
    try:
        async with asyncio.timeout(_DIAGNOSIS_TIMEOUT_S):
            answer = await wait_conn_async(
                _connect_for_answer(conninfo, set_verbosity), _POLL_INTERVAL_S
            )
    except (psycopg.Error, TimeoutError):
        return None
    found = _SQLSTATE.findall(answer)
    return found[-1] if found else None


@cache
def _find_verbosity_function() -> SetVerbosity | None:
    """Return libpq's PQsetErrorVerbosity, of the libpq that psycopg has loaded; None where it isn't
    to be had."""
    try:
        function = ctypes.CDLL(sys.modules[pq.PGconn.__module__].__file__).PQsetErrorVerbosity
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return function


def _connect_for_answer(conninfo: str, set_verbosity: SetVerbosity) -> PQGenConn[str]:
    """Connect and disconnect; return what the server said of it, "" when it accepted the
    connection."""
    pgconn = pq.PGconn.connect_start(conninfo.encode())
    try:
        if pointer := getattr(pgconn, "pgconn_ptr", None):
            set_verbosity(pointer, _VERBOSITY_SQLSTATE)
        while pgconn.status != pq.ConnStatus.BAD:
            match pgconn.connect_poll():
                case pq.PollingStatus.READING:
                    wait = Wait.R
                case pq.PollingStatus.WRITING:
                    wait = Wait.W
                case _:
                    break
            while not (yield pgconn.socket, wait):
                pass
        return pgconn.error_message.decode(errors="replace")
    finally:
        pgconn.finish()


@asynccontextmanager
async def use_until(connection: PostgresConnection, deadline: float) -> AsyncIterator[None]:
    """Within the block, wait for the server until the deadline, by Trio's clock; then raise
    OperationalError, with the statement still running. A cancellation from outside waits for the
    end of the block."""
    with trio.CancelScope(deadline=deadline, shield=True) as scope:
        yield
    if scope.cancelled_caught:
        raise psycopg.OperationalError("PostgreSQL didn't answer in time")


async def fetch_rows(
    connection: PostgresConnection, statement: str, *values: object
) -> list[tuple[Any, ...]]:
    """Return all rows of a statement."""
    cursor = await connection.execute(statement.encode(), values, binary=True)
    return await cursor.fetchall()


async def end_session(
    connection: PostgresConnection, *, may_cancel: trio.Event | None = None
) -> None:
    """End a connection in whatever state it is, and return when the server has ended its session,
    or is out of reach.

    The server notices that nobody speaks to it any more when its statement has ended. It is asked
    to cancel that statement, once `may_cancel` is set if there is one. The request may reach the
    server late, but never a later statement, as this session has none."""
    try:
        if not connection.closed:
            with socket.socket(fileno=os.dup(connection.fileno())) as handle:
                handle.shutdown(socket.SHUT_WR)
                await _wait_for_end(connection, handle, may_cancel)
    except (OSError, psycopg.Error):
        pass
    finally:
        with trio.CancelScope(shield=True), suppress(psycopg.Error):
            await connection.close()


async def _wait_for_end(
    connection: PostgresConnection, handle: socket.socket, may_cancel: trio.Event | None
) -> None:
    async def cancel() -> None:
        if may_cancel is not None:
            await may_cancel.wait()
        while True:
            with suppress(psycopg.Error):
                await run_in_asyncio(partial(connection.cancel_safe, timeout=_CANCEL_TIMEOUT_S))
            await trio.sleep(_CANCEL_INTERVAL_S)

    handle.setblocking(False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel)
        while True:
            await trio.lowlevel.wait_readable(handle)
            with suppress(BlockingIOError):
                if not handle.recv(65536):
                    break
        nursery.cancel_scope.cancel()


@contextmanager
def unwrap_single_exception() -> Iterator[None]:
    """Raise an exception that a nursery has wrapped by itself as it was raised."""
    inner: BaseException | None = None
    try:
        yield
    except BaseExceptionGroup as group:
        inner = group
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    if inner is not None:
        raise inner
