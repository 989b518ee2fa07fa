"""The horizon of creation: a walk over records behind it is complete, whatever other processes write meanwhile (R7).

A transaction gets its `created_at` before its commit, so a slow commit would put a row behind a cursor that has passed
it. Instead, a reader of records up to an instant first moves the horizon there, in a commit of its own: no commit that
sees it may create anything below it, and its batch is decided again with later stamps. Commits that may have read the
horizon before hold a shared advisory lock from before that read until they end: the reader waits for these, and for no
other. No commit waits for the reader.

Records that are polled without a pause would move the horizon between the load and the commit of a batch again and
again. So the second attempt of a batch takes the lock before it loads: from then on readers wait for it, however far
they move the horizon.
"""

from __future__ import annotations

from functools import partial

from attrs import define

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.postgres.connection_pool import RunCall
from mmo_trio.storage.postgres.errors import require_confirmation
from mmo_trio.storage.postgres.joined_statements import JoinableStatement
from mmo_trio.storage.postgres.pipeline import PreparedStatement
from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.postgres.shared_locks import CREATION_LOCK, find_holders, wait_for_holders
from mmo_trio.storage.postgres.trio_connection import PostgresConnection

ACQUIRE_WRITER_LOCK = PreparedStatement("SELECT pg_advisory_xact_lock_shared(%s::integer, %s::integer)").bind(
    *CREATION_LOCK
)
CHECK_CREATION = JoinableStatement.of(check="check_creation(%s::bigint)")
"""Takes the same lock, then fails where something would be created below the horizon. It may be part of a statement
that creates: its own look at the horizon comes after the lock."""

_ADVANCE_HORIZON = """
    WITH wanted AS (
        SELECT least(%s::bigint, greatest(%s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) AS at
    )
    UPDATE horizon SET at = greatest(horizon.at, wanted.at) FROM wanted WHERE horizon.at < wanted.at OR %s::boolean
"""
_SELECT_HORIZON = "SELECT at FROM horizon"


@define(eq=False)
class RecordsHorizon:
    """The horizon as the readers of one store know it."""

    known: Instant = Instant(0)
    """No read up to this instant needs to move it."""
    _is_in_doubt: bool = False
    """Whether the server may have moved it without its standby, so that it has to be written again."""

    async def advance(self, run: RunCall, end: Instant, *, passes_present: bool = False) -> None:
        """Let no commit that isn't visible yet create anything below `end`; unless it `passes_present`, only below the
        server's present if that is earlier.

        Every commit that could has ended when this returns; the deadline of `run` ends the wait for one that hangs. No
        connection is held meanwhile. Raises OutcomeUnknown when somebody has cancelled the wait for the standby.
        """
        if end <= self.known:
            return
        complete, awaited = await run(partial(self._move, end=end, passes_present=passes_present))
        await wait_for_holders(run, CREATION_LOCK, awaited)
        self.known = max(self.known, complete)

    async def _move(
        self, connection: PostgresConnection, *, end: Instant, passes_present: bool
    ) -> tuple[Instant, set[str]]:
        """Move the horizon; return where it is, and which commits may have read it before."""
        is_written_again, self._is_in_doubt = self._is_in_doubt, False
        try:
            with require_confirmation(connection):
                values = (end, end if passes_present else 0, is_written_again)
                await connection.execute(_ADVANCE_HORIZON.encode(), values)
        except BaseException:
            self._is_in_doubt = True
            raise
        ((complete,),) = await fetch_rows(connection, _SELECT_HORIZON)
        return Instant(complete), await find_holders(connection, CREATION_LOCK)
