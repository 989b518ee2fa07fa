"""Tables whose rows only age are divided by time: partitions are made ahead, and dropped with their
rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
import trio

from mmo_sansio.messages.replies import Accepted, Reply
from mmo_sansio.values.clock import DAY, MINUTE, Instant, Span, from_datetime, later
from mmo_trio.storage.postgres import open_postgres, partitions
from mmo_trio.storage.postgres.partitions import (
    PARTITIONED_TABLES,
    Partition,
    drop_partition,
    ensure_partitions,
    ensure_past_partitions,
    list_partitions,
    missing_partitions,
    partition_at,
    partitions_before,
)
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, open_connection
from mmo_trio.system.clock import GatewayClock
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import creation

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

T = TypeVar("T")
_WAITING = (
    "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'journal_default'::regclass"
)
JOURNAL, CALLBACKS, BODIES = PARTITIONED_TABLES


def instant(year: int, month: int, day: int, hour: int = 0) -> Instant:
    """The beginning of a day in UTC, or a moment of it."""
    return from_datetime(datetime(year, month, day, hour, tzinfo=UTC))


async def call(database: str, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Call a function of the store with a connection of its own."""

    with trio.fail_after(HANGS_AFTER_S):
        async with await open_connection(database) as connection:
            return await work(connection, *arguments)


async def migrate(database: str) -> None:
    """Bring an empty database to the present schema."""
    async with open_postgres(database, serving=False):
        pass


def write_lines(database: str, *times: Instant) -> None:
    """Add a line to the journal at each of these times."""
    with psycopg.connect(database) as connection:
        for at in times:
            connection.execute(
                "INSERT INTO journal (brand, at, what, actor, detail) VALUES ('acme', %s, 'x', "
                "'clock', '')",
                (at,),
            )


def lines_by_partition(database: str) -> dict[str, int]:
    """Count the lines of the journal in each partition that has any."""
    with psycopg.connect(database) as connection:
        return dict(
            connection.execute(
                "SELECT tableoid::regclass::text, count(*) FROM journal GROUP BY 1"
            ).fetchall()
        )


def test_a_partition_is_a_day_or_a_month_in_utc() -> None:
    at = instant(2027, 12, 31, 23)
    assert partition_at(JOURNAL, at) == Partition(
        "journal", "journal_2027_12", instant(2027, 12, 1), instant(2028, 1, 1)
    )
    assert partition_at(BODIES, at) == Partition(
        "callback_bodies", "callback_bodies_2027_12_31", instant(2027, 12, 31), instant(2028, 1, 1)
    )
    assert partition_at(JOURNAL, instant(2028, 2, 29)).end == instant(2028, 3, 1)


def test_partitions_are_missing_where_none_overlaps() -> None:
    now = instant(2027, 1, 31)
    first = Partition("journal", "journal_first", None, instant(2027, 2, 1))
    rest = Partition("journal", "journal_default", None, None, is_default=True)
    names = [each.name for each in missing_partitions(JOURNAL, [first, rest], now)]
    assert names == ["journal_2027_02", "journal_2027_03"]
    endless = Partition("journal", "journal_first", None, instant(2999, 1, 1))
    assert not missing_partitions(JOURNAL, [endless, rest], now)


async def test_partitions_are_made_ahead_and_once(database: str) -> None:
    await migrate(database)
    now = instant(2030, 5, 17)
    made = await call(database, ensure_partitions, now)
    assert [each.name for each in made if each.table == "journal"] == [
        "journal_2030_05",
        "journal_2030_06",
        "journal_2030_07",
    ]
    assert len([each for each in made if each.table == "callback_bodies"]) == BODIES.ahead + 1
    assert not await call(database, ensure_partitions, now)
    assert len(await call(database, ensure_partitions, later(now, DAY))) == 1
    listed: Sequence[Partition] = await call(database, list_partitions, "journal")
    assert listed[-1].name == "journal_default"
    write_lines(database, now, instant(2040, 1, 1))
    assert lines_by_partition(database) == {"journal_2030_05": 1, "journal_default": 1}


async def test_rows_that_came_before_their_partition_are_moved_into_it(database: str) -> None:
    await migrate(database)
    now = instant(2030, 5, 17)
    write_lines(database, now, instant(2030, 6, 1), instant(2040, 1, 1))
    assert lines_by_partition(database) == {"journal_default": 3}
    await call(database, ensure_partitions, now)
    assert lines_by_partition(database) == {
        "journal_2030_05": 1,
        "journal_2030_06": 1,
        "journal_default": 1,
    }


async def test_old_partitions_are_dropped_with_their_rows(database: str) -> None:
    await migrate(database)
    now = instant(2030, 5, 17)
    await call(database, ensure_partitions, now)
    write_lines(database, now, instant(2030, 6, 1))
    found: Sequence[Partition] = await call(
        database, partitions_before, "journal", instant(2030, 6, 1)
    )
    assert found[-1].name == "journal_2030_05"
    assert "journal_2030_06" not in [each.name for each in found]
    for each in found:
        assert await call(database, drop_partition, each)
    assert lines_by_partition(database) == {"journal_2030_06": 1}
    assert not await call(database, partitions_before, "journal", instant(2030, 6, 1))


