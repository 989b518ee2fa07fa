"""The bridge to psycopg: asyncio code on a loop that runs on Trio, one crossing for each piece of work.

The trap: `import trio_asyncio` must come before `import psycopg`. psycopg binds `asyncio.get_running_loop` when it is
imported, and trio-asyncio replaces that function when *it* is imported; the other way round every wait for the database
fails with "no running event loop". So this module imports both, in this order, the package imports this module before
any other of its own, and `open_bridge` checks whether other code imported psycopg first.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import trio
import trio_asyncio

# isort: split
import psycopg
import psycopg.waiting
from psycopg.errors import Diagnostic

from mmo_trio.storage.interface.store import StoreUnusable

T = TypeVar("T")


class PostgresConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection to PostgreSQL runs in the bridge."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared: set[bytes] = set()
        """Names of the statements that `pipeline` has prepared on it."""
        self.planned_at = loop_time_s()
        """When its plans were made or discarded, by the clock of deadlines."""
        self.warnings: list[str] = []
        """What the server warned of since somebody cleared this."""
        self.add_notice_handler(partial(_keep_warning, self.warnings))


def _keep_warning(warnings: list[str], diagnostic: Diagnostic) -> None:
    if diagnostic.severity_nonlocalized == "WARNING":
        warnings.append(diagnostic.message_primary or "a warning without words")


class AsyncioBridge:
    """Runs asyncio code from any Trio task; made by :func:`open_bridge`."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    async def run(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run the work to its end. A cancellation waits for that: the work has a deadline, see
        `aborted_at_deadline`."""
        try:
            with trio.CancelScope(shield=True):
                result: T = await self._loop.run_aio_coroutine(work(*arguments))
        finally:
            await trio.lowlevel.checkpoint_if_cancelled()
        return result


@asynccontextmanager
async def open_bridge() -> AsyncIterator[AsyncioBridge]:
    """Run an asyncio loop on Trio within the block. Raises StoreUnusable when psycopg was imported too early."""
    if vars(psycopg.waiting)["get_running_loop"] is not asyncio.get_running_loop:
        raise StoreUnusable("this program imported psycopg before trio_asyncio: import mmo_trio.storage.postgres first")
    async with trio_asyncio.open_loop() as loop:
        yield AsyncioBridge(loop)


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


def loop_time_s() -> float:
    """Return the time of the clock of deadlines; only to be called inside the bridge."""
    return asyncio.get_running_loop().time()


@contextmanager
def aborted_at_deadline(connection: PostgresConnection, deadline: float) -> Iterator[None]:
    """Within the block, shut down the connection's socket at the deadline.

    Each wait for the server then fails at once, as on any lost connection, whether the server hangs or the network
    drops everything. A request to the server to cancel would be one more thing to wait for.
    """
    timer = asyncio.get_running_loop().call_at(deadline, _shut_down_socket, connection)
    try:
        yield
    finally:
        timer.cancel()


def _shut_down_socket(connection: PostgresConnection) -> None:
    with suppress(OSError, psycopg.Error):
        handle = socket.socket(fileno=os.dup(connection.fileno()))
        with handle:
            handle.shutdown(socket.SHUT_RDWR)
