"""The write-ahead log of SQLite stays below a bound while reads overlap without a gap."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator
from itertools import count

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mmo_sansio.values.clock import Span
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.statements import execute
from mmo_trio.storage.sqlite import open_files, open_sqlite
from mmo_trio.storage.sqlite.store import SqliteStore
from tests.support.sqlite_store import StoreFile
from tests.support.time_limits import HANGS_AFTER_S

BOUND_BYTES = 400_000
NUMBERS = count()
WITHOUT_END = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
)


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    monkeypatch.setattr(open_files, "LOG_BYTES_MAX", BOUND_BYTES)
    file = StoreFile()
    async with open_sqlite(file.path, serving=True) as store:
        await fill(store, BOUND_BYTES // 4)  # The log is long enough to be cut.
        yield store


async def fill(store: SqliteStore, length: int) -> None:
    """Let the log grow by some bytes more than that."""
    statement = (
        "INSERT INTO callback_bodies (brand, gateway_reference, at, body) VALUES (?, ?, 0, ?)"
    )
    reference = f"{next(NUMBERS)}"
    await store._write_query(lambda: execute(statement, "acme", reference, bytes(length)))


async def read_once(store: SqliteStore) -> None:
    assert await store._read(lambda c: c.execute("SELECT 1").fetchone()) == (1,)


async def test_a_long_log_is_emptied_between_reads_that_overlap(store: SqliteStore) -> None:
    begun, first_ends, seen = threading.Event(), threading.Event(), list[str]()

    async def read(name: str, ends: threading.Event) -> None:
        def hold(connection: sqlite3.Connection) -> None:
            connection.execute("SELECT count(*) FROM callback_bodies").fetchall()
            seen.append(f"{name} begins")
            begun.set()
            ends.wait(HANGS_AFTER_S)

        await store._read(hold)
        seen.append(f"{name} ends")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, "first", first_ends)
        await trio.to_thread.run_sync(begun.wait)
        await fill(store, BOUND_BYTES)
        assert store._log_bound.log_bytes > BOUND_BYTES

        second_ends = threading.Event()
        second_ends.set()
        nursery.start_soon(read, "second", second_ends)
        await wait_all_tasks_blocked(0.05)
        assert seen == ["first begins"]
        first_ends.set()
    assert "second ends" in seen

    await fill(store, BOUND_BYTES // 4)
    assert store._log_bound.log_bytes < BOUND_BYTES  # It was begun anew.


async def test_a_read_that_lasts_is_broken_off_when_the_log_is_long(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "READS_END_WITHIN", Span(0))
    begun = threading.Event()

    async def read_without_end() -> None:
        def search(connection: sqlite3.Connection) -> None:
            connection.execute("SELECT count(*) FROM callback_bodies").fetchall()
            begun.set()
            connection.execute(WITHOUT_END).fetchall()

        with pytest.raises(StoreUnavailable, match="interrupted"):
            await store._read(search)

    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_without_end)
            await trio.to_thread.run_sync(begun.wait)
            await fill(store, BOUND_BYTES)
        await read_once(store)


async def test_a_log_that_another_process_holds_keeps_no_read_waiting(store: SqliteStore) -> None:
    other = sqlite3.connect(store._path, isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM callback_bodies").fetchall()
    with trio.fail_after(HANGS_AFTER_S):
        for _ in range(4):
            await fill(store, BOUND_BYTES)
            await read_once(store)
    other.close()


async def test_a_log_that_cannot_be_emptied_takes_no_commit_back(store: SqliteStore) -> None:
    def refuse() -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    store._log_bound.connect = refuse
    for _ in range(2):
        await fill(store, BOUND_BYTES)
        await read_once(store)
    assert store._log_bound.log_bytes > 2 * BOUND_BYTES
