"""Databases of earlier versions are brought to the schema of this one, with all their rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.messages.queries import ListRecords, LookUp, Position
from mmo_sansio.testing.builders import START, a_transaction, numbered_reference
from mmo_sansio.values.clock import DAY, LAST_INSTANT, MINUTE, Instant, later
from mmo_sansio.values.model import Stage, Transaction
from mmo_trio.storage.interface.admin_types import CountQuery
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import migrate_store
from mmo_trio.storage.postgres import migrations, open_postgres
from mmo_trio.storage.sql.serialization import serialize_order, serialize_progress, with_checksum
from tests.support.postgres_schema import migrate_to

# isort: split
import psycopg

BEFORE_GROWTH = 7
"""The last schema without partitions."""


def transactions_of_before() -> Sequence[Transaction]:
    """Two payments that have ended and one that is pending."""
    ended = {"provider_reference": "R-7", "completed_at": later(START, MINUTE), "wake_at": None, "version": 3}
    return (
        a_transaction(Stage.SUCCEEDED, gateway_reference=numbered_reference(1), **ended),
        a_transaction(Stage.FAILED, gateway_reference=numbered_reference(2), **ended),
        a_transaction(Stage.AWAITING_RESULT, gateway_reference=numbered_reference(3), wake_at=later(START, DAY)),
    )


def write_as_before(connection: psycopg.Connection, each: Transaction) -> None:
    """Write the rows of a payment as the version before did."""
    order, progress = each.order, each.progress
    connection.execute(
        "INSERT INTO transactions (gateway_reference, brand, type, method, created_at, order_row, status, version,"
        " wake_at, msisdn, provider_receipt, progress, object)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            each.reference,
            order.brand,
            order.type.value,
            order.method,
            order.created_at,
            serialize_order(order),
            each.status.value,
            progress.version,
            progress.wake_at,
            order.party.msisdn.removeprefix("+"),
            progress.provider_reference,
            serialize_progress(progress),
            with_checksum(transaction_object(each)),
        ),
    )
    connection.execute(
        "INSERT INTO reference_uses (brand, merchant_reference, nth, at, gateway_reference, earlier)"
        " VALUES (%s, %s, 1, %s, %s, 'failed')",
        (order.brand, f"order {each.reference}", order.created_at, each.reference),
    )
    connection.execute(
        "INSERT INTO journal (brand, at, what, actor, gateway_reference, detail)"
        " VALUES (%s, %s, 'CreatePayment', 'merchant', %s, '')",
        (order.brand, order.created_at, each.reference),
    )
    connection.execute(
        "INSERT INTO callbacks (brand, gateway_reference, outcome, url, status, duration_ms, detail, at, body)"
        " VALUES (%s, %s, 'non_2xx', 'https://merchant.example', 500, 12, '', %s, %s)",
        (order.brand, each.reference, order.created_at, b"no"),
    )
    connection.execute(
        "INSERT INTO figures (span, began_at, brand, method, provider, status, latency_s, holder, times)"
        " VALUES (%s, %s, %s, %s, %s, 'pending', 0, %s, 1)",
        (DAY, START - START % DAY, order.brand, order.method, order.provider, int(each.reference[-1])),
    )


@pytest.mark.finding("postgres-F9")
async def test_a_database_of_before_is_migrated_with_all_its_rows(database: str) -> None:
    kept = transactions_of_before()
    migrate_to(database, BEFORE_GROWTH)
    with psycopg.connect(database) as connection:
        for each in kept:
            write_as_before(connection, each)
        connection.execute("INSERT INTO batches (id, stamp) VALUES (gen_random_uuid(), %s)", (START + 7,))
    with trio.fail_after(60):
        async with open_postgres(database, serving=True) as store:
            assert not await store.integrity_errors()
            for each in kept:
                brand = each.order.brand
                assert await store.transaction(each.reference) == each
                assert await store.look_up(LookUp(brand, each.reference)) == transaction_object(each)
                assert await store.admin.timeline(each.reference) == [
                    JournalEntry(
                        each.order.created_at, "CreatePayment", "merchant", each.reference, brand, None, None, ""
                    )
                ]
                (recorded,) = await store.admin.callbacks(gateway_reference=each.reference)
                assert recorded.attempt.body == b"no"
            found = await store.admin.search_payments("R-7")
            assert {each.reference for each in found.transactions} == {each.reference for each in kept[:2]}
            assert len(await store.admin.failed_callbacks()) == len(kept)
            assert await store.next_wake() == later(START, DAY)
            records = await store.list_records(ListRecords(kept[0].order.brand, START, later(START, DAY)))
            assert len(records.objects) == len(kept)
            assert records.first == Position(START, kept[0].reference)
            counts = await store.admin.count_payments(CountQuery(DAY, Instant(0), LAST_INSTANT), by=None)
            assert [each.count for each in counts] == [len(kept)]
            assert await store.held_until() >= START + 7


@pytest.mark.finding("postgres-F9")
async def test_each_migration_is_reported_before_it_is_applied(database: str) -> None:
    latest, steps = migrations.latest_version(), list[tuple[int, int]]()
    migrate_to(database, latest - 2)
    await migrate_store(database, lambda number, last: steps.append((number, last)))
    assert steps == [(latest - 1, latest), (latest, latest)]
    await migrate_store(database, lambda number, last: steps.append((number, last)))
    assert len(steps) == 2


async def test_tables_are_moved_only_while_no_process_serves(database: str) -> None:
    migrate_to(database, BEFORE_GROWTH)
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(2):
            connection.execute("INSERT INTO holders (alive_until) VALUES (now() + interval '1 hour')")
        with (
            trio.fail_after(60),
            pytest.raises(StoreUnusable, match=r"^2 processes serve .*stop them, run .mmo db migrate"),
        ):
            async with open_postgres(database, serving=True):
                pass
        assert connection.execute("SELECT max(version) FROM mmo_schema").fetchone() == (BEFORE_GROWTH,)
        connection.execute("UPDATE holders SET alive_until = now()")
    with trio.fail_after(60):
        async with open_postgres(database, serving=True) as store:
            assert not await store.integrity_errors()


@pytest.mark.finding("postgres-F7")
def test_a_migration_is_executed_statement_by_statement() -> None:
    """Citus takes no other command along with one about a distributed table."""
    script = "-- First;\n-- second.\nCREATE TABLE a (b text);\n\nDO $$\nBEGIN\n    PERFORM 1;\nEND\n$$;\nSELECT 1;\n"
    assert [each.strip() for each in migrations.script_statements(script)] == [
        "-- First",
        "-- second.\nCREATE TABLE a (b text)",
        "DO $$\nBEGIN\n    PERFORM 1;\nEND\n$$",
        "SELECT 1",
        "",
    ]


BEFORE_KEYS = 10
"""The last schema in which an index of its own finds a payment by its reference alone."""


async def test_the_keys_of_payments_and_references_serve_for_both_ways_to_look_them_up(database: str) -> None:
    """With the rows that were there; a create writes two indexes less."""
    migrate_to(database, BEFORE_KEYS)
    indexes = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('transactions', 'reference_uses')"
    with psycopg.connect(database, autocommit=True) as connection:
        count_before = len(connection.execute(indexes).fetchall())
        connection.execute(
            "INSERT INTO transactions (gateway_reference, brand, type, method, created_at, order_row, status, version,"
            " progress, object) SELECT 'old-' || n, 'acme', 'payin', 'mpesa_ke', n, '', 'success', 1, '', ''"
            " FROM generate_series(1, 500) AS n"
        )
        connection.execute(
            "INSERT INTO reference_uses (brand, merchant_reference, nth, at, gateway_reference)"
            " SELECT 'acme', 'order-' || n, 1, n, 'old-' || n FROM generate_series(1, 500) AS n"
        )
        with trio.fail_after(60):
            async with open_postgres(database, serving=True):
                pass
        found = dict[str, str](connection.execute(indexes).fetchall())
        assert len(found) == count_before - 2
        assert found["transactions_pkey"].endswith("(gateway_reference, brand)")
        assert found["reference_uses_pkey"].endswith("(merchant_reference, brand, nth)")
        assert connection.execute("SELECT count(*) FROM transactions").fetchone() == (500,)
        assert connection.execute("SELECT count(*) FROM reference_uses").fetchone() == (500,)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO reference_uses SELECT * FROM reference_uses LIMIT 1")
