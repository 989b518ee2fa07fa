"""The queries that only SQLite needs; each runs in a read transaction of a connection of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from mmo_sansio.messages.intents import IntentKey, IntentKind, durable_intent
from mmo_sansio.messages.queries import AnyLookUp, LookUp
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import BrandRecord
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.sql.brand_keys import SELECT_BRANDS, parse_brand_records
from mmo_trio.storage.sql.serialization import OBJECT_COLUMNS, parse_transaction
from mmo_trio.storage.sql.statements import Row


def next_wake(connection: sqlite3.Connection, after: Instant) -> Instant | None:
    """Return the earliest `wake_at` that is later than `after`."""
    row = connection.execute("SELECT min(wake_at) FROM transactions WHERE wake_at > ?", (after,)).fetchone()
    return None if row[0] is None else Instant(int(row[0]))


def due(connection: sqlite3.Connection, now: Instant, limit: int) -> Sequence[str]:
    """Return the references of due transactions, the earliest first."""
    rows = connection.execute(
        "SELECT gateway_reference FROM transactions WHERE wake_at <= ? ORDER BY wake_at, id LIMIT ?", (now, limit)
    )
    return [reference for (reference,) in rows]


_SELECT_WORK = """
    SELECT intents.id, intents.gateway_reference, kind, order_row, progress
    FROM intents JOIN transactions USING (gateway_reference)
"""


def unclaimed_intents(connection: sqlite3.Connection, after_id: int, limit: int) -> Sequence[tuple[int, WorkItem]]:
    """Return unclaimed durable intents with greater ids, oldest first, each with its id."""
    rows = connection.execute(
        f"{_SELECT_WORK} WHERE is_held = 0 AND intents.id > ? ORDER BY intents.id LIMIT ?", (after_id, limit)
    )
    return [(row[0], _parse_work_item(row)) for row in rows]


def open_intents(connection: sqlite3.Connection, keys: Sequence[IntentKey]) -> Sequence[WorkItem]:
    """Return those of these durable intents that are open."""
    found: list[WorkItem] = []
    for reference, kind in keys:
        rows = connection.execute(
            f"{_SELECT_WORK} WHERE intents.gateway_reference = ? AND kind = ?", (reference, kind.value)
        )
        found.extend(map(_parse_work_item, rows))
    return found


def _parse_work_item(row: tuple[Any, ...]) -> WorkItem:
    _, reference, kind, order, progress = row
    return WorkItem(durable_intent(IntentKind(kind), reference), parse_transaction(order, progress))


def look_up(connection: sqlite3.Connection, queries: Sequence[AnyLookUp]) -> Sequence[Row | None]:
    """Return for each query a row of OBJECT_COLUMNS of the brand's transaction."""
    return [connection.execute(*_look_up_statement(each)).fetchone() for each in queries]


def _look_up_statement(query: AnyLookUp) -> tuple[str, tuple[str, str]]:
    if isinstance(query, LookUp):
        return (
            f"SELECT {OBJECT_COLUMNS} FROM transactions WHERE gateway_reference = ? AND brand = ?",
            (query.gateway_reference, query.brand),
        )
    return (
        f"SELECT {OBJECT_COLUMNS} FROM reference_uses AS used JOIN transactions USING (gateway_reference)"
        " WHERE used.merchant_reference = ? AND used.brand = ? ORDER BY used.at DESC LIMIT 1",
        (query.merchant_reference, query.brand),
    )


def find_brand(connection: sqlite3.Connection, brand: str) -> BrandRecord | None:
    """Return a brand with its keys, the oldest first."""
    rows = connection.execute(f"{SELECT_BRANDS} WHERE brands.id = ? ORDER BY api_keys.id", (brand,))
    return parse_brand_records(rows).get(brand)
