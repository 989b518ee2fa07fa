"""Statements that travel together: what they carry and give, and what an error among them leaves
behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
import trio

from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement, execute_pipeline
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, open_connection

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

_UNNEST = PreparedStatement("""
    SELECT * FROM unnest(%s::text[], %s::integer[], %s::bigint[], %s::bytea[]) WITH ORDINALITY
""")
_SCALARS = PreparedStatement("SELECT %s::text, %s::integer, %s::bigint, %s::uuid")
_KEEP = PreparedStatement("INSERT INTO kept (what) SELECT * FROM unnest(%s::text[])")
_KEPT = PreparedStatement("SELECT what FROM kept ORDER BY what")
_ONE_OVER = PreparedStatement("SELECT 1 / %s::integer")
_BEGIN, _COMMIT = PreparedStatement("BEGIN"), PreparedStatement("COMMIT")


class Session:
    """One connection."""

    def __init__(self, connection: PostgresConnection) -> None:
        self.connection = connection

    async def say(self, *statements: BoundStatement) -> list[list[tuple[Any, ...]]]:
        return await execute_pipeline(self.connection, statements)


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Session]:
    with trio.fail_after(HANGS_AFTER_S):
        connection = await open_connection(url)
        await connection.execute("CREATE TEMPORARY TABLE kept (what text PRIMARY KEY)")
        yield Session(connection)
        await connection.close()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("", 0, 0, b"")],
        [(None, None, None, None)],
        [('{a,"b\\" ü}', -(2**31), -(2**63), b"\x00\xff"), ("NULL", 2**31 - 1, 2**63 - 1, b"{}")],
        [(None, None, None, None), ("x" * 100_000, 1, None, b"y" * 100_000)],
    ],
    ids=["none", "empty", "null", "extremes", "nulls and long ones"],
)
async def test_what_travels_arrives(database: str, rows: Sequence[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    async with session(database) as here:
        for _ in range(2):  # Prepared, then again.
            (found,) = await here.say(_UNNEST.bind(*columns))
            assert found == [(*row, nth) for nth, row in enumerate(rows, start=1)]


async def test_each_statement_has_an_answer_of_its_own(database: str) -> None:
    id = UUID(int=2**127 + 1)
    async with session(database) as here:
        answers = await here.say(
            _SCALARS.bind("ü", -1, 2**40, id),
            _KEEP.bind_rows([("b",), ("a",)]),
            _KEPT.bind(),
            _SCALARS.bind("", 1, 0, id),
        )
    assert answers == [[("ü", -1, 2**40, id)], [], [("a",), ("b",)], [("", 1, 0, id)]]


@pytest.mark.parametrize("in_transaction", [True, False])
async def test_after_an_error_none_was_carried_out_and_the_connection_serves_on(
    database: str, in_transaction: bool
) -> None:
    async with session(database) as here:
        whole = [_KEEP.bind_rows([("a",)]), _ONE_OVER.bind(0), _KEPT.bind()]
        if in_transaction:
            whole = [_BEGIN.bind(), *whole, _COMMIT.bind()]
        with pytest.raises(psycopg.errors.DivisionByZero):
            await here.say(*whole)
        assert here.connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert await here.say(_KEPT.bind(), _ONE_OVER.bind(1)) == [[], [(1,)]]


async def test_a_connection_that_is_lost_is_told_of(database: str) -> None:
    async with session(database) as here:
        await here.say(_KEPT.bind())
        with psycopg.connect(database, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        with pytest.raises(psycopg.OperationalError):
            await here.say(_KEPT.bind())


def test_a_value_without_a_type_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="without a type"):
        PreparedStatement("SELECT %s, %s::text")
