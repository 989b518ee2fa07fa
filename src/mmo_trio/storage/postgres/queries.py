"""The queries that only PostgreSQL needs, and how conversations run on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from mmo_sansio.messages.intents import IntentKey, IntentKind, durable_intent
from mmo_sansio.messages.queries import AnyLookUp, LookUp
from mmo_trio.storage.interface.admin_types import BrandRecord
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.postgres.pipeline import (
    BoundStatement,
    PreparedStatement,
    escape_text,
    execute_pipeline,
    is_storable,
)
from mmo_trio.storage.postgres.statements import BrandStatement
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.brand_keys import SELECT_BRANDS, parse_brand_records
from mmo_trio.storage.sql.serialization import OBJECT_COLUMNS, parse_transaction
from mmo_trio.storage.sql.statements import Row, SqlQuery, SqlStatement, run_query_async

T = TypeVar("T")


async def open_intents(
    connection: PostgresConnection, holder: int, keys: Sequence[IntentKey]
) -> Sequence[WorkItem]:
    """Return those of these durable intents that are open, under this lease."""
    found = await fetch_rows(
        connection,
        "SELECT gateway_reference, kind, since, hint, provider_reference, order_row, progress"
        " FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)"
        " JOIN intents USING (gateway_reference, kind)"
        " JOIN transactions USING (brand, gateway_reference) WHERE holder = %s ORDER BY intents.id",
        [reference for reference, _ in keys],
        [kind.value for _, kind in keys],
        holder,
    )
    return [parse_work_item(row) for row in found]


def parse_work_item(row: Row) -> WorkItem:
    """Return the durable intent and its transaction of a row (gateway_reference, kind, since, hint,
    provider_reference, order_row, progress)."""
    reference, kind, since, hint, provider_reference, order, progress = row
    intent = durable_intent(
        IntentKind(kind),
        reference,
        since=since,
        hint=hint,
        provider_reference=provider_reference,
    )
    return WorkItem(intent, parse_transaction(order, progress))


_BY_GATEWAY_REFERENCE = BrandStatement(f"""
    SELECT place, {OBJECT_COLUMNS}
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS wanted (brand, gateway_reference, place)
    JOIN transactions AS t USING (brand, gateway_reference)
    [WHERE t.brand = ($1)[1]]
""")
_BY_MERCHANT_REFERENCE = BrandStatement(f"""
    SELECT place, {OBJECT_COLUMNS}
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS wanted (brand, merchant_reference, place)
    CROSS JOIN LATERAL (
        SELECT gateway_reference FROM reference_uses AS used
        WHERE used.brand = wanted.brand AND used.merchant_reference = wanted.merchant_reference
            [AND used.brand = ($1)[1]]
        ORDER BY used.nth DESC LIMIT 1
    ) AS newest
    JOIN transactions AS t USING (brand, gateway_reference)
    [WHERE t.brand = ($1)[1]]
""")


async def look_up(
    connection: PostgresConnection, queries: Sequence[AnyLookUp], tables: Tables
) -> Sequence[Row | None]:
    """Return for each query a row of OBJECT_COLUMNS of the brand's transaction, in one round
    trip."""
    # Each row brings back the place of its query, as rows come in any order.
    by_gateway: list[tuple[str, str, int]] = []
    by_merchant: list[tuple[str, str, int]] = []
    for place, query in enumerate(queries):
        if isinstance(query, LookUp):
            by_gateway.append((query.brand, query.gateway_reference, place))
        else:
            by_merchant.append((query.brand, query.merchant_reference, place))

    statements: list[BoundStatement] = []
    for statement, named in (
        (_BY_GATEWAY_REFERENCE, by_gateway),
        (_BY_MERCHANT_REFERENCE, by_merchant),
    ):
        # What the server can't store is in no row, and would be an error as a value.
        storable = [pair for pair in named if is_storable(pair[1])]
        if storable:
            statements += tables.bind(statement, storable)

    results = await execute_pipeline(connection, statements)
    found = {row[0]: row[1:] for rows in results for row in rows}
    return [found.get(place) for place in range(len(queries))]


_FIND_BRANDS = PreparedStatement(
    f"{SELECT_BRANDS} WHERE brands.id = ANY (%s::text[]) ORDER BY api_keys.id"
)


async def find_brands(
    connection: PostgresConnection, brands: Sequence[str]
) -> Sequence[BrandRecord | None]:
    """Return each of these brands with its keys, the oldest first."""
    wanted = [brand for brand in brands if is_storable(brand)]
    (rows,) = await execute_pipeline(connection, [_FIND_BRANDS.bind(wanted)])
    found = parse_brand_records(rows)
    return [found.get(brand) for brand in brands]


async def run_statement(connection: PostgresConnection, statement: SqlStatement) -> Sequence[Row]:
    """Return the rows of a statement, inside the connection's transaction if there is one. Values
    hold text as PostgreSQL can store it."""
    # Without values psycopg leaves the text alone, in which a % may stand.
    values = [_storable(value) for value in statement.values]
    cursor = await connection.execute(
        statement.text.replace("?", "%s").encode(), values or None, binary=True
    )
    if cursor.description:
        return await cursor.fetchall()
    return []


def _storable(value: object) -> object:
    if isinstance(value, list):
        return [_storable(element) for element in value]
    if isinstance(value, str):
        return escape_text(value)
    return value


async def run_in_snapshot(
    connection: PostgresConnection, query: SqlQuery[T], *, has_deadline: bool = True
) -> T:
    """Run a conversation of several statements that all see the database as it is now."""
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    # A check of all rows of a large store takes hours.
    if not has_deadline:
        await connection.execute("SET LOCAL statement_timeout = 0")

    # Where this fails, the pool rolls back.
    result = await run_query_async(query, partial(run_statement, connection))
    await connection.execute("COMMIT")
    return result
