"""An old snapshot, such as that of a dump, keeps dead index entries; scans of queues do not pass
over all of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.values.clock import Span, later
from mmo_trio.storage.postgres import batch_load, batch_statements, open_postgres, tables
from mmo_trio.storage.postgres.pipeline import PreparedStatement
from mmo_trio.storage.postgres.repeated_scans import (
    SETTLED_AFTER_S,
    WHOLE_SCAN_INTERVAL_MAX_S,
    WHOLE_SCAN_INTERVAL_S,
    ScanMarks,
    WholeScans,
)
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import DELIVERED, creation, reference, succeeded

# isort: split
import psycopg

PAYMENTS, ROUNDS = 2000, 8

GONE = 20_000
"""Rows of each table that the tests below add and remove."""
BRANDS = 20

_KEYS = "'{acme,acme}', '{REF1,REF2}'"
BATCH_STATEMENTS = {
    "delete intents": (
        batch_statements._DELETE_INTENTS.on_one_server,
        f"{_KEYS}, '{{callback,submit}}', '{{0,0}}', 0, {_KEYS}, '{{callback,submit}}'",
    ),
    "select intents": (batch_load._SELECT_INTENTS.on_one_server, f"{_KEYS}, '{{callback,submit}}'"),
}
"""Statements of a batch about two payments, with their values."""


def test_a_mark_is_used_once_it_has_settled() -> None:
    marks = ScanMarks()
    marks.set("acme", 10.0, 5)
    assert marks.begin("acme", 10.0 + SETTLED_AFTER_S - 0.1) == 0
    marks.set("acme", 11.0, 9)
    marks.set("acme", 12.0, 7)
    assert marks.begin("acme", 10.0 + SETTLED_AFTER_S) == 5
    assert marks.begin("acme", 11.0 + SETTLED_AFTER_S) == 9
    assert marks.begin("globex", 99.0) == 0
    marks.forget(["acme", "globex"])
    assert marks.begin("acme", 99.0) == 0


def test_a_slow_whole_scan_is_rarer() -> None:
    scans = WholeScans()
    assert scans.is_due(0.0)
    scans.record(0.0, 0.001)
    assert not scans.is_due(WHOLE_SCAN_INTERVAL_S)
    assert scans.is_due(0.001 + WHOLE_SCAN_INTERVAL_S)
    scans.record(10.0, 10.04)
    assert not scans.is_due(10.0 + 8)
    assert scans.is_due(10.05 + 8)
    scans.record(30.0, 31.0)
    assert scans.is_due(31.0 + WHOLE_SCAN_INTERVAL_MAX_S)


@pytest.mark.long
async def test_searches_under_an_old_snapshot_do_not_read_what_is_gone(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        assert store.ownership
        with psycopg.connect(database) as dump, psycopg.connect(database) as staff:
            dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            dump.execute("SELECT FROM brands")
            for round in range(ROUNDS):
                numbers = range(round * PAYMENTS // ROUNDS, (round + 1) * PAYMENTS // ROUNDS)
                for event in (creation, lambda n: BeginSubmission(reference(n)), succeeded):
                    await submit_batch(store, *((event(n), later(NOON, Span(n))) for n in numbers))
                await store.ownership.claim()
                works = await store.ownership.find_callbacks({"acme": PAYMENTS})
                assert len(works) == len(numbers)
                concluded = [
                    CallbackConcluded(each.transaction.reference, DELIVERED, fence=1)
                    for each in works
                ]
                await submit_batch(
                    store, *((each, later(NOON, Span(PAYMENTS))) for each in concluded)
                )
            await submit_batch(store, (creation(PAYMENTS), NOON))
            await submit_batch(
                store, (BeginSubmission(reference(PAYMENTS)), NOON), (succeeded(PAYMENTS), NOON)
            )
            mark = store.ownership._marks.begin("acme", time.monotonic() + SETTLED_AFTER_S)
            assert mark
            holder = store.ownership.lease_number
            from_mark, from_beginning = (
                blocks_read(staff, ["acme"], each, holder) for each in (mark, 0)
            )
            print(f"{from_mark} blocks from the mark, {from_beginning} from the beginning")
            assert from_mark < from_beginning / 3


async def test_a_batch_under_an_old_snapshot_reads_the_rows_of_its_payments_only(
    database: str,
) -> None:
    async with open_postgres(database, serving=False):
        pass
    with psycopg.connect(database) as dump, psycopg.connect(database, autocommit=True) as staff:
        dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        dump.execute("SELECT FROM brands")
        for table, columns, values in (
            (
                "intents",
                "brand, gateway_reference, kind, holder",
                "'acme', 'REF' || n, 'submit', 0",
            ),
        ):
            insert = (
                f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(1, "
                f"{GONE}) AS n"
            )
            for statement in (insert, f"DELETE FROM {table}", f"VACUUM ANALYZE {table}"):
                staff.execute(statement.encode())
        staff.execute("SET plan_cache_mode = force_generic_plan")
        blocks = {name: _blocks_of(staff, *given) for name, given in BATCH_STATEMENTS.items()}
    assert max(blocks.values()) < 50, blocks


@pytest.mark.parametrize("left", [0, 1, 45])
async def test_a_search_of_many_brands_reads_no_row_that_is_gone(database: str, left: int) -> None:
    """Whatever the planner learns of a table from which nearly all rows have gone: how many VACUUM
    finds is luck."""
    brands = [f"brand-{number}" for number in range(BRANDS)]
    async with open_postgres(database, serving=True) as store:
        assert store.ownership
        holder = store.ownership.lease_number
        with psycopg.connect(database) as dump, psycopg.connect(database, autocommit=True) as staff:
            dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            dump.execute("SELECT FROM brands")
            staff.execute("INSERT INTO channels SELECT unnest(%s::text[]), %s, 1", (brands, holder))
            staff.execute(
                "INSERT INTO intents (brand, gateway_reference, kind, holder) SELECT 'brand-' || "
                "n %% %s, 'GONE' || n,"
                " kind, %s FROM generate_series(1, %s) AS n, "
                "unnest('{submit,callback}'::text[]) AS kind",
                (BRANDS, holder, GONE // 2),
            )
            staff.execute(
                "DELETE FROM intents WHERE id <= (SELECT max(id) - %s FROM intents)", (left,)
            )
            staff.execute("VACUUM ANALYZE intents")
            await submit_batch(store, (creation(1, brand_id=brands[0]), NOON))
            ((mark,),) = staff.execute("SELECT max(id) FROM intents").fetchall()
            await submit_batch(store, (BeginSubmission(reference(1)), NOON), (succeeded(1), NOON))
            blocks = blocks_read(staff, brands, mark, holder)
    assert blocks < 6 * BRANDS, blocks


def _blocks_of(staff: psycopg.Connection[Any], statement: PreparedStatement, values: str) -> int:
    """Return how many blocks a statement touches with these values, planned as the gateway's
    are."""
    name = statement.name.decode()
    staff.execute(b"PREPARE " + statement.name + b" AS " + statement.text)
    row = staff.execute(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name} ({values})".encode()
    ).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def blocks_read(staff: psycopg.Connection[Any], brands: list[str], mark: int, holder: int) -> int:
    """Return how many blocks it takes to find the only callback that waits, which lies beyond the
    mark."""
    many = len(brands)
    values = (brands, [64] * many, [mark] * many, [""] * many, holder)
    with staff.transaction(force_rollback=True):
        staff.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + tables._FIND_CALLBACKS
        row = staff.execute(explain.encode(), values).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    assert plan["Actual Rows"] == 1
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
