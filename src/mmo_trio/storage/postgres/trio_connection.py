"""A connection to PostgreSQL that is used from Trio, from its opening to the end of its session.

A connection that has failed is made once more for the sake of the SQLSTATE, see
`mmo_trio.storage.postgres.driver`. Texts of libpq itself, about TLS, are always in English, as this
process sets no locale."""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import psycopg
import trio
from attrs import frozen
from psycopg import pq
from psycopg.errors import Diagnostic

from mmo_trio.storage.postgres.asyncio_loop import run_in_asyncio
from mmo_trio.storage.postgres.driver import WaitingConnection, give_sqlstate_only

# Seconds that a request to cancel may take.
_CANCEL_TIMEOUT_S = 3.0

# Seconds between two requests: one that finds no statement running has no effect.
_CANCEL_INTERVAL_S = 1.0

_SQLSTATE = re.compile(r":  ([0-9A-Z]{5})$", re.MULTILINE)
_DIAGNOSIS_TIMEOUT_S = 3.0

INVALID_PASSWORD: Final = "28P01"
INVALID_AUTHORIZATION: Final = "28000"
READ_ONLY: Final = "25006"

# What libpq itself rejects, and the SQLSTATE that a server would have for it.
_BY_LIBPQ_TEXT: Final = (
    ("no password supplied", INVALID_PASSWORD),
    ("server does not support SSL", INVALID_AUTHORIZATION),
    ("certificate verify failed", INVALID_AUTHORIZATION),
    ("does not match host name", INVALID_AUTHORIZATION),
    ("root certificate file", INVALID_AUTHORIZATION),
    ("session is read-only", READ_ONLY),
    ("server is in hot standby mode", READ_ONLY),
)


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


class PostgresConnection(WaitingConnection):
    """A connection to PostgreSQL for Trio tasks; after a cancellation it can only be ended, see
    `end_session`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

        # Names of the statements that `pipeline` has prepared on it.
        self.prepared: set[bytes] = set()

        # By Trio's clock: when it was opened, and when its plans were made or discarded.
        self.opened_at = self.planned_at = 0.0

        # What its server writes; None where the role may not see it.
        self.timeline: Timeline | None = None

        # Whether its server's commits waited for a standby when it was opened.
        self.is_synchronous = False

        # What the server warned of since somebody cleared this.
        self.warnings: list[str] = []
        self.add_notice_handler(partial(_keep_warning, self.warnings))

    @property
    def is_idle(self) -> bool:
        """Whether the server waits for a statement, outside any transaction."""
        return self.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _keep_warning(warnings: list[str], diagnostic: Diagnostic) -> None:
    if diagnostic.severity_nonlocalized == "WARNING":
        warnings.append(diagnostic.message_primary or "a warning without words")


async def open_connection(conninfo: str) -> PostgresConnection:
    """Connect once. Raises psycopg.Error with its SQLSTATE, as far as that can be learnt."""
    connect = partial(PostgresConnection.connect, conninfo, autocommit=True, prepare_threshold=0)
    try:
        connection = await run_in_asyncio(connect)
    except psycopg.Error as error:
        error.sqlstate = error.sqlstate or await trio.to_thread.run_sync(
            find_sqlstate, conninfo, error, abandon_on_cancel=True
        )
        raise

    connection.opened_at = connection.planned_at = trio.current_time()
    return connection


def find_sqlstate(conninfo: str, error: psycopg.Error) -> str | None:
    """Return the SQLSTATE of a connection that has failed with this error; None when there is none,
    or it can't be learnt within seconds."""
    text = str(error)
    for phrase, state in _BY_LIBPQ_TEXT:
        if phrase in text:
            return state
    if ":  " not in text:  # libpq puts two spaces between a server's "FATAL:" and its sentence.
        return None
    found = _SQLSTATE.findall(_connect_for_answer(conninfo))
    return found[-1] if found else None


def _connect_for_answer(conninfo: str) -> str:
    """Connect and disconnect; return what the server said of it by its SQLSTATE, "" when it
    accepted the connection, or did not answer in time."""
    # In a thread, without psycopg: only so libpq can be told to answer by the SQLSTATE.
    give_up_at = time.monotonic() + _DIAGNOSIS_TIMEOUT_S
    pgconn = pq.PGconn.connect_start(conninfo.encode())
    try:
        if not give_sqlstate_only(pgconn):
            return ""

        while pgconn.status != pq.ConnStatus.BAD:
            match pgconn.connect_poll():
                case pq.PollingStatus.READING:
                    events = select.POLLIN
                case pq.PollingStatus.WRITING:
                    events = select.POLLOUT
                case _:
                    break

            poll = select.poll()
            poll.register(pgconn.socket, events)
            if not poll.poll(max(0.0, give_up_at - time.monotonic()) * 1000):
                return ""

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
