"""What administration changes in PostgreSQL; each inside a transaction that is committed afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand
from mmo_trio.storage.interface.store import ClosedProvider
from mmo_trio.storage.postgres.bridge import PostgresConnection
from mmo_trio.storage.postgres.text_encoding import escape_text, is_storable
from mmo_trio.storage.sql.serialization import serialize_brand


async def close_suspense(
    connection: PostgresConnection, id: int, *, by: str, note: str, now: Instant
) -> bool:
    """Close an open entry; False when there is none."""
    closed = await connection.execute(
        "UPDATE suspense SET closed_at = %s, closed_by = %s, note = %s"
        " WHERE id = %s AND closed_at IS NULL",
        (now, escape_text(by), escape_text(note), id),
    )
    return closed.rowcount == 1


async def save_brands(
    connection: PostgresConnection, brands: Sequence[Brand], removed: Sequence[str]
) -> None:
    """Add, replace and remove; the keys of a removed brand go with it."""
    await connection.execute(
        "DELETE FROM brands WHERE id = ANY(%s::text[])", (sorted(filter(is_storable, removed)),)
    )
    await connection.execute(
        "UPDATE channels SET breaker = NULL WHERE brand = ANY(%s::text[])",
        (sorted(filter(is_storable, removed)),),
    )
    rows = sorted((brand.id, serialize_brand(brand)) for brand in brands)
    await connection.execute(
        "INSERT INTO brands (id, brand) SELECT * FROM unnest(%s::text[], %s::text[])"
        " ON CONFLICT (id) DO UPDATE SET brand = excluded.brand",
        ([id for id, _ in rows], [row for _, row in rows]),
    )


async def add_key(
    connection: PostgresConnection, brand: str, digest: bytes, sealed: bytes, now: Instant
) -> bool:
    """Add a key; False when its digest is there. Raises KeyError for an unknown brand."""
    known = (
        is_storable(brand)
        and await (
            await connection.execute("SELECT 1 FROM brands WHERE id = %s FOR KEY SHARE", (brand,))
        ).fetchone()
    )
    if not known:
        raise KeyError(brand)
    added = await connection.execute(
        "INSERT INTO api_keys (brand, digest, sealed, added_at) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (digest) DO NOTHING",
        (brand, digest, sealed, now),
    )
    return added.rowcount == 1


async def retire_key(connection: PostgresConnection, brand: str, id: int, now: Instant) -> bool:
    """Retire a key; False when the brand has no such key in use."""
    if not is_storable(brand):
        return False
    retired = await connection.execute(
        "UPDATE api_keys SET retired_at = %s WHERE id = %s AND brand = %s AND retired_at IS NULL",
        (now, id, brand),
    )
    return retired.rowcount == 1


async def close_provider(connection: PostgresConnection, closed: ClosedProvider) -> bool:
    """Close a provider for new payments; False when it is closed."""
    done = await connection.execute(
        "INSERT INTO closed_providers (name, closed_at, closed_by, reason) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (name) DO NOTHING",
        (closed.name, closed.closed_at, escape_text(closed.closed_by), escape_text(closed.reason)),
    )
    return done.rowcount == 1


async def open_provider(connection: PostgresConnection, name: str) -> bool:
    """Open it again; False when it isn't closed."""
    if not is_storable(name):
        return False
    done = await connection.execute("DELETE FROM closed_providers WHERE name = %s", (name,))
    return done.rowcount == 1
