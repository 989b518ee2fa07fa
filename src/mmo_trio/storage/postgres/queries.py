"""Questions to PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.messages.intents import IntentKey, IntentKind, durable_intent
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, LookUp, Records
from mmo_sansio.payments.stuck import has_unknown_outcome
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.store import (
    Backlog,
    BrandRecord,
    ClosedProvider,
    StoredApiKey,
    SuspenseEntry,
    WorkItem,
)
from mmo_trio.storage.postgres.bridge import PostgresConnection
from mmo_trio.storage.postgres.text_encoding import escape_text, is_storable
from mmo_trio.storage.sql import lists
from mmo_trio.storage.sql.records_page import (
    EMPTY_PAGE,
    build_page,
    opposite_row_statement,
    page_with_lookahead_statement,
)
from mmo_trio.storage.sql.serialization import parse_brand, parse_transaction
from mmo_trio.storage.sql.statements import SqlQuery

Row = tuple[Any, ...]

_SELECT_TRANSACTIONS = "SELECT order_row, progress FROM transactions"


async def fetch_rows(connection: PostgresConnection, statement: str, *values: object) -> list[Row]:
    """All rows that a statement gives."""
    cursor = await connection.execute(statement.encode(), values, binary=True)
    return await cursor.fetchall()


async def latest_stamp(connection: PostgresConnection) -> Instant:
    """The latest instant that is stored anywhere."""
    ((at,),) = await fetch_rows(connection, "SELECT coalesce(max(stamp), 0) FROM batches")
    return Instant(int(at))


async def open_intents(
    connection: PostgresConnection, keys: Sequence[IntentKey]
) -> Sequence[WorkItem]:
    """Those of these kept intents that are open."""
    found = await fetch_rows(
        connection,
        "SELECT gateway_reference, kind, order_row, progress"
        " FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)"
        " JOIN intents USING (gateway_reference, kind)"
        " JOIN transactions USING (brand, gateway_reference) ORDER BY intents.id",
        [reference for reference, _ in keys],
        [kind.value for _, kind in keys],
    )
    return [parse_work_item(row) for row in found]


def parse_work_item(row: Row) -> WorkItem:
    """A kept intent with its transaction: gateway_reference, kind, order_row, progress."""
    reference, kind, order, progress = row
    return WorkItem(durable_intent(IntentKind(kind), reference), parse_transaction(order, progress))


_BY_GATEWAY_REFERENCE = """
    SELECT place, object
    FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS wanted (place, brand, gateway_reference)
    JOIN transactions USING (brand, gateway_reference)
"""
_BY_MERCHANT_REFERENCE = """
    SELECT place, object
    FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS wanted (place, brand, merchant_reference)
    CROSS JOIN LATERAL (
        SELECT gateway_reference FROM reference_uses AS used
        WHERE used.brand = wanted.brand AND used.merchant_reference = wanted.merchant_reference
        ORDER BY used.nth DESC LIMIT 1
    ) AS newest
    JOIN transactions USING (brand, gateway_reference)
"""


async def look_up(
    connection: PostgresConnection, queries: Sequence[AnyLookUp]
) -> Sequence[bytes | None]:
    """For each of these the transaction object of the brand's transaction, still with its checksum."""
    by_gateway, by_merchant = list[tuple[int, str, str]](), list[tuple[int, str, str]]()
    for place, query in enumerate(queries):
        if isinstance(query, LookUp):
            by_gateway.append((place, query.brand, query.gateway_reference))
        else:
            by_merchant.append((place, query.brand, query.merchant_reference))
    found: dict[int, bytes] = {}
    for statement, named in (
        (_BY_GATEWAY_REFERENCE, by_gateway),
        (_BY_MERCHANT_REFERENCE, by_merchant),
    ):
        holdable = [each for each in named if is_storable(each[2])]
        if holdable:
            found.update(
                await fetch_rows(connection, statement, *map(list, zip(*holdable, strict=True)))
            )
    return [found.get(place) for place in range(len(queries))]


async def list_records(connection: PostgresConnection, query: ListRecords) -> Records:
    """A page of transaction objects."""
    if query.method is not None and not is_storable(query.method):
        return EMPTY_PAGE
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    statement, values = page_with_lookahead_statement(query, "%s")
    page = await fetch_rows(connection, statement, *values)
    opposite = False
    if page:
        statement, values = opposite_row_statement(query, page, "%s")
        opposite = bool(await fetch_rows(connection, statement, *values))
    await connection.execute("COMMIT")
    return build_page(query, page, has_more_opposite=opposite)


async def transaction(connection: PostgresConnection, gateway_reference: str) -> Transaction | None:
    """One transaction, whosever it is."""
    return await _find_one(connection, "gateway_reference = %s", gateway_reference)


async def transaction_by_page_token(
    connection: PostgresConnection, token: str
) -> Transaction | None:
    """The transaction that this hosted page is for."""
    return await _find_one(connection, "page_token = %s", token)


async def _find_one(
    connection: PostgresConnection, condition: str, value: str
) -> Transaction | None:
    if not is_storable(value):
        return None
    found = await fetch_rows(connection, f"{_SELECT_TRANSACTIONS} WHERE {condition}", value)
    return parse_transaction(*found[0]) if found else None


async def find_transactions(
    connection: PostgresConnection,
    reference: str | None,
    brand: str | None,
    status: Status | None,
    limit: int,
) -> Sequence[Transaction]:
    """For people, the newest first."""
    if not is_storable(f"{reference} {brand}"):
        return []
    return await run_query(connection, lists.find_transactions(reference, brand, status, limit))


