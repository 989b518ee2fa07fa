"""The partitions of tables whose rows only age: makes them ahead of their time, and drops them when
they are too old.

Each table is divided by its column `at`. A partition for all that has none of its own is always
there, so an insert never fails for the lack of one. Both to attach and to drop a partition need a
lock that waits for every reader of the table, such as a dump, and that others would wait behind: so
each attempt gives up after LOCK_TIMEOUT_MS, and is made again later. Partitions are made so early
that there is time for that.

Where they were missed nevertheless, the newest rows of the partition for the rest get one of their
own, and each later call does the same for those before them: so it stops growing at once, and what
is in it becomes fewer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import Enum
from functools import partial

import psycopg
import structlog
from attrs import evolve, frozen

from mmo_sansio.values.clock import Instant, from_datetime, to_datetime
from mmo_trio.storage.interface.retention import RetentionDuty, RetentionStep
from mmo_trio.storage.postgres.connection_pool import RunCall
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.retention import RetentionStore

logger = structlog.get_logger(__name__)

# How long an attempt may wait, and others behind it.
LOCK_TIMEOUT_MS = 100

# How long each of the three statements may take that others wait behind: in all, less than the 5 s
# after which a commit gives a lock up.
STATEMENT_TIMEOUT_MS = 1_500

# Rows that are moved out of the partition for the rest while others wait; where there are more, the
# older ones stay until later calls.
MOVED_ROWS_MAX = 10_000

# Partitions of a table beyond which none is made for rows of the past: a query by payment opens and
# locks each.
PARTITIONS_MAX = 200

_MAINTENANCE_LOCK = (0x4D4D4F, 3)

_SELECT_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_SELECT_PARTITIONS = """
    SELECT c.relname, pg_get_expr(c.relpartbound, c.oid)
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass(%s) AND NOT i.inhdetachpending
"""
_RANGE = re.compile(r"FOR VALUES FROM \((MINVALUE|'-?\d+')\) TO \((MAXVALUE|'-?\d+')\)")


class PartitionSpan(Enum):
    """A partition holds the rows of a day or of a month."""

    DAY = "day"
    MONTH = "month"


@frozen
class PartitionedTable:
    """A partitioned table is divided by time."""

    name: str
    span: PartitionSpan
    ahead: int
    """How many partitions are made ahead of the present one."""


@frozen
class Partition:
    """A partition is the part of a table whose rows are from `begin` on and before `end`."""

    table: str
    name: str
    begin: Instant | None
    """None: without a beginning; the partition for the rest has neither."""
    end: Instant | None
    """None: without an end."""
    is_default: bool = False
    """Whether it is the partition for what has none of its own."""


PARTITIONED_TABLES: Sequence[PartitionedTable] = (
    PartitionedTable("journal", PartitionSpan.MONTH, ahead=2),
    PartitionedTable("callbacks", PartitionSpan.MONTH, ahead=2),
    PartitionedTable("callback_bodies", PartitionSpan.DAY, ahead=40),
)


def partition_at(table: PartitionedTable, at: Instant) -> Partition:
    """Return the partition that this instant falls into: a day or a month in UTC."""
    moment = to_datetime(at).replace(hour=0, minute=0, second=0, microsecond=0)
    if table.span is PartitionSpan.DAY:
        begin = moment
        end = moment + timedelta(days=1)
        name = f"{moment:%Y_%m_%d}"
    else:
        # 31 days after the first of a month is a day of the next one, whatever its length.
        begin = moment.replace(day=1)
        end = (begin + timedelta(days=31)).replace(day=1)
        name = f"{moment:%Y_%m}"

    return Partition(table.name, f"{table.name}_{name}", from_datetime(begin), from_datetime(end))


def missing_partitions(
    table: PartitionedTable, existing: Iterable[Partition], now: Instant
) -> Sequence[Partition]:
    """Return those of the present partition and the ones ahead of it that overlap with none that is
    there."""
    known = [partition for partition in existing if not partition.is_default]
    missing: list[Partition] = []
    at = now
    for _ in range(table.ahead + 1):
        wanted = partition_at(table, at)
        assert wanted.begin is not None
        assert wanted.end is not None
        if not any(_overlap(partition, wanted) for partition in known):
            missing.append(wanted)

        at = wanted.end

    return missing


def _overlap(one: Partition, other: Partition) -> bool:
    """Return whether an instant falls into both; neither is the one for the rest."""
    return (one.begin is None or other.end is None or one.begin < other.end) and (
        other.begin is None or one.end is None or other.begin < one.end
    )


def gap_around(table: PartitionedTable, existing: Iterable[Partition], at: Instant) -> Partition:
    """Return the partition around an instant that has none: its day or month, as far as nothing
    else has that."""
    # The latest beginning at or before the instant, and the earliest end after it.
    whole = partition_at(table, at)
    known = [partition for partition in existing if not partition.is_default]
    begin = max(
        begin
        for begin in (whole.begin, *(other.end for other in known))
        if begin is not None and begin <= at
    )
    end = min(
        end
        for end in (whole.end, *(other.begin for other in known))
        if end is not None and end > at
    )
    return _narrowed(evolve(whole, end=end), begin)


def _narrowed(partition: Partition, begin: Instant) -> Partition:
    """Return the end of a partition, from this instant on, which has a name of its own."""
    if begin == partition.begin:
        return partition
    return evolve(partition, name=f"{partition.table}_from_{begin}", begin=begin)


async def list_partitions(connection: PostgresConnection, table: str) -> Sequence[Partition]:
    """Return the partitions of a table, the oldest first and the one for the rest last."""
    rows = await fetch_rows(connection, _SELECT_PARTITIONS, table)
    found = [_parse_partition(table, name, bounds) for name, bounds in rows]
    return sorted(
        found, key=lambda partition: (partition.is_default, partition.begin or 0, partition.name)
    )


async def partitions_before(
    connection: PostgresConnection, table: str, instant: Instant
) -> Sequence[Partition]:
    """Return the partitions of a table whose rows are all before this instant, the oldest first."""
    found = await list_partitions(connection, table)
    return [
        partition for partition in found if partition.end is not None and partition.end <= instant
    ]


async def maintain_partitions(connection: PostgresConnection, *, of_past: bool = False) -> bool:
    """Make the partitions that are needed soon, or those of rows of the past, by the server's
    clock; return whether some were made."""
    ((now,),) = await fetch_rows(connection, _SELECT_NOW)
    if of_past:
        return bool(await ensure_past_partitions(connection, Instant(now)))
    return bool(await ensure_partitions(connection, Instant(now)))


async def ensure_partitions(connection: PostgresConnection, now: Instant) -> Sequence[Partition]:
    """Make the partitions for this instant and the time after it, and return those that were made.

    What can't be made now, as somebody reads the table or another process is at it, is left to the
    next call."""
    made: list[Partition] = []
    for table in PARTITIONED_TABLES:
        existing = await list_partitions(connection, table.name)
        made += await _make_partitions(
            connection, missing_partitions(table, existing, now), existing[-1]
        )

    return made


async def ensure_past_partitions(
    connection: PostgresConnection, now: Instant
) -> Sequence[Partition]:
    """Make a partition of each table for the newest rows of the past that have none; return those
    that were made."""
    made: list[Partition] = []
    for table in PARTITIONED_TABLES:
        existing = await list_partitions(connection, table.name)
        rest = existing[-1]
        ((at,),) = await fetch_rows(
            connection, f"SELECT max(at) FROM {rest.name} WHERE at < %s", now
        )
        if at is not None and len(existing) < PARTITIONS_MAX:
            # That of the present is made by `ensure_partitions`.
            gap = gap_around(table, existing, Instant(at))
            if gap.end is not None and gap.end <= now:
                made += await _make_partitions(connection, [gap], rest)

    return made


async def _make_partitions(
    connection: PostgresConnection, wanted: Sequence[Partition], rest: Partition
) -> Sequence[Partition]:
    made: list[Partition] = []
    try:
        for partition in wanted:
            made += await _make_partition(connection, partition, rest)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as error:
        # Somebody reads for long: nothing is lost, the rest takes the rows meanwhile.
        logger.info("partition_postponed", table=rest.table, error=type(error).__name__)
    except psycopg.errors.InsufficientPrivilege:
        # A role without the table's ownership may serve: its owner makes the partitions.
        logger.warning("partition_refused", table=rest.table)

    return made


async def rows_without_partition(connection: PostgresConnection) -> Sequence[str]:
    """Return a sentence for each table with rows in the partition for the rest."""
    found: list[str] = []
    for table in PARTITIONED_TABLES:
        rest = (await list_partitions(connection, table.name))[-1].name
        ((count, size),) = await fetch_rows(
            connection,
            f"SELECT count(*), pg_size_pretty(pg_table_size('{rest}'::regclass)) FROM {rest}",
        )
        if count:
            found.append(
                f"rows of {table.name} without a partition of their time, in {rest}: "
                f"{count} ({size})"
            )

    return found


async def drop_partition(connection: PostgresConnection, partition: Partition) -> bool:
    """Drop a partition with its rows; return False while somebody uses the table: then try again
    later."""
    try:
        async with connection.transaction():
            await _limit_waits(connection)
            await connection.execute(f'DROP TABLE IF EXISTS "{partition.name}"'.encode())
    except psycopg.errors.LockNotAvailable:
        return False

    return True


async def _make_partition(
    connection: PostgresConnection, wanted: Partition, rest: Partition
) -> Sequence[Partition]:
    """Make a partition, with the rows that are in the one for the rest meanwhile; where there are
    too many, of the end of its time that the newest of them are in. Return it, unless another
    process is at it."""
    async with connection.transaction():
        await _limit_waits(connection)
        ((is_ours,),) = await fetch_rows(
            connection, "SELECT pg_try_advisory_xact_lock(%s, %s)", *_MAINTENANCE_LOCK
        )
        if not is_ours:
            return ()

        # Another process may have made it since this one has looked.
        existing = await list_partitions(connection, wanted.table)
        if any(_overlap(partition, wanted) for partition in existing if not partition.is_default):
            return ()

        # 1. From when on its rows are few enough to be moved while others wait.
        rows = f"{rest.name} WHERE at < {wanted.end} AND at >="
        left = await fetch_rows(
            connection,
            f"SELECT at + 1 FROM {rows} %s ORDER BY at DESC OFFSET {MOVED_ROWS_MAX} LIMIT 1",
            wanted.begin,
        )
        if left:
            made = _narrowed(wanted, Instant(left[0][0]))
        else:
            made = wanted

        if made.begin == made.end:
            return ()

        # 2. A table of its own, which nobody waits for.
        await connection.execute(
            f"CREATE TABLE {made.name} (LIKE {made.table} INCLUDING DEFAULTS)".encode()
        )
        await connection.execute(
            f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_MS}ms'".encode()
        )
        # 3. From the lock on others wait: move the rows, and attach it.
        await connection.execute(f"LOCK TABLE {rest.name}".encode())
        ((has_rows,),) = await fetch_rows(
            connection, f"SELECT EXISTS (SELECT 1 FROM {rows} %s)", made.begin
        )
        if has_rows:
            move = (
                f"WITH moved AS (DELETE FROM {rows} {made.begin} RETURNING *) INSERT INTO "
                f"{made.name} TABLE moved"
            )
            await connection.execute(move.encode())

        bounds = f"FROM ({made.begin}) TO ({made.end})"
        await connection.execute(
            f"ALTER TABLE {made.table} ATTACH PARTITION {made.name} FOR VALUES {bounds}".encode()
        )

    return (made,)


async def _limit_waits(connection: PostgresConnection) -> None:
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_MS}ms'".encode())


def _parse_partition(table: str, name: str, bounds: str) -> Partition:
    if found := _RANGE.fullmatch(bounds):
        begin, end = (_parse_bound(group) for group in found.groups())
        return Partition(table, name, begin, end)
    return Partition(table, name, None, None, is_default=True)


def _parse_bound(bound: str) -> Instant | None:
    if bound in {"MINVALUE", "MAXVALUE"}:
        return None
    return Instant(int(bound.strip("'")))


@frozen(kw_only=True)
class PostgresRetentionStore(RetentionStore):
    """See :class:`mmo_trio.storage.sql.retention.RetentionStore`."""

    run: RunCall

    async def age(
        self, duty: RetentionDuty, before: Instant, position: str, *, limit: int
    ) -> RetentionStep:
        """Drop the oldest partition of callbacks' bodies; what is not in one of its own is removed
        row by row, and so is what somebody reads."""
        if duty is RetentionDuty.CALLBACK_BODIES:
            dropped = await self.run(partial(_drop_oldest_bodies, before=before))
            if dropped is not None:
                return RetentionStep(dropped, position, is_last=False)
        return await super().age(duty, before, position, limit=limit)


async def _drop_oldest_bodies(connection: PostgresConnection, before: Instant) -> int | None:
    """Return some number of the rows of the partition that was dropped; None when there is none to
    drop now."""
    for partition in await partitions_before(connection, "callback_bodies", before):
        # It has no row there when another process has dropped it meanwhile.
        counted = await fetch_rows(
            connection,
            "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass(%s)",
            partition.name,
        )
        if counted and await drop_partition(connection, partition):
            return int(counted[0][0])

    return None
