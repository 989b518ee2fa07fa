"""What administration changes in the SQLite file, and how it looks for damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand
from mmo_trio.storage.interface.store import ClosedProvider, StoreCorrupt
from mmo_trio.storage.sql.columns import CHECKED_COLUMNS, transaction_row_error
from mmo_trio.storage.sql.serialization import parse_brand, parse_breaker, serialize_brand


def close_suspense(
    connection: sqlite3.Connection, id: int, *, by: str, note: str, now: Instant
) -> bool:
    """Close an open entry; False when there is none."""
    closed = connection.execute(
        "UPDATE suspense SET closed_at = ?, closed_by = ?, note = ?"
        " WHERE id = ? AND closed_at IS NULL",
        (now, by, note, id),
    )
    _advance_latest_stamp(connection, now)
    return closed.rowcount == 1


def save_brands(
    connection: sqlite3.Connection, brands: Sequence[Brand], removed: Sequence[str]
) -> None:
    """Add, replace and remove; the keys of a removed brand go with it."""
    for table, column in (("brands", "id"), ("breakers", "brand")):
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(id,) for id in removed])
    connection.executemany(
        "INSERT INTO brands (id, brand) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET brand = excluded.brand",
        [(brand.id, serialize_brand(brand)) for brand in brands],
    )


def add_key(
    connection: sqlite3.Connection, brand: str, digest: bytes, sealed: bytes, now: Instant
) -> bool:
    """Add a key; False when its digest is there. Raises KeyError for an unknown brand."""
    if connection.execute("SELECT 1 FROM brands WHERE id = ?", (brand,)).fetchone() is None:
        raise KeyError(brand)
    added = connection.execute(
        "INSERT INTO api_keys (brand, digest, sealed, added_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (digest) DO NOTHING",
        (brand, digest, sealed, now),
    )
    _advance_latest_stamp(connection, now)
    return added.rowcount == 1


def retire_key(connection: sqlite3.Connection, brand: str, id: int, now: Instant) -> bool:
    """Retire a key; False when the brand has no such key in use."""
    retired = connection.execute(
        "UPDATE api_keys SET retired_at = ? WHERE id = ? AND brand = ? AND retired_at IS NULL",
        (now, id, brand),
    )
    _advance_latest_stamp(connection, now)
    return retired.rowcount == 1


def close_provider(connection: sqlite3.Connection, closed: ClosedProvider) -> bool:
    """Close a provider for new payments; False when it is closed."""
    done = connection.execute(
        "INSERT INTO closed_providers (name, closed_at, closed_by, reason) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO NOTHING",
        (closed.name, closed.closed_at, closed.closed_by, closed.reason),
    )
    _advance_latest_stamp(connection, closed.closed_at)
    return done.rowcount == 1


def open_provider(connection: sqlite3.Connection, name: str) -> bool:
    """Open it again; False when it isn't closed."""
    done = connection.execute("DELETE FROM closed_providers WHERE name = ?", (name,))
    return done.rowcount == 1


def write_nothing(connection: sqlite3.Connection) -> None:
    """Write something that changes nothing."""
    _advance_latest_stamp(connection, Instant(0))


def _advance_latest_stamp(connection: sqlite3.Connection, now: Instant) -> None:
    connection.execute("UPDATE latest_stamp SET at = max(at, ?)", (now,))


def integrity_errors(connection: sqlite3.Connection) -> Sequence[str]:
    """What is wrong with the file: its pages, its rows, and what must be true between rows."""
    connection.execute("BEGIN")  # One snapshot, while the gateway may go on writing.
    pages = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    found = [] if pages == ["ok"] else [f"SQLite finds: {each}" for each in pages]
    found += _damaged_rows(connection)
    for what, count in _INVARIANT_VIOLATIONS.items():
        (times,) = connection.execute(count).fetchone()
        if times:
            found.append(f"{what}: {times}")
    return found


def _damaged_rows(connection: sqlite3.Connection) -> Iterator[str]:
    for row in connection.execute(f"SELECT {CHECKED_COLUMNS} FROM transactions"):
        if (fault := transaction_row_error(row)) is not None:
            yield fault
    for id, brand in connection.execute("SELECT id, brand FROM brands"):
        try:
            parse_brand(brand)
        except StoreCorrupt as error:
            yield f"brand {id}: {error}"
    for brand, row in connection.execute("SELECT brand, breaker FROM breakers"):
        try:
            parse_breaker(row)
        except StoreCorrupt as error:
            yield f"breaker of brand {brand}: {error}"


_INVARIANT_VIOLATIONS = {
    "transactions that are final and still wake, or pending and never do": (
        "SELECT count(*) FROM transactions WHERE (status = 'pending') = (wake_at IS NULL)"
    ),
    "kept intents without their transaction": (
        "SELECT count(*) FROM intents"
        " WHERE gateway_reference NOT IN (SELECT gateway_reference FROM transactions)"
    ),
    "merchantReferences without their transaction": (
        "SELECT count(*) FROM reference_uses"
        " WHERE gateway_reference NOT IN (SELECT gateway_reference FROM transactions)"
    ),
    "deposits without their transaction": (
        "SELECT count(*) FROM deposits"
        " WHERE gateway_reference NOT IN (SELECT gateway_reference FROM transactions)"
    ),
    "transactions without a line in the journal": (
        "SELECT count(*) FROM transactions"
        " WHERE gateway_reference NOT IN"
        " (SELECT gateway_reference FROM journal WHERE gateway_reference IS NOT NULL)"
    ),
    "lines of the journal later than the latest stamp": (
        "SELECT count(*) FROM journal WHERE at > (SELECT at FROM latest_stamp)"
    ),
}
