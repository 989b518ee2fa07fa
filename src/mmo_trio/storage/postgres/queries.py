"""Questions to PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

from mmo_sansio.messages.changes import CallbackRecorded, Journaled
from mmo_sansio.messages.intents import IntentKey, IntentKind, kept
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, LookUp, Records
from mmo_sansio.payments.stuck import may_be_under_way
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.store import (
    Backlog,
    BrandRecord,
    ClosedProvider,
    StoredKey,
    SuspenseEntry,
    Work,
)
from mmo_trio.storage.postgres.bridge import Connection
from mmo_trio.storage.postgres.text_encoding import held, is_holdable
from mmo_trio.storage.sql import lists
from mmo_trio.storage.sql.records_page import NOTHING, first_statement, look_statement, records_of
from mmo_trio.storage.sql.serialization import brand_of, transaction_of
from mmo_trio.storage.sql.statements import Conversation

Row = tuple[Any, ...]

_TRANSACTIONS = "SELECT order_row, progress FROM transactions"


async def rows(connection: Connection, statement: str, *values: object) -> list[Row]:
    """All rows that a statement gives."""
    cursor = await connection.execute(statement.encode(), values, binary=True)
    return await cursor.fetchall()


async def latest_stamp(connection: Connection) -> Instant:
    """The latest instant that is stored anywhere."""
    ((at,),) = await rows(connection, "SELECT coalesce(max(stamp), 0) FROM batches")
    return int(at)


async def open_intents(connection: Connection, keys: Sequence[IntentKey]) -> Sequence[Work]:
    """Those of these kept intents that are open."""
    found = await rows(
        connection,
        "SELECT gateway_reference, kind, order_row, progress"
        " FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)"
        " JOIN intents USING (gateway_reference, kind)"
        " JOIN transactions USING (brand, gateway_reference) ORDER BY intents.id",
        [reference for reference, _ in keys],
        [kind.value for _, kind in keys],
    )
    return [work_of(row) for row in found]


def work_of(row: Row) -> Work:
    """A kept intent with its transaction: gateway_reference, kind, order_row, progress."""
    reference, kind, order, progress = row
    return Work(kept(IntentKind(kind), reference), transaction_of(order, progress))


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


async def look_up(connection: Connection, queries: Sequence[AnyLookUp]) -> Sequence[bytes | None]:
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
        holdable = [each for each in named if is_holdable(each[2])]
        if holdable:
            found.update(await rows(connection, statement, *map(list, zip(*holdable, strict=True))))
    return [found.get(place) for place in range(len(queries))]


async def list_records(connection: Connection, query: ListRecords) -> Records:
    """A page of transaction objects."""
    if query.method is not None and not is_holdable(query.method):
        return NOTHING
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    statement, values = first_statement(query, "%s")
    page = await rows(connection, statement, *values)
    opposite = False
    if page:
        statement, values = look_statement(query, page, "%s")
        opposite = bool(await rows(connection, statement, *values))
    await connection.execute("COMMIT")
    return records_of(query, page, opposite=opposite)


async def transaction(connection: Connection, gateway_reference: str) -> Transaction | None:
    """One transaction, whosever it is."""
    return await _one(connection, "gateway_reference = %s", gateway_reference)


async def transaction_by_page_token(connection: Connection, token: str) -> Transaction | None:
    """The transaction that this hosted page is for."""
    return await _one(connection, "page_token = %s", token)


async def _one(connection: Connection, condition: str, value: str) -> Transaction | None:
    if not is_holdable(value):
        return None
    found = await rows(connection, f"{_TRANSACTIONS} WHERE {condition}", value)
    return transaction_of(*found[0]) if found else None


async def find_transactions(
    connection: Connection,
    reference: str | None,
    brand: str | None,
    status: Status | None,
    limit: int,
) -> Sequence[Transaction]:
    """For people, the newest first."""
    if not is_holdable(f"{reference} {brand}"):
        return []
    return await hold(connection, lists.find_transactions(reference, brand, status, limit))


async def transaction_by_ending(connection: Connection, ending: str) -> Transaction | None:
    """The only transaction whose reference ends so."""
    if not is_holdable(ending):
        return None
    found = await rows(
        connection, f"{_TRANSACTIONS} WHERE right(gateway_reference, 12) = %s LIMIT 2", ending
    )
    return transaction_of(*found[0]) if len(found) == 1 else None


async def unknown_since(
    connection: Connection, before: Instant, limit: int
) -> Sequence[Transaction]:
    """Pending transactions whose submission began before this time, the oldest first."""
    found = await rows(
        connection,
        f"{_TRANSACTIONS} WHERE wake_at IS NOT NULL AND created_at < %s"
        " ORDER BY created_at, gateway_reference",
        before,
    )
    every = (transaction_of(*row) for row in found)
    return list(islice((each for each in every if may_be_under_way(each, before)), limit))


async def backlog(
    connection: Connection, stuck_before: Instant, overdue_before: Instant
) -> Backlog:
    """What is waiting."""
    ((found),) = await rows(
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


async def closed_providers(connection: Connection) -> Sequence[ClosedProvider]:
    """Those that are closed for new payments."""
    found = await rows(
        connection, "SELECT name, closed_at, closed_by, reason FROM closed_providers ORDER BY name"
    )
    return [ClosedProvider(*row) for row in found]


async def timeline(connection: Connection, gateway_reference: str) -> Sequence[Journaled]:
    """The journal of one transaction."""
    if not is_holdable(gateway_reference):
        return []
    found = await rows(
        connection,
        "SELECT at, what, actor, gateway_reference, nullif(brand, ''), stage_before, stage_after, detail"
        " FROM journal WHERE gateway_reference = %s ORDER BY id",
        gateway_reference,
    )
    return [Journaled(*row) for row in found]


async def callbacks(
    connection: Connection, brand: str | None, gateway_reference: str | None, limit: int
) -> Sequence[CallbackRecorded]:
    """The newest recorded callbacks, in the order of their recording."""
    if not is_holdable(f"{brand} {gateway_reference}"):
        return []
    return await hold(connection, lists.callbacks(brand, gateway_reference, limit))


async def suspense(
    connection: Connection, brand: str | None, with_closed: bool, limit: int
) -> Sequence[SuspenseEntry]:
    """The suspense book, in the order of first telling."""
    if not is_holdable(f"{brand}"):
        return []
    return await hold(connection, lists.suspense(brand, with_closed, limit))


_KEYS = "SELECT id, brand, digest, sealed, added_at, retired_at FROM api_keys"


async def brands(connection: Connection) -> Sequence[BrandRecord]:
    """Every brand with its keys."""
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    keys: dict[str, list[StoredKey]] = {}
    for row in await rows(connection, f"{_KEYS} ORDER BY id"):
        keys.setdefault(row[1], []).append(StoredKey(*row))
    found = await rows(connection, 'SELECT id, brand FROM brands ORDER BY id COLLATE "C"')
    await connection.execute("COMMIT")
    return [BrandRecord(brand_of(row), tuple(keys.get(id, ()))) for id, row in found]


async def brand_by_key(connection: Connection, digest: bytes) -> Brand | None:
    """The brand whose key in use has this digest."""
    found = await rows(
        connection,
        "SELECT brands.brand FROM api_keys JOIN brands ON brands.id = api_keys.brand"
        " WHERE digest = %s AND retired_at IS NULL",
        digest,
    )
    return brand_of(found[0][0]) if found else None


async def keys_of(connection: Connection, brands: Sequence[str]) -> Sequence[Sequence[StoredKey]]:
    """The keys of each of these brands, the oldest first."""
    found: dict[str, list[StoredKey]] = {}
    wanted = [each for each in brands if is_holdable(each)]
    for row in await rows(
        connection, f"{_KEYS} WHERE brand = ANY (%s::text[]) ORDER BY id", wanted
    ):
        found.setdefault(row[1], []).append(StoredKey(*row))
    return [found.get(brand, []) for brand in brands]


T = TypeVar("T")


async def hold(connection: Connection, conversation: Conversation[T]) -> T:
    """To its end, inside the connection's transaction if there is one. Text is held as PostgreSQL can."""
    try:
        said = next(conversation)
        while True:
            values = [held(each) if isinstance(each, str) else each for each in said.values]
            cursor = await connection.execute(
                said.text.replace("?", "%s").encode(), values or None, binary=True
            )
            said = conversation.send(await cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        result: T = end.value
        return result
