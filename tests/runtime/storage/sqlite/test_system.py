"""What the store on SQLite takes from the system: connections, threads and a clock."""

from __future__ import annotations

import sqlite3
import threading
from itertools import count
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sqlite import open_sqlite
from mmo_trio.storage.sqlite.connection import SqliteSystem, connect
from tests.conformance.driver import create_payments
from tests.support.sqlite_store import STARTED_AT, StoreFile, TrioClock
from tests.support.time_limits import HANGS_AFTER_S


async def test_the_store_records_the_time_of_its_clock(autojump_clock: MockClock) -> None:
    async with StoreFile().open() as store:
        await trio.sleep(7)
        await create_payments(store, [1])
        assert store.raised_state is not None
        assert store.raised_state.mark.raised_at == STARTED_AT + 7 * SECOND
        await trio.sleep(0.5)
        await create_payments(store, [2])
        assert store.raised_state.mark.epoch == 1, "a second has not passed"
        await trio.sleep(0.5)
        await create_payments(store, [3])
        assert store.raised_state.mark.epoch == 2


async def test_a_closed_store_leaves_no_thread(tmp_path: Path) -> None:
    """Each has a way back of two sockets: a program that opens stores again and again would run out
    of descriptors."""
    before = set(threading.enumerate())
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await create_payments(store, [1])
        await store.state()
    threads = [each for each in threading.enumerate() if each.name.startswith("SQLite")]
    for thread in set(threads) - before:
        thread.join(HANGS_AFTER_S)
        assert not thread.is_alive()


async def test_a_lease_of_the_retention_ends_by_the_clock_of_the_store(
    autojump_clock: MockClock,
) -> None:
    async with StoreFile().open() as store:
        assert await store.retention.take_lease("one", Span(60 * SECOND))
        await trio.sleep(59)
        assert not await store.retention.take_lease("two", Span(60 * SECOND))
        await trio.sleep(2)
        assert await store.retention.take_lease("two", Span(60 * SECOND))


async def test_a_read_that_takes_too_long_is_ended_by_the_clock_of_the_store() -> None:
    class Hurrying(TrioClock):
        def monotonic(self) -> MonotonicInstant:
            return MonotonicInstant(60 * SECOND * next(minutes))

    minutes = count()
    async with StoreFile().open(clock=Hurrying()) as store:
        endless = (
            "WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless) SELECT "
            "max(n) FROM endless"
        )
        with pytest.raises(StoreUnavailable, match="interrupted"):
            await store._fetch(lambda rows: rows, endless)


async def test_calls_at_once_leave_no_time_for_the_clock_to_jump(autojump_clock: MockClock) -> None:
    file, threads = StoreFile(), set(threading.enumerate())
    async with file.open() as store:
        for number in range(20):
            await create_payments(store, [number])
            await store.next_wake()
    async with file.open() as again:
        assert len(await again.claim_abandoned(limit=100)) == 20
    assert trio.current_time() == 0
    assert set(threading.enumerate()) <= threads


async def test_every_connection_of_a_store_opens_in_one_way(tmp_path: Path) -> None:
    opened: list[bool] = []

    def connect_and_note(path: Path, *, query_only: bool = False) -> sqlite3.Connection:
        opened.append(query_only)
        return connect(path, query_only=query_only)

    async with open_sqlite(
        tmp_path / "gateway.db", serving=True, system=SqliteSystem(connect_and_note)
    ) as store:
        await store.next_wake()
        assert await store.integrity_errors() == []
        assert opened == [False, True, True]
