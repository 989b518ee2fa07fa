"""Removes what is too old from PostgreSQL: whole partitions where that is possible."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.retention import RetentionDuty, RetentionStep
from mmo_trio.storage.postgres.connection_pool import RunCall
from mmo_trio.storage.postgres.partitions import drop_partition, partitions_before
from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.retention import RetentionStore


@frozen(kw_only=True)
class PostgresRetentionStore(RetentionStore):
    """See :class:`mmo_trio.storage.sql.retention.RetentionStore`."""

    run: RunCall

    async def age(self, duty: RetentionDuty, before: Instant, position: str, *, limit: int) -> RetentionStep:
        """Drop the oldest partition of callbacks' bodies; what is not in one of its own is removed row by row, and so
        is what somebody reads."""
        if duty is RetentionDuty.CALLBACK_BODIES:
            dropped = await self.run(partial(_drop_oldest_bodies, before=before))
            if dropped is not None:
                return RetentionStep(dropped, position, is_last=False)
        return await super().age(duty, before, position, limit=limit)


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
