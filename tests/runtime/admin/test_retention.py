"""Old rows are masked and removed, and what a file or a dump holds of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mmo_sansio.values.clock import DAY
from mmo_trio.admin.retention import RetentionPace, RetentionRun
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore, open_sqlite
from tests.conformance.driver import NOON
from tests.support.aged_payments import NOW, pay

# isort: split
import psycopg

pytestmark = pytest.mark.long

PAYMENTS = 12


async def run_once(store: Store) -> None:
    """Do one run, without pauses."""
    pace = RetentionPace(store.retention, share=1)
    assert await pace.begin()
    try:
        await RetentionRun(
            store.retention, RetentionSection(), pace, lambda duty, changed: None
        ).run(NOW)
    finally:
        await pace.end()


def move_bodies_to_a_partition(database: str) -> None:
    """Put the bodies of the payments into a partition of their time, as if it had been made ahead
    of it."""
    begin = NOON // DAY * DAY
    with psycopg.connect(database) as connection:
        connection.execute(
            f"CREATE TABLE old_bodies (LIKE callback_bodies);"
            f"WITH moved AS (DELETE FROM callback_bodies RETURNING *) INSERT INTO old_bodies "
            f"SELECT * FROM moved;"
            f"ALTER TABLE callback_bodies ATTACH PARTITION old_bodies"
            f" FOR VALUES FROM ({begin}) TO ({begin + 3 * DAY})".encode()
        )


def rows_of(database: str) -> dict[str, int]:
    """Return how many rows each table of payments has, and whether the old partition is there."""
    tables = ("journal", "callbacks", "callback_bodies", "transactions")
    with psycopg.connect(database) as connection:
        counted = {
            each: connection.execute(f"SELECT count(*) FROM {each}".encode()).fetchone()
            for each in tables
        }
        partition = connection.execute("SELECT count(to_regclass('old_bodies'))").fetchone()
    return {
        name: row[0]
        for name, row in {**counted, "old_bodies": partition}.items()
        if row is not None
    }


async def test_the_partition_of_old_bodies_is_dropped(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        await pay(store, 1, PAYMENTS)
    move_bodies_to_a_partition(database)
    assert rows_of(database)["callback_bodies"] == PAYMENTS
    async with open_postgres(database, serving=True) as store:
        await run_once(store)
    assert rows_of(database) == {
        "journal": 4 * PAYMENTS,
        "callbacks": PAYMENTS,
        "callback_bodies": 0,
        "transactions": PAYMENTS,
        "old_bodies": 0,
    }


async def test_a_long_snapshot_neither_stops_retention_nor_is_stopped(database: str) -> None:
    """A dump reads all tables in one snapshot: what it reads stays for it, and is removed row by
    row meanwhile."""
    async with open_postgres(database, serving=True) as store:
        await pay(store, 1, PAYMENTS)
    move_bodies_to_a_partition(database)
    with psycopg.connect(database) as dump:
        dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert dump.execute("SELECT count(*) FROM callback_bodies").fetchone() == (PAYMENTS,)
        dump.execute("LOCK TABLE journal, callbacks, transactions IN ACCESS SHARE MODE")
        async with open_postgres(database, serving=True) as store:
            await run_once(store)
        assert dump.execute("SELECT count(*) FROM transactions").fetchone() == (PAYMENTS,)
        assert dump.execute("SELECT count(*) FROM callback_bodies").fetchone() == (PAYMENTS,)
        assert rows_of(database) == {
            "journal": 4 * PAYMENTS,
            "callbacks": PAYMENTS,
            "callback_bodies": 0,
            "transactions": PAYMENTS,
            "old_bodies": 1,
        }


async def test_no_byte_of_a_masked_person_is_left_in_the_file(tmp_path: Path) -> None:
    """SQLite overwrites what it removes, and its log is empty once the gateway has stopped."""
    path = tmp_path / "gateway.db"
    secrets = (b"254700000000", b"customer-1", b"zoe@example.com", "Zoë".encode(), b"Zo\\u00eb")
    async with open_sqlite(path, serving=True) as store:
        await pay(store, 1, PAYMENTS)
        assert isinstance(store, SqliteStore)
    assert any(each in path.read_bytes() for each in secrets)
    async with open_sqlite(path, serving=True) as store:
        await run_once(store)
    assert _found_in_files(tmp_path, secrets) == []


def _found_in_files(folder: Path, secrets: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return which of these bytes are in the files of a folder: the database, and its log if there
    is one."""
    return [
        (file.name, each)
        for file in folder.iterdir()
        for each in secrets
        if each in file.read_bytes()
    ]