async def test_a_reader_of_the_table_postpones_and_nobody_waits_behind(database: str) -> None:
    """A dump reads every table for hours: both attempts give up, and a later one succeeds."""
    await migrate(database)
    now = instant(2030, 5, 17)
    with psycopg.connect(database) as dump:
        dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        dump.execute("LOCK TABLE journal, callbacks, callback_bodies IN ACCESS SHARE MODE")
        assert not await call(database, ensure_partitions, now)
        first, *_ = await call(database, partitions_before, "journal", now)
        assert not await call(database, drop_partition, first)
        write_lines(database, now)
    assert await call(database, drop_partition, first)
    assert await call(database, ensure_partitions, now)
    assert lines_by_partition(database) == {"journal_2030_05": 1}


async def test_a_user_who_does_not_own_the_tables_leaves_rows_in_the_partition_for_the_rest(
    database: str,
) -> None:
    await migrate(database)
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(
            "DO $$ BEGIN CREATE ROLE mmo_limited LOGIN; EXCEPTION WHEN duplicate_object THEN END $$"
        )
        owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO mmo_limited")

    async def ensure_as_limited(connection: PostgresConnection) -> Sequence[Partition]:
        await connection.execute("SET ROLE mmo_limited")
        return await ensure_partitions(connection, instant(2030, 5, 17))

    assert not await call(database, ensure_as_limited)


async def test_partitions_that_were_missed_are_made_however_many_rows_came_meanwhile(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest rows get a partition at once, so no more are added to the others, which follow bit
    by bit."""
    monkeypatch.setattr(partitions, "MOVED_ROWS_MAX", 10)
    await migrate(database)
    now = instant(2030, 5, 17)
    write_lines(database, *(later(now, Span(-nth * MINUTE)) for nth in range(35)))
    made = await call(database, ensure_partitions, now)
    assert [each.name for each in made if each.table == "journal" and (each.begin or 0) >= now] == [
        "journal_2030_06",
        "journal_2030_07",
    ]
    write_lines(database, later(now, Span(MINUTE)))
    left = lines_by_partition(database)["journal_default"]
    assert left == 25
    while left:
        assert await call(database, ensure_past_partitions, now)
        before, left = left, lines_by_partition(database).get("journal_default", 0)
        assert before - left <= 10
    assert sum(lines_by_partition(database).values()) == 36
    assert not await call(database, ensure_past_partitions, now)


async def test_rows_of_past_months_leave_the_partition_for_the_rest(database: str) -> None:
    await migrate(database)
    now = instant(2030, 5, 17)
    await call(database, ensure_partitions, now)
    write_lines(database, instant(2029, 3, 2), instant(2029, 3, 30), instant(2029, 11, 5))
    await call(database, ensure_past_partitions, now)
    await call(database, ensure_past_partitions, now)
    assert lines_by_partition(database) == {"journal_2029_03": 2, "journal_2029_11": 1}


async def test_what_others_wait_behind_has_a_deadline(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(database)
    now = instant(2030, 5, 17)
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO journal (brand, at, what, actor, detail)"
            " SELECT 'acme', %s, 'x', 'clock', repeat('x', 100) FROM generate_series(1, 100000)",
            (instant(2040, 1, 1),),
        )
    monkeypatch.setattr(partitions, "STATEMENT_TIMEOUT_MS", 1)
    made = await call(database, ensure_partitions, now)
    assert not [each for each in made if each.table == "journal"]
    monkeypatch.undo()
    made = await call(database, ensure_partitions, now)
    assert [each for each in made if each.table == "journal"]


async def test_a_process_that_begins_to_serve_makes_partitions_first(
    migrated_database: str,
) -> None:
    """As after the restoration of an old dump."""
    with psycopg.connect(migrated_database) as connection:
        made = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class ON oid = inhrelid "
            "WHERE relkind = 'r'"
        ).fetchall()
        for (name,) in made:
            if not name.endswith("_default"):
                connection.execute(f"DROP TABLE {name}".encode())
    async with open_postgres(migrated_database, serving=True):
        with psycopg.connect(migrated_database) as connection:
            write = (
                "INSERT INTO journal (brand, at, what, actor, detail) VALUES ('acme', %s, 'x', "
                "'clock', '')"
            )
            connection.execute(write, (GatewayClock().wall_time(),))
        assert "journal_default" not in lines_by_partition(migrated_database)


async def test_a_check_of_the_store_tells_what_has_no_partition(database: str) -> None:
    async with open_postgres(database, serving=False) as store:
        assert not await store.rows_without_partition()
        write_lines(database, instant(2040, 1, 1), instant(2041, 1, 1))
        [told] = await store.rows_without_partition()
    assert told.startswith(
        "rows of journal without a partition of their time, in journal_default: 2 ("
    )


@pytest.mark.spec("P5")
async def test_a_commit_that_meets_the_attachment_of_a_partition_is_decided_again(
    database: str,
) -> None:
    month = partition_at(JOURNAL, NOON)
    replies: list[Reply] = []
    async with open_postgres(database, serving=True) as store:

        async def create() -> None:
            replies.extend(await submit_batch(store, (creation(1), NOON)))

        with psycopg.connect(database) as other, trio.fail_after(HANGS_AFTER_S):
            other.execute("LOCK TABLE journal_default")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(create)
                while other.execute(_WAITING).fetchone() == (0,):  # noqa: ASYNC110
                    await trio.sleep(0.01)
                other.execute("CREATE TABLE journal_then (LIKE journal INCLUDING DEFAULTS)")
                bounds = f"FROM ({month.begin}) TO ({month.end})"
                other.execute(
                    f"ALTER TABLE journal ATTACH PARTITION journal_then FOR "
                    f"VALUES {bounds}".encode()
                )
                other.commit()
    assert [type(each) for each in replies] == [Accepted]
    assert lines_by_partition(database) == {"journal_then": 1}
