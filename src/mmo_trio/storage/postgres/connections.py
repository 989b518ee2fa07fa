"""Opens connections to PostgreSQL, with their settings, and repeats calls until their deadlines."""

from __future__ import annotations

import logging
import random
from typing import Any, TypeVar

import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable
from mmo_trio.storage.postgres.connection_pool import ConnectionPool, PostgresCall
from mmo_trio.storage.postgres.errors import PostgresErrorKind, classify_error, translate_error
from mmo_trio.storage.postgres.primary import PrimaryFinder
from mmo_trio.storage.postgres.trio_connection import end_session, use_until

T = TypeVar("T")

# Seconds that a caller waits before StoreUnavailable or OutcomeUnknown is raised (P5).
STORE_TIMEOUT_S = 10.0

# Connections for commits: the engine's three batches, and other writes at the same time.
WRITER_CONNECTIONS = 4

# Connections for reads; a commit never waits for them. One more than the pages of records that are
# read at once (`mmo_trio.api.request_limits.PAGES_MAX`), so that these leave one to everything
# else.
READER_CONNECTIONS = 4

# Seconds for the session of a single call to end.
_END_TIMEOUT_S = 3.0

# What an address may set otherwise. A server that has vanished is noticed within some ten seconds;
# the system's own defaults take two hours.
_CONNINFO_DEFAULTS: dict[str, Any] = {
    "target_session_attrs": "read-write",
    "application_name": "mmo-gateway",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

# What a role, a database or an address sets instead changes nothing.
_SESSION_SETUP = """
    -- A commit is on disk, and on a synchronous standby, before its reply.
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local');

    -- What the statements are written for.
    SET default_transaction_isolation = 'read committed';
    SET standard_conforming_strings = on;

    -- A transaction is ended for its silence alone; the setting exists since PostgreSQL 17.
    SELECT set_config('transaction_timeout', '0', false)
        WHERE current_setting('transaction_timeout', true) IS NOT NULL;

    -- A paused process holds no lock for long.
    SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '5s';

    -- A connection rests in its pool as long as it likes.
    SET idle_session_timeout = 0;

    -- A warning during COMMIT always arrives: it may say that the standby has not confirmed.
    SET client_min_messages = warning;

    -- To compile a statement takes longer than to run it.
    SET jit = off;

    -- The server ends the sessions of a machine that has vanished; by its own defaults only after
    -- two hours.
    SET tcp_keepalives_idle = 5;
    SET tcp_keepalives_interval = 2;
    SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '10s';
"""

# Batches look up keys and nothing else, so one plan serves for all values. There is no statement
# deadline, which would cut a COMMIT's wait for the standby short; the call is given up at its
# deadline instead.
WRITER_SETUP = f"""
    {_SESSION_SETUP}
    SET statement_timeout = 0;
    SET plan_cache_mode = force_generic_plan;
"""

# The server gives a read up just before its caller does (STORE_TIMEOUT_S).
READER_SETUP = f"{_SESSION_SETUP} SET statement_timeout = '9s';"

# To build an index of a large table may take hours, and waits for transactions that began before.
STARTUP_SETUP = f"{_SESSION_SETUP} SET statement_timeout = 0; SET lock_timeout = 0;"


def limit_psycopg_logs() -> None:
    """Keep psycopg from logging the errors that follow another one, which is raised: they say the
    same again, for each broken pipeline, and may contain values of rows."""
    logging.getLogger("psycopg").addFilter(_is_not_follow_up_error)


def _is_not_follow_up_error(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("error ignored")


def build_conninfo(url: str) -> str:
    """Return the address with defaults filled in. Raises StoreUnusable; the message doesn't repeat
    the address."""
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise StoreUnusable(
            "database.url can't be read as an address of PostgreSQL: write it as"
            " postgresql://USER@HOST1,HOST2/DATABASE?target_session_attrs=read-write, with special"
            " characters of the password percent-encoded"
        ) from None

    return make_conninfo("", **{**_CONNINFO_DEFAULTS, **parameters, "client_encoding": "UTF8"})


async def call_when_reachable(
    primary: PrimaryFinder, call: PostgresCall[T], deadline: float, *, extra_time_s: float = 0
) -> T:
    """Call as soon as the server can be reached, on a connection of its own; raises the store's
    errors.

    `extra_time_s`: how much longer than until the deadline the call may take.
    """
    # No pool yet: at the start the session is used once, and must be gone before the pools come.
    backoff = Backoff(deadline)
    while True:
        try:
            connection = await primary.connect()
            try:
                async with use_until(connection, deadline + extra_time_s):
                    return await call(connection)
            finally:
                with trio.move_on_after(_END_TIMEOUT_S, shield=True):
                    await end_session(connection)
        except psycopg.Error as error:
            if classify_error(error) is not PostgresErrorKind.DISCONNECTED:
                raise translate_error(error) from error

            await backoff.wait(error)


class Backoff:
    """Waits between attempts: doubling, with jitter, and never beyond the deadline."""

    def __init__(self, deadline: float, *, initial_s: float = 0.01, max_s: float = 0.5) -> None:
        self._deadline = deadline
        self._next_s = initial_s
        self._max_s = max_s

    async def wait(self, error: Exception) -> None:
        """Wait a little; raise this error, as the store's, when the deadline would pass
        meanwhile."""
        # Jitter: all processes lose a server at the same moment, and must not come back as one.
        delay_s = self._next_s * random.uniform(0.5, 1.0)
        self._next_s = min(self._next_s * 2, self._max_s)
        if trio.current_time() + delay_s >= self._deadline:
            raise translate_error(error) from error

        await trio.sleep(delay_s)


async def call_with_retry(
    pool: ConnectionPool, call: PostgresCall[T], deadline: float, *, waits_while_lost: bool = False
) -> T:
    """Make a call that may be repeated: one that only reads, or that does no harm a second time.
    It is made again while the server can't be reached, until the deadline.

    Raises the store's errors: at once while the server is known to be lost, unless the caller
    `waits_while_lost`. A cancellation from outside waits for the end, as it does in each call of
    the pool."""
    backoff = Backoff(deadline)
    while True:
        try:
            return await pool.call(call, deadline, waits_while_lost=waits_while_lost)
        except psycopg.Error as error:
            if trio.current_time() >= deadline:
                raise StoreUnavailable("PostgreSQL didn't answer in time") from error

            # On another connection it may succeed; any other error would come again.
            if classify_error(error) not in (
                PostgresErrorKind.DISCONNECTED,
                PostgresErrorKind.UNCONFIRMED,
            ):
                raise translate_error(error) from error

            with trio.CancelScope(shield=True):
                await backoff.wait(error)
