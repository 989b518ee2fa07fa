"""What serving processes do now and then: keep the tables small to which every commit adds a row,
and have the server gather the planner's statistics of tables of which it knows nothing.

The server gathers them by itself after many changes, and not when it was upgraded or a dump was
restored. Until then it may plan to read all of a table for one of its rows."""

from __future__ import annotations

import time
from uuid import UUID

import structlog

from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span, earlier
from mmo_trio.storage.interface.admin_types import COUNT_SPANS, COUNTED_MINOR_MAX, QUARTER_HOUR
from mmo_trio.storage.postgres.commits import first_commit_id
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.net_effect import FIGURE_KEY

logger = structlog.get_logger(__name__)

# Longer than any process asks for the outcome of a commit: until the lease has ended under which it
# was made.
COMMIT_RECORDS_KEPT_FOR = HOUR

# After which the row of a commit may have been deleted, by the clock of the process that made it.
_FORGOTTEN_AFTER = Span(COMMIT_RECORDS_KEPT_FOR // 2)

# "MMO", and a number for each use; see `shared_locks` and `partitions` for the others.
_ROLL_UP_LOCK = (0x4D4D4F, 4)

# The id of the row that holds the latest stamp of the deleted ones.
_LATEST_STAMP_ID = UUID(int=0)

_SELECT_NOW = """
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        clock_timestamp() - make_interval(secs => %s)
"""

_FULL_SPANS = [span for span in COUNT_SPANS if span != QUARTER_HOUR]

# One statement: a row is in the figures or among the deltas, never in both or in neither.
_ROLL_UP_COUNTS = f"""
    WITH gone AS (
        DELETE FROM figure_deltas {{condition}} RETURNING *
    )
    INSERT INTO figures ({FIGURE_KEY}, holder, times, minor)
    SELECT {FIGURE_KEY}, 0, sum(times), least(sum(minor), {COUNTED_MINOR_MAX})
    FROM (
        SELECT span, began_at - mod(began_at, span), brand, method, provider, is_simulated, status,
            latency_s, type, currency, error_code, times, minor
        FROM gone CROSS JOIN unnest(ARRAY[{", ".join(map(str, _FULL_SPANS))}]::bigint[]) AS span
        UNION ALL
        SELECT {QUARTER_HOUR}, began_at, brand, '', provider, is_simulated, status, 0, '', '', '',
            times, minor
        FROM gone
    ) AS spread ({FIGURE_KEY}, times, minor)
    GROUP BY {FIGURE_KEY}
    ON CONFLICT ({FIGURE_KEY}, holder)
        DO UPDATE SET times = figures.times + excluded.times,
            minor = least(figures.minor, {COUNTED_MINOR_MAX} - excluded.minor) + excluded.minor
"""

_KEEP_LATEST_STAMP = """
    INSERT INTO batches (id, stamp) VALUES (%s, %s)
    ON CONFLICT (id) DO UPDATE SET stamp = greatest(batches.stamp, excluded.stamp)
"""

# Of a smaller table every plan is good enough.
TABLE_BYTES_MIN = 1 << 20

_UNKNOWN = """
    SELECT c.oid::regclass::text FROM pg_class AS c
    WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('mmo_schema'))
        AND c.relkind = 'r' AND pg_has_role(c.relowner, 'USAGE') AND pg_relation_size(c.oid) >= %s
        AND NOT EXISTS (
            SELECT 1 FROM pg_stats AS s
            WHERE s.schemaname = c.relnamespace::regnamespace::text AND s.tablename = c.relname
        )
"""


def may_be_forgotten(commit: UUID) -> bool:
    """Return whether a commit that is said to be void may be one whose row was deleted since."""
    return commit < first_commit_id(earlier(Instant(time.time_ns() // 1_000), _FORGOTTEN_AFTER))


async def purge_commit_records(connection: PostgresConnection, tables: Tables) -> None:
    """Delete the rows of commits that are no longer in doubt, and keep the latest stamp of them, in
    small steps. The id of a row tells its age by the clock of the process that made it,
    `touched_at` by this server's."""
    # Both clocks have to agree that it is old: one of them may be wrong.
    ((now, untouched_since),) = await fetch_rows(
        connection, _SELECT_NOW, COMMIT_RECORDS_KEPT_FOR / SECOND
    )
    values = (
        _LATEST_STAMP_ID,
        first_commit_id(earlier(Instant(now), COMMIT_RECORDS_KEPT_FOR)),
        untouched_since,
    )
    for table in tables.commit_tables:
        aged = f"FROM {table} WHERE id > %s AND id < %s AND touched_at < %s"
        ((latest,),) = await fetch_rows(connection, f"SELECT max(stamp) {aged}", *values)

        # Kept first: by the latest stamp it is known before which time nothing may be dated.
        if latest is not None:
            await connection.execute(_KEEP_LATEST_STAMP.encode(), (_LATEST_STAMP_ID, latest))
            await connection.execute(f"DELETE {aged}".encode(), values)


async def roll_up_counts(connection: PostgresConnection, tables: Tables) -> None:
    """Add what commits have counted to the figures of each span, unless another process is at it.

    Commits only insert rows of their own, so that none waits for another, and a row that a long
    snapshot keeps alive makes no commit slower. Where tables are distributed, each brand's counts
    are added up in their shard."""
    async with connection.transaction():
        ((is_ours,),) = await fetch_rows(
            connection, "SELECT pg_try_advisory_xact_lock(%s, %s)", *_ROLL_UP_LOCK
        )
        if is_ours:
            for condition, values in await tables.counted_groups(connection):
                await connection.execute(
                    _ROLL_UP_COUNTS.format(condition=condition).encode(), values
                )


async def analyze_unknown_tables(connection: PostgresConnection) -> None:
    """Analyze each of our tables that has rows and never was; not one that another session
    analyzes."""
    for (name,) in await fetch_rows(connection, _UNKNOWN, TABLE_BYTES_MIN):
        await connection.execute(f"ANALYZE (SKIP_LOCKED) {name}".encode())
        logger.info("table_analyzed", table=name)
