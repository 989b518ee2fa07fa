"""Fills a database with old payments, so that plans and times are those of a store that has
grown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import trio

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.values.clock import SECOND
from mmo_trio.storage.postgres import open_postgres
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import DELIVERED, creation, reference, succeeded

# isort: split
import psycopg
from attrs import Factory, define, field
from psycopg import sql

LARGE = ("transactions", "reference_uses", "journal", "callbacks", "callback_bodies")
"""The tables that grow with each payment, and their partitions."""

_WHOLE = 1_000
"""So many of the youngest rows can be read as payments; what would be read of the others is left
out."""

_UNIQUE = (
    "merchant_reference",
    "reconciliation_reference",
    "provider_reference",
    "page_token",
    "msisdn",
)
"""Columns whose values differ from payment to payment."""

_COLUMNS = """
    SELECT attname, atttypid::regtype::text FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''
    AND attgenerated = ''
        AND attname <> 'id'
"""
_INDEXES = """
    SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid)
    FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    WHERE indrelid = %s::regclass AND relkind = 'r' AND NOT indisunique
"""
_LEAVES = """
    SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'public' AND relkind = 'r' ORDER BY relname
"""


@define(eq=False)
class LargeStore:
    """Holds a database with very many old payments. What is written beside them can be removed
    again."""

    url: str
    _ends: dict[str, str] = field(factory=dict)
    """The place of the last old row, of each table that has any."""
    _small: Sequence[str] = Factory(tuple)

    @property
    def large(self) -> frozenset[str]:
        """Return the tables and partitions with old rows."""
        return frozenset(self._ends)

    def fill(self, rows: int) -> None:
        """Write one payment as the store does, and copies of it at intervals of a second, the
        youngest first."""
        trio.run(_write_payment, self.url)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = off")
            for table in LARGE:
                with _without_indexes(connection, table):
                    self._multiply(connection, table, rows)
            leaves = [name for (name,) in connection.execute(_LEAVES)]
            for name in leaves:
                last = sql.SQL("SELECT max(ctid)::text, count(*) FROM {}").format(
                    sql.Identifier(name)
                )
                ((end, count),) = connection.execute(last)
                if count >= rows:
                    self._ends[name] = end
            self._small = [
                each for each in leaves if each not in self._ends and each != "mmo_schema"
            ]
            connection.execute("CREATE SCHEMA saved")
            for name in self._small:
                copy = sql.SQL("CREATE TABLE saved.{0} AS TABLE public.{0}").format(
                    sql.Identifier(name)
                )
                connection.execute(copy)

    def reset(self) -> None:
        """Remove what was written since `fill`."""
        with psycopg.connect(self.url) as connection:
            small = sql.SQL(", ").join(map(sql.Identifier, self._small))
            connection.execute(sql.SQL("TRUNCATE {}").format(small))
            for name in self._small:
                restore = "INSERT INTO public.{0} OVERRIDING SYSTEM VALUE SELECT * FROM saved.{0}"
                connection.execute(sql.SQL(restore).format(sql.Identifier(name)))
            for name, end in self._ends.items():
                connection.execute(
                    sql.SQL("DELETE FROM {} WHERE ctid > %s::tid").format(sql.Identifier(name)),
                    [end],
                )

    def analyze(self) -> None:
        """Give the planner its statistics."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    @staticmethod
    def _multiply(connection: psycopg.Connection, table: str, rows: int) -> None:
        names, values = list[sql.Composable](), list[sql.Composable]()
        for name, kind in connection.execute(_COLUMNS, [table]).fetchall():
            names.append(sql.Identifier(name))
            values.append(sql.SQL(_varied(name, kind)).format(sql.Identifier(name)))
        copies = sql.SQL(
            "INSERT INTO {0} ({1}) SELECT {2}"
            " FROM (SELECT * FROM {0} LIMIT 1) AS one, generate_series(1::bigint, {3}) AS n"
        )
        columns = (sql.SQL(", ").join(each) for each in (names, values))
        connection.execute(copies.format(sql.Identifier(table), *columns, sql.Literal(rows)))


@contextmanager
def _without_indexes(connection: psycopg.Connection, table: str) -> Iterator[None]:
    """Remove the indexes of a table during the block: to make them at once is faster."""
    indexes = connection.execute(_INDEXES, [table]).fetchall()
    for name, _ in indexes:
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    yield
    for _, definition in indexes:
        connection.execute(definition)


def _varied(name: str, kind: str) -> str:
    """Return the SQL for a column of the copy with number `n`."""
    if name == "gateway_reference":
        return "'01JC' || lpad(n::text, 22, '0')"
    if name in _UNIQUE:
        return "CASE WHEN {0} IS NOT NULL THEN 'filler-' || n END"
    if kind == "bytea":
        return f"CASE WHEN n <= {_WHOLE} THEN {{0}} ELSE substr({{0}}, 1, 1) END"
    if kind == "bigint" and (name == "at" or name.endswith("_at")):
        return f"{{0}} - n * {SECOND}"
    return "{0}"


_NUMBER = 99_999_999
"""The number of the payment that is copied."""


async def _write_payment(url: str) -> None:
    about = reference(_NUMBER)
    life = (
        creation(_NUMBER, brand_id="filler"),
        BeginSubmission(about),
        succeeded(_NUMBER),
        CallbackConcluded(about, DELIVERED),
    )
    async with open_postgres(url, serving=False) as store:
        for each in life:
            await submit_batch(store, (each, NOON))