async def transaction_by_suffix(connection: PostgresConnection, suffix: str) -> Transaction | None:
    """The only transaction whose reference ends so."""
    if not is_storable(suffix):
        return None
    found = await fetch_rows(
        connection,
        f"{_SELECT_TRANSACTIONS} WHERE right(gateway_reference, 12) = %s LIMIT 2",
        suffix,
    )
    return parse_transaction(*found[0]) if len(found) == 1 else None


async def unknown_outcomes(
    connection: PostgresConnection, submitted_before: Instant, limit: int
) -> Sequence[Transaction]:
    """Pending transactions whose submission began before this time, the oldest first."""
    found = await fetch_rows(
        connection,
        f"{_SELECT_TRANSACTIONS} WHERE wake_at IS NOT NULL AND created_at < %s"
        " ORDER BY created_at, gateway_reference",
        submitted_before,
    )
    every = (parse_transaction(*row) for row in found)
    return list(
        islice((each for each in every if has_unknown_outcome(each, submitted_before)), limit)
    )


async def backlog(
    connection: PostgresConnection, stuck_before: Instant, overdue_before: Instant
) -> Backlog:
    """What is waiting."""
    ((found),) = await fetch_rows(
        connection,
        "SELECT count(*), count(*) FILTER (WHERE created_at < %s),"
        " count(*) FILTER (WHERE wake_at < %s),"
        " (SELECT count(*) FROM intents WHERE kind = 'callback'),"
        " (SELECT count(*) FROM suspense WHERE closed_at IS NULL)"
        " FROM transactions WHERE wake_at IS NOT NULL",
        stuck_before,
        overdue_before,
    )
    return Backlog(*found)


async def closed_providers(connection: PostgresConnection) -> Sequence[ClosedProvider]:
    """Those that are closed for new payments."""
    found = await fetch_rows(
        connection, "SELECT name, closed_at, closed_by, reason FROM closed_providers ORDER BY name"
    )
    return [ClosedProvider(*row) for row in found]


async def timeline(
    connection: PostgresConnection, gateway_reference: str
) -> Sequence[JournalEntry]:
    """The journal of one transaction."""
    if not is_storable(gateway_reference):
        return []
    found = await fetch_rows(
        connection,
        "SELECT at, what, actor, gateway_reference, nullif(brand, ''), stage_before, stage_after, detail"
        " FROM journal WHERE gateway_reference = %s ORDER BY id",
        gateway_reference,
    )
    return [JournalEntry(*row) for row in found]


async def callbacks(
    connection: PostgresConnection, brand: str | None, gateway_reference: str | None, limit: int
) -> Sequence[CallbackRecorded]:
    """The newest recorded callbacks, in the order of their recording."""
    if not is_storable(f"{brand} {gateway_reference}"):
        return []
    return await run_query(connection, lists.callbacks(brand, gateway_reference, limit))


async def suspense(
    connection: PostgresConnection, brand: str | None, with_closed: bool, limit: int
) -> Sequence[SuspenseEntry]:
    """The suspense book, in the order of first telling."""
    if not is_storable(f"{brand}"):
        return []
    return await run_query(connection, lists.suspense(brand, with_closed, limit))


_SELECT_KEYS = "SELECT id, brand, digest, sealed, added_at, retired_at FROM api_keys"


async def brands(connection: PostgresConnection) -> Sequence[BrandRecord]:
    """Every brand with its keys."""
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    keys: dict[str, list[StoredApiKey]] = {}
    for row in await fetch_rows(connection, f"{_SELECT_KEYS} ORDER BY id"):
        keys.setdefault(row[1], []).append(StoredApiKey(*row))
    found = await fetch_rows(connection, 'SELECT id, brand FROM brands ORDER BY id COLLATE "C"')
    await connection.execute("COMMIT")
    return [BrandRecord(parse_brand(row), tuple(keys.get(id, ()))) for id, row in found]


async def brand_by_key(connection: PostgresConnection, digest: bytes) -> Brand | None:
    """The brand whose key in use has this digest."""
    found = await fetch_rows(
        connection,
        "SELECT brands.brand FROM api_keys JOIN brands ON brands.id = api_keys.brand"
        " WHERE digest = %s AND retired_at IS NULL",
        digest,
    )
    return parse_brand(found[0][0]) if found else None


async def keys_of(
    connection: PostgresConnection, brands: Sequence[str]
) -> Sequence[Sequence[StoredApiKey]]:
    """The keys of each of these brands, the oldest first."""
    found: dict[str, list[StoredApiKey]] = {}
    wanted = [each for each in brands if is_storable(each)]
    for row in await fetch_rows(
        connection, f"{_SELECT_KEYS} WHERE brand = ANY (%s::text[]) ORDER BY id", wanted
    ):
        found.setdefault(row[1], []).append(StoredApiKey(*row))
    return [found.get(brand, []) for brand in brands]


T = TypeVar("T")


async def run_query(connection: PostgresConnection, query: SqlQuery[T]) -> T:
    """To its end, inside the connection's transaction if there is one. Text is held as PostgreSQL can."""
    try:
        said = next(query)
        while True:
            values = [escape_text(each) if isinstance(each, str) else each for each in said.values]
            cursor = await connection.execute(
                said.text.replace("?", "%s").encode(), values or None, binary=True
            )
            said = query.send(await cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        result: T = end.value
        return result
