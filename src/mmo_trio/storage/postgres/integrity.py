"""Looking for damage: rows that aren't what was written, and what must be true between rows."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.postgres.bridge import Connection
from mmo_trio.storage.postgres.queries import rows
from mmo_trio.storage.sql.columns import EXAMINED, fault_of
from mmo_trio.storage.sql.serialization import brand_of, breaker_of

_PAGE = 1_000

_TRANSACTIONS = f"""
    SELECT {EXAMINED} FROM transactions WHERE (brand, gateway_reference) > (%s, %s)
    ORDER BY brand, gateway_reference LIMIT %s
"""

_BREAKERS = "SELECT brand, breaker FROM channels WHERE breaker IS NOT NULL"


async def faults(connection: Connection) -> Sequence[str]:
    """Everything that is wrong, in words; reads all of it, in one snapshot, while gateways go on writing."""
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    await connection.execute("SET LOCAL statement_timeout = 0")
    found: list[str] = []
    at = ("", "")
    while page := await rows(connection, _TRANSACTIONS, *at, _PAGE):
        found += [fault for row in page if (fault := fault_of(row)) is not None]
        at = (page[-1][1], page[-1][0])
    for id, brand in await rows(connection, "SELECT id, brand FROM brands"):
        try:
            brand_of(brand)
        except StoreCorrupt as error:
            found.append(f"brand {id}: {error}")
    for brand, breaker in await rows(connection, _BREAKERS):
        try:
            breaker_of(breaker)
        except StoreCorrupt as error:
            found.append(f"breaker of brand {brand}: {error}")
    for what, condition in _BROKEN_PROMISES.items():
        ((times,),) = await rows(connection, f"SELECT count(*) FROM {condition}")
        if times:
            found.append(f"{what}: {times}")
    await connection.execute("COMMIT")
    return found


def _without_transaction(table: str) -> str:
    return (
        f"{table} AS one WHERE NOT EXISTS (SELECT FROM transactions AS t"
        " WHERE t.brand = one.brand AND t.gateway_reference = one.gateway_reference)"
    )


_BROKEN_PROMISES = {
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
