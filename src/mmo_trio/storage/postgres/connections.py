"""Connections to PostgreSQL: how they are made, what they promise, and how long anything may take."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from mmo_trio.storage.interface.store import StoreRefused, StoreUnavailable
from mmo_trio.storage.postgres.bridge import Connection, monotonic_s, severed_at
from mmo_trio.storage.postgres.errors import Meaning, meaning_of, translated

T = TypeVar("T")
Ask = Callable[[Connection], Awaitable[T]]
Pool = AsyncConnectionPool[Connection]

PATIENCE_S = 10.0
"""How long a caller waits for its answer before it is told that it can't be had (P5)."""

WRITERS = 3
"""Connections for commits: the engine's two batches, and what else is written beside them."""

READERS = 4
"""Connections for questions; a commit never waits for them."""

_RECONNECT_S = 3.0
"""How long the pool's back-off may grow before it begins anew with the next caller."""

_QUEUE_S = 1.0
"""How long to wait for a connection before the pool is asked anew: it may have given up making one."""

_UNLESS_SAID: dict[str, Any] = {
    "target_session_attrs": "read-write",
    "application_name": "mmo-gateway",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "client_encoding": "UTF8",
}

_EVERY_SESSION = """
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local');
    SET default_transaction_isolation = 'read committed';
    SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '5s';
"""
"""A commit is on disk, and on a synchronous standby, before it is answered; a paused process holds no lock for long."""

_WRITING = f"""
    {_EVERY_SESSION}
    SET statement_timeout = 0;
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan;
"""
"""Batches look up keys and nothing else: one plan, made once, whatever the statistics say at the time. No statement
deadline: it would cut a COMMIT's wait for the standby short and call it done. The caller's deadline severs instead."""

_READING = f"""
    {_EVERY_SESSION}
    SET statement_timeout = '9s';
"""


def _is_news(record: logging.LogRecord) -> bool:
    """Not when it is about an error that follows another one, as that one is raised: to stderr it would say the same
    again, for each broken pipeline, and may hold values of rows."""
    return not str(record.msg).startswith("error ignored")


logging.getLogger("psycopg").addFilter(_is_news)


def conninfo_of(url: str) -> str:
    """The address with what it leaves open filled in. Raises StoreRefused; the message doesn't repeat the address."""
    try:
        said = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise StoreRefused(
            "database.url can't be read as an address of PostgreSQL: write it as"
            " postgresql://USER@HOST1,HOST2/DATABASE?target_session_attrs=read-write, with special"
            " characters of the password percent-encoded"
        ) from None
    return make_conninfo("", **{**_UNLESS_SAID, **said})


def writing_pool(conninfo: str) -> Pool:
    """Connections for commits."""
    return _pool(conninfo, WRITERS, _WRITING)


def reading_pool(conninfo: str) -> Pool:
    """Connections for questions."""
    return _pool(conninfo, READERS, _READING)


def _pool(conninfo: str, size: int, session: str) -> Pool:
    async def configure(connection: Connection) -> None:
        await connection.execute(session.encode(), prepare=False)

    return AsyncConnectionPool(
        conninfo,
        connection_class=Connection,
        kwargs={"autocommit": True, "prepare_threshold": 0},
        min_size=1,
        max_size=size,
        open=False,
        configure=configure,
        reconnect_timeout=_RECONNECT_S,
        num_workers=2,
    )


async def on_a_connection(pool: Pool, ask: Ask[T], deadline: float) -> T:
    """Ask once, on a connection that is severed at the deadline; psycopg's errors come through."""
    remaining_s = max(0.0, deadline - monotonic_s())
    async with pool.connection(min(remaining_s, _QUEUE_S)) as connection:
        try:
            with severed_at(connection, deadline):
                return await ask(connection)
        except psycopg.Error as error:
            if meaning_of(error) is Meaning.AWAY:  # Demoted, too: the pool makes another one.
                await connection.close()
            raise


async def first_answer(conninfo: str, ask: Ask[T], deadline: float, *, work_s: float = 0) -> T:
    """Ask once the server can be reached, on a connection of its own; what is wrong is told as the server tells it.

    `work_s`: how much longer than until the deadline the answer may take.
    """
    backoff = Backoff(deadline)
    while True:
        try:
            connection: Connection = await Connection.connect(conninfo, autocommit=True)
            async with connection:
                with severed_at(connection, deadline + work_s):
                    return await ask(connection)
        except psycopg.Error as error:
            if meaning_of(error) is not Meaning.AWAY:
                raise translated(error) from error
            await backoff.wait(error)


class Backoff:
    """Waits between tries: doubling, jittered, and never beyond the deadline."""

    def __init__(self, deadline: float, *, first_s: float = 0.01, longest_s: float = 0.5) -> None:
        self._deadline = deadline
        self._next_s = first_s
        self._longest_s = longest_s

    async def wait(self, error: Exception) -> None:
        """Wait a little; raises this error, as the store's, when the deadline would pass meanwhile."""
        delay_s = self._next_s * random.uniform(0.5, 1.0)
        self._next_s = min(self._next_s * 2, self._longest_s)
        if monotonic_s() + delay_s >= self._deadline:
            raise translated(error) from error
        await asyncio.sleep(delay_s)


async def ask_until_answered(pool: Pool, ask: Ask[T], deadline: float) -> T:
    """Ask a question, again and again while the server is away; raises the store's errors."""
    backoff = Backoff(deadline)
    while True:
        try:
            return await on_a_connection(pool, ask, deadline)
        except psycopg.Error as error:
            if monotonic_s() >= deadline:
                raise StoreUnavailable("PostgreSQL didn't answer in time") from error
            if meaning_of(error) is not Meaning.AWAY:
                raise translated(error) from error
            await backoff.wait(error)
