"""Looking for damage: rows that aren't what was written, and what must be true between rows."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.postgres.bridge import PostgresConnection
from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.sql.columns import CHECKED_COLUMNS, transaction_row_error
from mmo_trio.storage.sql.serialization import parse_brand, parse_breaker

_PAGE_SIZE = 1_000

_SELECT_TRANSACTION_PAGE = f"""
    SELECT {CHECKED_COLUMNS} FROM transactions WHERE (brand, gateway_reference) > (%s, %s)
    ORDER BY brand, gateway_reference LIMIT %s
"""

_SELECT_BREAKERS = "SELECT brand, breaker FROM channels WHERE breaker IS NOT NULL"


async def integrity_errors(connection: PostgresConnection) -> Sequence[str]:
    """Everything that is wrong, in words; reads all of it, in one snapshot, while gateways go on writing."""
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    await connection.execute("SET LOCAL statement_timeout = 0")
    found: list[str] = []
    at = ("", "")
    while page := await fetch_rows(connection, _SELECT_TRANSACTION_PAGE, *at, _PAGE_SIZE):
        found += [fault for row in page if (fault := transaction_row_error(row)) is not None]
        at = (page[-1][1], page[-1][0])
    for id, brand in await fetch_rows(connection, "SELECT id, brand FROM brands"):
        try:
            parse_brand(brand)
        except StoreCorrupt as error:
            found.append(f"brand {id}: {error}")
    for brand, breaker in await fetch_rows(connection, _SELECT_BREAKERS):
        try:
            parse_breaker(breaker)
        except StoreCorrupt as error:
            found.append(f"breaker of brand {brand}: {error}")
    for what, condition in _INVARIANT_VIOLATIONS.items():
        ((times,),) = await fetch_rows(connection, f"SELECT count(*) FROM {condition}")
        if times:
            found.append(f"{what}: {times}")
    await connection.execute("COMMIT")
    return found


def _without_transaction(table: str) -> str:
    return (
        f"{table} AS one WHERE NOT EXISTS (SELECT FROM transactions AS t"
        " WHERE t.brand = one.brand AND t.gateway_reference = one.gateway_reference)"
    )


_INVARIANT_VIOLATIONS = {
    "transactions that are final and still wake, or pending and never do": (
        "transactions WHERE (status = 'pending') = (wake_at IS NULL)"
    ),
    "kept intents without their transaction": _without_transaction("intents"),
    "merchantReferences without their transaction": _without_transaction("reference_uses"),
    "deposits without their transaction": _without_transaction("deposits"),
    "kept intents without their holder": (
        "intents WHERE NOT EXISTS (SELECT FROM holders WHERE holders.id = intents.holder)"
    ),
    "transactions without a line in the journal": (
        "transactions AS t WHERE NOT EXISTS"
        " (SELECT FROM journal AS j WHERE j.gateway_reference = t.gateway_reference)"
    ),
    "lines of the journal later than the latest stamp": (
        "journal WHERE at > (SELECT coalesce(max(stamp), 0) FROM batches)"
    ),
}
