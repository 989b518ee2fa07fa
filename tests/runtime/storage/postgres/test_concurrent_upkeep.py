"""Two processes keep the same tables at once: what one has found to do, the other may have done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio

from mmo_sansio.values.clock import DAY, Span, later
from mmo_trio.storage.interface.retention import RetentionDuty
from mmo_trio.storage.postgres import open_postgres, partitions
from mmo_trio.storage.postgres.partitions import (
    Partition,
    drop_partition,
    ensure_partitions,
    list_partitions,
    partitions_before,
)
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, open_connection
from mmo_trio.system.clock import GatewayClock
from tests.support.time_limits import HANGS_AFTER_S

ListPartitions = Callable[[PostgresConnection, str], Awaitable[Sequence[Partition]]]


def overtaken(
    other: Callable[[PostgresConnection], Awaitable[object]], database: str
) -> ListPartitions:
    """Return a `list_partitions` after whose first answer another process does its upkeep."""
    is_first = True

    async def list_then_wait(connection: PostgresConnection, table: str) -> Sequence[Partition]:
        nonlocal is_first
        found = await list_partitions(connection, table)
        if is_first:
            is_first = False
            async with await open_connection(database) as another:
                await other(another)
        return found

    return list_then_wait


async def test_partitions_that_another_process_has_made_meanwhile_are_left_to_it(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = later(GatewayClock().wall_time(), Span(400 * DAY))
    made_by_other: list[Partition] = []

    async def make(connection: PostgresConnection) -> None:
        made_by_other.extend(await ensure_partitions(connection, now))

    monkeypatch.setattr(partitions, "list_partitions", overtaken(make, migrated_database))
    with trio.fail_after(HANGS_AFTER_S):
        async with await open_connection(migrated_database) as connection:
            assert not await ensure_partitions(connection, now)
    assert made_by_other


async def test_a_partition_that_another_process_has_dropped_meanwhile_is_passed_over(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = later(GatewayClock().wall_time(), Span(3 * DAY))

    async def drop_oldest(connection: PostgresConnection) -> None:
        oldest, *_ = await partitions_before(connection, "callback_bodies", before)
        assert await drop_partition(connection, oldest)

    async def names(connection: PostgresConnection) -> Sequence[str]:
        found = await list_partitions(connection, "callback_bodies")
        return [each.name for each in found]

    with trio.fail_after(HANGS_AFTER_S):
        async with (
            open_postgres(migrated_database, serving=False) as store,
            await open_connection(migrated_database) as connection,
        ):
            _, _, *left = await names(connection)
            dropped_first = overtaken(drop_oldest, migrated_database)
            monkeypatch.setattr(partitions, "list_partitions", dropped_first)
            step = await store.retention.age(RetentionDuty.CALLBACK_BODIES, before, "", limit=100)
            assert not step.is_last
            assert await names(connection) == left
