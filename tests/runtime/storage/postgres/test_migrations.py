"""A database is brought to the schema of a later version, with all its rows."""

from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs

from mmo_sansio.messages.inputs import BeginSubmission, Input
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import migrate_store
from mmo_trio.storage.postgres import migrations, open_postgres
from tests.conformance.driver import after_noon, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.time_limits import HANGS_AFTER_S

# isort: split
import psycopg

LATER = {
    2: "ALTER TABLE transactions ADD COLUMN colour text;\nCREATE TABLE colours (name text "
    "PRIMARY KEY);\n",
    3: "-- concurrently\nCREATE INDEX CONCURRENTLY transactions_by_colour ON transactions "
    "(colour);\n",
}
"""What a later version might bring."""
ALONE = {2: "-- alone\n-- needs: 2\nALTER TABLE intents RENAME COLUMN fence TO latest_fence;\n"}
"""A step that moves what this version uses."""


def add_steps(monkeypatch: pytest.MonkeyPatch, steps: dict[int, str]) -> None:
    """Let the program be a later version, whose schema takes further steps."""
    every = migrations.scripts() | steps
    monkeypatch.setattr(migrations, "scripts", lambda: every)


async def test_a_later_version_adds_to_a_database_that_keeps_its_rows(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is reported before it is applied, and applied once."""
    steps: list[tuple[int, int]] = []
    with trio.fail_after(HANGS_AFTER_S), capture_logs() as logged:
        async with open_postgres(database, serving=True) as store:
            inputs: list[Input] = [
                creation(1),
                BeginSubmission(reference(1)),
                succeeded(1),
                creation(2),
            ]
            await submit_batch(store, *((each, after_noon(at)) for at, each in enumerate(inputs)))
            before = [await store.transaction(reference(number)) for number in (1, 2)]
            told = [await store.admin.timeline(reference(number)) for number in (1, 2)]
        add_steps(monkeypatch, LATER)
        for _ in range(2):
            await migrate_store(database, lambda number, last: steps.append((number, last)))
        async with open_postgres(database, serving=True) as store:
            assert [await store.transaction(reference(number)) for number in (1, 2)] == before
            assert [await store.admin.timeline(reference(number)) for number in (1, 2)] == told
            assert not await store.integrity_errors()
    assert steps == [(2, 3), (3, 3)]
    assert [(each["from"], each["to"]) for each in logged if each["event"] == "store_migrated"] == [
        (1, 3)
    ]


async def test_tables_are_moved_only_while_no_process_serves(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_store(database, lambda number, last: None)
    add_steps(monkeypatch, ALONE)
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(2):
            connection.execute(
                "INSERT INTO holders (alive_until) VALUES (now() + interval '1 hour')"
            )
        with (
            trio.fail_after(HANGS_AFTER_S),
            pytest.raises(
                StoreUnusable, match=r"^2 processes serve .*stop them, run .mmo db migrate"
            ),
        ):
            await migrate_store(database, lambda number, last: None)
        assert connection.execute("SELECT max(version) FROM mmo_schema").fetchone() == (1,)
        connection.execute("UPDATE holders SET alive_until = now()")
        with trio.fail_after(HANGS_AFTER_S):
            await migrate_store(database, lambda number, last: None)
        assert connection.execute("SELECT max(version), max(needs) FROM mmo_schema").fetchone() == (
            2,
            2,
        )


def test_a_migration_is_executed_statement_by_statement() -> None:
    """Citus takes no other command along with one about a distributed table."""
    script = (
        "-- First;\n-- second.\nCREATE TABLE a (b text);\n\nDO $$\nBEGIN\n    PERFORM "
        "1;\nEND\n$$;\nSELECT 1;\n"
    )
    assert [each.strip() for each in migrations.script_statements(script)] == [
        "-- First",
        "-- second.\nCREATE TABLE a (b text)",
        "DO $$\nBEGIN\n    PERFORM 1;\nEND\n$$",
        "SELECT 1",
        "",
    ]


async def test_the_keys_of_payments_and_references_serve_for_both_ways_to_look_them_up(
    database: str,
) -> None:
    """By the reference with the brand, and by the reference alone: so a create writes two indexes
    less."""
    await migrate_store(database, lambda number, last: None)
    with psycopg.connect(database, autocommit=True) as connection:
        found = dict[str, str](
            connection.execute(
                "SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('transactions', "
                "'reference_uses')"
            ).fetchall()
        )
    assert found["transactions_pkey"].endswith("(gateway_reference, brand)")
    assert found["reference_uses_pkey"].endswith("(merchant_reference, brand, nth)")
    assert not [each for each in found if each.endswith("_by_reference")]
