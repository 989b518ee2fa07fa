"""Advisory locks by which who changes something learns that no commit goes by its old state any
more. A commit takes the lock, shared, before it looks at that thing, and holds it to its end. Who
changes the thing commits the change, and then waits for those that hold the lock at that moment:
all later ones see the change. No commit waits for anybody.

The horizon of creation is such a thing: a walk over records behind it is complete, whatever other
processes write meanwhile (R7). A transaction gets its `created_at` before its commit, so a slow
commit would put a row behind a cursor that has passed it. Instead, a reader of records up to an
instant first moves the horizon there, in a commit of its own: no commit that sees it may create
anything below it, and its batch is decided again with later stamps. The reader waits for the
commits that may have read the horizon before, and for no other.

Records that are polled without a pause would move the horizon between the load and the commit of a
batch again and again. So the second attempt of a batch takes the lock before it loads: from then on
readers wait for it, however far they move the horizon."""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

import trio
from attrs import define

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.postgres.connection_pool import RunCall
from mmo_trio.storage.postgres.errors import require_confirmation
from mmo_trio.storage.postgres.pipeline import PreparedStatement
from mmo_trio.storage.postgres.statements import JoinableStatement
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows

SharedLock: TypeAlias = tuple[int, int]

# Held by commits that create transactions, since before they read the horizon: `check_creation`, a
# function in the database.
CREATION_LOCK: Final = (0x4D4D4F, 1)

# Held by commits that begin a submission, since before they look which brands are on hold:
# `check_submission`.
SUBMISSION_LOCK: Final = (0x4D4D4F, 5)

_SELECT_HOLDERS = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_POLL_INTERVAL_MIN_S, _POLL_INTERVAL_MAX_S = 0.002, 0.1


async def find_holders(connection: PostgresConnection, lock: SharedLock) -> set[str]:
    """Return the commits that hold this lock now."""
    return {holder for (holder,) in await fetch_rows(connection, _SELECT_HOLDERS, *lock)}


async def wait_for_holders(run: RunCall, lock: SharedLock, holders: set[str]) -> None:
    """Wait until these commits have ended, without a connection meanwhile; the deadline of `run`
    ends the wait for one that hangs."""
    # Most commits end within a few milliseconds. Only those of the beginning count: later ones have
    # seen what was changed.
    pause_s = _POLL_INTERVAL_MIN_S
    while holders:
        await trio.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_INTERVAL_MAX_S)
        holders &= await run(lambda connection: find_holders(connection, lock))


ACQUIRE_WRITER_LOCK = PreparedStatement(
    "SELECT pg_advisory_xact_lock_shared(%s::integer, %s::integer)"
).bind(*CREATION_LOCK)

# Takes the same lock, then fails where something would be created below the horizon. It may be part
# of a statement that creates: its own look at the horizon comes after the lock.
CHECK_CREATION = JoinableStatement.of(check="check_creation(%s::bigint)")

_ADVANCE_HORIZON = """
    WITH wanted AS (
        SELECT least(%s::bigint, greatest(%s::bigint,
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) AS at
    )
    UPDATE horizon SET at = greatest(horizon.at, wanted.at) FROM wanted
    WHERE horizon.at < wanted.at OR %s::boolean
"""
_SELECT_HORIZON = "SELECT at FROM horizon"


@define(eq=False)
class RecordsHorizon:
    """The horizon as the readers of one store know it."""

    known: Instant = Instant(0)
    """No read up to this instant needs to move it."""
    _is_in_doubt: bool = False
    """Whether the server may have moved it without its standby, so that it has to be written
    again."""

    async def advance(self, run: RunCall, end: Instant, *, passes_present: bool = False) -> None:
        """Let no commit that isn't visible yet create anything below `end`; unless it
        `passes_present`, only below the server's present if that is earlier.

        Every commit that could has ended when this returns; the deadline of `run` ends the wait for
        one that hangs. No connection is held meanwhile. Raises OutcomeUnknown when somebody has
        cancelled the wait for the standby."""
        if end <= self.known:
            return

        complete, awaited = await run(partial(self._move, end=end, passes_present=passes_present))
        await wait_for_holders(run, CREATION_LOCK, awaited)
        self.known = max(self.known, complete)

    async def _move(
        self, connection: PostgresConnection, *, end: Instant, passes_present: bool
    ) -> tuple[Instant, set[str]]:
        """Move the horizon; return where it is, and which commits may have read it before."""
        # Written again where the last time is in doubt, so that this commit waits for the standby,
        # too.
        is_written_again = self._is_in_doubt
        self._is_in_doubt = False
        not_before = Instant(0)
        if passes_present:
            not_before = end

        try:
            with require_confirmation(connection):
                values = (end, not_before, is_written_again)
                await connection.execute(_ADVANCE_HORIZON.encode(), values)
        except BaseException:
            self._is_in_doubt = True
            raise

        # After the move: whoever takes the lock from now on sees it.
        ((complete,),) = await fetch_rows(connection, _SELECT_HORIZON)
        return Instant(complete), await find_holders(connection, CREATION_LOCK)
