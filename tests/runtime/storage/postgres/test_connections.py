"""The sessions that the store opens: what they set, and what they plan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from mmo_sansio.payments.ledger import Reads
from mmo_trio.storage.postgres import connections, open_postgres
from mmo_trio.storage.postgres.batch_load import load_batch
from mmo_trio.storage.postgres.brand_statements import KnownBrands
from mmo_trio.storage.postgres.bridge import AsyncioBridge, PostgresConnection, loop_time_s, open_bridge
from mmo_trio.storage.postgres.connections import (
    READER_SETUP,
    WRITER_SETUP,
    Pool,
    build_conninfo,
    call_on_connection,
    create_pool,
)
from mmo_trio.storage.postgres.queries import run_statement
from mmo_trio.storage.sql.statements import Row, SqlStatement
from tests.support.configured_database import operating_row

_CHANGED = "SELECT name FROM pg_settings WHERE source = 'session' AND category LIKE 'Query Tuning%'"
_PREPARED = "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements WHERE starts_with(name, 'mmo_')"
_ROWS = 20_000
_FILL = f"""
    INSERT INTO transactions (brand, gateway_reference, type, method, status, created_at, version, order_row, progress,
        object)
    SELECT 'acme', 'filler-' || n, 'payin', 'sandbox', 'success', n, 1, '', '', ''
    FROM generate_series(1, {_ROWS}) AS n
"""


@asynccontextmanager
async def open_pool(url: str, setup: str) -> AsyncIterator[tuple[AsyncioBridge, Pool]]:
    """A pool of one connection, to a database with tables."""
    async with open_postgres(url, serving=False):
        pass
    with trio.fail_after(60):
        async with open_bridge() as bridge:
            pool = create_pool(build_conninfo(url), 1, setup)
            await bridge.run(pool.open)
            yield bridge, pool
            await bridge.run(pool.close)


async def execute(pool: Pool, statement: str) -> Sequence[Row]:
    return await call_on_connection(pool, lambda c: run_statement(c, SqlStatement(statement)), loop_time_s() + 30)


@operating_row("`jit`, and settings of the planner")
@pytest.mark.finding("postgres-F1")
@pytest.mark.parametrize("setup", [WRITER_SETUP, READER_SETUP], ids=["writer", "reader"])
async def test_no_statement_is_compiled_and_no_plan_is_forbidden(database: str, setup: str) -> None:
    """The server's default may be to compile what seems expensive; what seems expensive must be so."""
    async with open_pool(database, setup) as (bridge, pool):
        assert await bridge.run(execute, pool, "SELECT current_setting('jit')") == [("off",)]
        changed = {name for (name,) in await bridge.run(execute, pool, _CHANGED)}
    assert not {each for each in changed if each.startswith("enable_")}


@pytest.mark.finding("postgres-F1")
async def test_plans_that_were_made_for_empty_tables_are_not_kept(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(connection: PostgresConnection) -> None:
        await load_batch(connection, Reads(references=frozenset([("acme", "order-1")])), KnownBrands())

    async def load_and_explain(pool: Pool) -> str:
        """The plans of all statements that the connection has prepared for batches."""
        await call_on_connection(pool, load, loop_time_s() + 30)
        prepared = await execute(pool, _PREPARED)
        lines: list[str] = []
        for name, count in prepared:
            values = f"({', '.join(['NULL'] * count)})" if count else ""
            lines += [line for (line,) in await execute(pool, f"EXPLAIN EXECUTE {name}{values}")]
        return "\n".join(lines)

    async with open_pool(database, WRITER_SETUP) as (bridge, pool):
        await bridge.run(execute, pool, "ALTER TABLE transactions SET (autovacuum_enabled = off)")
        assert "Seq Scan on transactions" in await bridge.run(load_and_explain, pool), "this is cheapest now"
        await bridge.run(execute, pool, _FILL)
        monkeypatch.setattr(connections, "PLAN_LIFETIME_S", 0)
        assert "Seq Scan on transactions" not in await bridge.run(load_and_explain, pool)
