"""The sessions that the store opens: what they set, and what they plan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from mmo_sansio.payments.ledger import Reads
from mmo_trio.storage.postgres import connection_pool, open_postgres, ownership
from mmo_trio.storage.postgres.batch_load import load_batch
from mmo_trio.storage.postgres.connection_pool import ConnectionPool
from mmo_trio.storage.postgres.connections import READER_SETUP, WRITER_SETUP, build_conninfo
from mmo_trio.storage.postgres.primary import PrimaryFinder
from mmo_trio.storage.postgres.queries import run_statement
from mmo_trio.storage.postgres.statements import KnownBrands
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.statements import Row, SqlStatement
from tests.support.time_limits import HANGS_AFTER_S

_CHANGED = "SELECT name FROM pg_settings WHERE source = 'session' AND category LIKE 'Query Tuning%'"
_PREPARED = (
    "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements WHERE "
    "starts_with(name, 'mmo_')"
)
_ROWS = 20_000
_FILL = f"""
    INSERT INTO transactions (brand, gateway_reference, type, method, status, created_at,
        is_simulated, version, order_row, progress, object)
    SELECT 'acme', 'filler-' || n, 'payin', 'sandbox', 'success', n, 0, 1, '', '', ''
    FROM generate_series(1, {_ROWS}) AS n
"""


@asynccontextmanager
async def open_pool(url: str, setup: str) -> AsyncIterator[ConnectionPool]:
    """A pool of one connection, to a database with tables."""
    async with open_postgres(url, serving=False):
        pass
    with trio.fail_after(HANGS_AFTER_S):
        found = ConnectionPool(PrimaryFinder([build_conninfo(url)]), 1, setup, suspect_after_s=6)
        async with found.serve():
            yield found


async def execute(connections: ConnectionPool, statement: str) -> Sequence[Row]:
    return await connections.call(
        lambda c: run_statement(c, SqlStatement(statement)), trio.current_time() + 30
    )


@pytest.mark.parametrize("setup", [WRITER_SETUP, READER_SETUP], ids=["writer", "reader"])
async def test_no_statement_is_compiled_and_no_plan_is_forbidden(database: str, setup: str) -> None:
    """The server's default may be to compile what seems expensive; what seems expensive must be
    so."""
    async with open_pool(database, setup) as connections:
        assert await execute(connections, "SELECT current_setting('jit')") == [("off",)]
        changed = {name for (name,) in await execute(connections, _CHANGED)}
    assert not {each for each in changed if each.startswith("enable_")}


async def test_plans_that_were_made_for_empty_tables_are_not_kept(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(connection: PostgresConnection) -> None:
        await load_batch(
            connection, Reads(references=frozenset([("acme", "order-1")])), KnownBrands(), Tables()
        )

    async def load_and_explain(connections: ConnectionPool) -> str:
        """The plans of all statements that the connection has prepared for batches."""
        await connections.call(load, trio.current_time() + 30)
        prepared = await execute(connections, _PREPARED)
        lines: list[str] = []
        for name, count in prepared:
            values = f"({', '.join(['NULL'] * count)})" if count else ""
            lines += [
                line for (line,) in await execute(connections, f"EXPLAIN EXECUTE {name}{values}")
            ]
        return "\n".join(lines)

    async with open_pool(database, WRITER_SETUP) as connections:
        await execute(connections, "ALTER TABLE transactions SET (autovacuum_enabled = off)")
        assert "Seq Scan on transactions" in await load_and_explain(connections), (
            "this is cheapest now"
        )
        await execute(connections, _FILL)
        monkeypatch.setattr(connection_pool, "PLAN_LIFETIME_S", 0)
        assert "Seq Scan on transactions" not in await load_and_explain(connections)


async def test_leases_that_ended_are_not_read_again(database: str) -> None:
    """They stay for 30 days, and each process asks several times a second which leases have run
    out."""
    async with open_pool(database, WRITER_SETUP) as connections:
        ended = "SELECT clock_timestamp(), true FROM generate_series(1, 5000)"
        await execute(connections, f"INSERT INTO holders (alive_until, is_over) {ended}")
        await execute(connections, "ANALYZE holders")
        plan = await execute(connections, f"EXPLAIN {ownership.EXPIRE_LEASES}")
    assert "holders_running" in "".join(line for (line,) in plan)
