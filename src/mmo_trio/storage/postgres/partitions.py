"""The partitions of tables whose rows only age: makes them ahead of their time, and drops them when they are too old.

Each table is divided by its column `at`. A partition for all that has none of its own is always there, so an insert
never fails for the lack of one. Both to attach and to drop a partition need a lock that waits for every reader of the
table, such as a dump, and that others would wait behind: so each attempt gives up after LOCK_TIMEOUT_MS, and is made
again later. Partitions are made so early that there is time for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import Enum

import psycopg
import structlog
from attrs import frozen

from mmo_sansio.values.clock import Instant, from_datetime, to_datetime
from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection

logger = structlog.get_logger(__name__)

LOCK_TIMEOUT_MS = 100
"""How long an attempt may wait, and others behind it."""

MOVED_ROWS_MAX = 10_000
"""Rows that are moved out of the partition for the rest while others wait; where there are more, they stay."""

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
    PartitionedTable("callback_bodies", PartitionSpan.DAY, ahead=7),
)


def partition_at(table: PartitionedTable, at: Instant) -> Partition:
    """Return the partition that this instant falls into: a day or a month in UTC."""
    moment = to_datetime(at).replace(hour=0, minute=0, second=0, microsecond=0)
    if table.span is PartitionSpan.DAY:
        begin, end, name = moment, moment + timedelta(days=1), f"{moment:%Y_%m_%d}"
    else:
        begin = moment.replace(day=1)
        end, name = (begin + timedelta(days=31)).replace(day=1), f"{moment:%Y_%m}"
    return Partition(table.name, f"{table.name}_{name}", from_datetime(begin), from_datetime(end))


def missing_partitions(table: PartitionedTable, existing: Iterable[Partition], now: Instant) -> Sequence[Partition]:
    """Return those of the present partition and the ones ahead of it that overlap with none that is there."""
    known = [each for each in existing if not each.is_default]
    missing: list[Partition] = []
    at = now
    for _ in range(table.ahead + 1):
        wanted = partition_at(table, at)
        assert wanted.begin is not None
        assert wanted.end is not None
        if not any(
            (each.begin is None or each.begin < wanted.end) and (each.end is None or each.end > wanted.begin)
            for each in known
        ):
            missing.append(wanted)
        at = wanted.end
    return missing


async def list_partitions(connection: PostgresConnection, table: str) -> Sequence[Partition]:
    """Return the partitions of a table, the oldest first and the one for the rest last."""
    rows = await fetch_rows(connection, _SELECT_PARTITIONS, table)
    found = [_parse_partition(table, name, bounds) for name, bounds in rows]
    return sorted(found, key=lambda each: (each.is_default, each.begin or 0, each.name))


async def partitions_before(connection: PostgresConnection, table: str, instant: Instant) -> Sequence[Partition]:
    """Return the partitions of a table whose rows are all before this instant, the oldest first."""
    found = await list_partitions(connection, table)
    return [each for each in found if each.end is not None and each.end <= instant]


async def maintain_partitions(connection: PostgresConnection) -> None:
    """Make the partitions that are needed soon, by the server's clock."""
    ((now,),) = await fetch_rows(connection, _SELECT_NOW)
    await ensure_partitions(connection, Instant(now))


async def ensure_partitions(connection: PostgresConnection, now: Instant) -> Sequence[Partition]:
    """Make the partitions for this instant and the time after it, and return those that were made.

    What can't be made now, as somebody reads the table or another process is at it, is left to the next call.
    """
    made: list[Partition] = []
    for table in PARTITIONED_TABLES:
        existing = await list_partitions(connection, table.name)
        rest = next(each for each in existing if each.is_default)
        for partition in missing_partitions(table, existing, now):
            try:
                if await _make_partition(connection, partition, rest):
                    made.append(partition)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.CheckViolation) as error:
                logger.info("partition_postponed", partition=partition.name, error=type(error).__name__)
                break
            except psycopg.errors.InsufficientPrivilege:
                logger.warning("partition_refused", partition=partition.name)
                return made
    return made


async def drop_partition(connection: PostgresConnection, partition: Partition) -> bool:
    """Drop a partition with its rows; return False when somebody uses the table: then try again later."""
    try:
        async with connection.transaction():
            await _limit_waits(connection)
            await connection.execute(f'DROP TABLE IF EXISTS "{partition.name}"'.encode())
    except psycopg.errors.LockNotAvailable:
        return False
    return True


async def _make_partition(connection: PostgresConnection, partition: Partition, rest: Partition) -> bool:
    """Make a partition, with the rows that are in the one for the rest meanwhile; return False when another process is
    at it, or there are too many rows."""
    async with connection.transaction():
        await _limit_waits(connection)
        ((is_ours,),) = await fetch_rows(connection, "SELECT pg_try_advisory_xact_lock(%s, %s)", *_MAINTENANCE_LOCK)
        if not is_ours:
            return False
        await connection.execute(f"CREATE TABLE {partition.name} (LIKE {partition.table} INCLUDING DEFAULTS)".encode())
        await connection.execute(f"LOCK TABLE {rest.name}".encode())
        await _move_rows(connection, rest, partition)
        await connection.execute(
            f"ALTER TABLE {partition.table} ATTACH PARTITION {partition.name}"
            f" FOR VALUES FROM ({partition.begin}) TO ({partition.end})".encode()
        )
    return True


async def _move_rows(connection: PostgresConnection, rest: Partition, partition: Partition) -> None:
    """Move the rows of a new partition out of the one for the rest. Raises CheckViolation when there are too many."""
    rows = f"{rest.name} WHERE at >= {partition.begin} AND at < {partition.end}"
    ((count,),) = await fetch_rows(
        connection, f"SELECT count(*) FROM (SELECT 1 FROM {rows} LIMIT %s) AS found", MOVED_ROWS_MAX + 1
    )
    if count > MOVED_ROWS_MAX:
        raise psycopg.errors.CheckViolation
    if count:
        await connection.execute(
            f"WITH moved AS (DELETE FROM {rows} RETURNING *) INSERT INTO {partition.name} SELECT * FROM moved".encode()
        )


async def _limit_waits(connection: PostgresConnection) -> None:
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_MS}ms'".encode())


def _parse_partition(table: str, name: str, bounds: str) -> Partition:
    if found := _RANGE.fullmatch(bounds):
        begin, end = (_parse_bound(each) for each in found.groups())
        return Partition(table, name, begin, end)
    return Partition(table, name, None, None, is_default=True)


def _parse_bound(bound: str) -> Instant | None:
    return None if bound in {"MINVALUE", "MAXVALUE"} else Instant(int(bound.strip("'")))
