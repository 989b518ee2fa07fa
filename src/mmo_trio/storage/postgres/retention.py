"""Removes what is too old from PostgreSQL: whole partitions where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import frozen

from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.retention import ArchivedHistory, ArchivedPayment, RetentionDuty, RetentionStep
from mmo_trio.storage.postgres.connection_pool import RunCall
from mmo_trio.storage.postgres.partitions import Partition, drop_partition, list_partitions, partitions_before
from mmo_trio.storage.postgres.queries import fetch_rows, run_statement
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql import archivable
from mmo_trio.storage.sql.aging import Forget
from mmo_trio.storage.sql.archivable import JOURNAL_COLUMNS, SUSPENSE_POSITION, without_payment
from mmo_trio.storage.sql.retention_store import SqlRetentionStore
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import SqlQuery, execute, run_query_async

PAGES_AT_ONCE = 32
"""Pages of the journal (8 KiB) that one step reads."""


@frozen(kw_only=True)
class PostgresRetentionStore(SqlRetentionStore):
    """See :class:`mmo_trio.storage.interface.retention.RetentionStore`."""

    run: RunCall
    is_distributed: bool

    async def age(self, duty: RetentionDuty, before: Instant, position: str, *, limit: int) -> RetentionStep:
        """Drop the oldest partition of callbacks' bodies; what is not in one of its own is removed row by row, and so
        is what somebody reads."""
        if duty is RetentionDuty.CALLBACK_BODIES:
            dropped = await self.run(partial(_drop_oldest_bodies, before=before))
            if dropped is not None:
                return RetentionStep(dropped, position, is_last=False)
        return await super().age(duty, before, position, limit=limit)

    async def remove_archived(
        self, payments: Sequence[ArchivedPayment], *, masks_claims: bool, is_durable: bool
    ) -> int:
        """Unless it is to be durable, commit without a wait for the disk, so that those who need it don't wait for this
        either."""
        return await self.write(
            lambda: _remove_payments(self.schema, payments, self.forget, masks_claims, is_durable=is_durable)
        )

    async def archivable_history(
        self, before: Instant, position: str, *, limit: int
    ) -> tuple[ArchivedHistory, str | None]:
        """Walk over the old partitions of the journal, which has no index by time, page by page; over its lines where
        they are distributed, as pages are in the shards."""
        if self.is_distributed or position.startswith(SUSPENSE_POSITION):
            return await super().archivable_history(before, position, limit=limit)
        return await self.run(partial(_archivable_lines, before=before, position=position))

    async def release_space(self, before: Instant) -> None:
        """Drop the old partitions that have become empty."""
        await self.run(partial(_drop_empty_partitions, before=before))


def _remove_payments(
    schema: SqlSchema, payments: Sequence[ArchivedPayment], forget: Forget, masks_claims: bool, *, is_durable: bool
) -> SqlQuery[int]:
    if not is_durable:
        yield from execute("SET LOCAL synchronous_commit TO off")
    return (yield from archivable.remove_archived(schema, payments, forget, masks_claims=masks_claims))


async def _drop_oldest_bodies(connection: PostgresConnection, before: Instant) -> int | None:
    """Return some number of the rows of the partition that was dropped; None when there is none to drop now."""
    for partition in await partitions_before(connection, "callback_bodies", before):
        ((rows,),) = await fetch_rows(
            connection,
            "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass(%s)",
            partition.name,
        )
        if await drop_partition(connection, partition):
            return int(rows)
    return None


async def _archivable_lines(
    connection: PostgresConnection, before: Instant, position: str
) -> tuple[ArchivedHistory, str | None]:
    """Return lines of some pages whose payment is not stored. A position is a partition and a page in it."""
    begun, _, page = position.partition("/")
    old = [each for each in await list_partitions(connection, "journal") if _may_hold(each, before)]
    names = [each.name for each in old]
    at = names.index(begun) if begun in names else 0
    if at == len(names):
        return ArchivedHistory(), SUSPENSE_POSITION
    name, first = names[at], int(page or 0) if begun in names else 0
    ((size,),) = await fetch_rows(
        connection, "SELECT pg_relation_size(to_regclass(%s)) / current_setting('block_size')::integer", name
    )
    end = first + PAGES_AT_ONCE
    rows = await fetch_rows(
        connection,
        f"SELECT id, {JOURNAL_COLUMNS} FROM {name} WHERE ctid >= '({first},0)' AND ctid < '({end},0)' AND at < %s",
        before,
    )
    lines = await run_query_async(
        without_payment([(row[0], JournalEntry(*row[1:])) for row in rows]), partial(run_statement, connection)
    )
    if end < size:
        return ArchivedHistory(lines), f"{name}/{end}"
    return ArchivedHistory(lines), f"{names[at + 1]}/0" if at + 1 < len(names) else SUSPENSE_POSITION


def _may_hold(partition: Partition, before: Instant) -> bool:
    return partition.is_default or partition.begin is None or partition.begin < before


async def _drop_empty_partitions(connection: PostgresConnection, before: Instant) -> None:
    for table in ("journal", "callbacks"):
        for partition in await partitions_before(connection, table, before):
            ((is_used,),) = await fetch_rows(connection, f"SELECT EXISTS (SELECT FROM {partition.name})")
            if not is_used:
                await drop_partition(connection, partition, if_empty=True)
