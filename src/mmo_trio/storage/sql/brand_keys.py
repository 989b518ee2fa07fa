"""Stores brands and their API keys in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditKey,
    BrandHold,
    BrandRecord,
    StoredApiKey,
    StoredMasterKey,
)
from mmo_trio.storage.sql.audit_log import append_audit
from mmo_trio.storage.sql.configuration import raise_generation, raising_generation
from mmo_trio.storage.sql.monitoring import hold_brand, release_brand
from mmo_trio.storage.sql.serialization import parse_brand, serialize_brand
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute, returns_row

# The columns of a `StoredApiKey`, in the order of its fields.
_KEY_COLUMNS = "api_keys.id, api_keys.brand, digest, sealed, added_at, retired_at, leaked_at"

# Selects brands with their keys; `parse_brand_records` reads the rows, which are in the order of
# the keys' ids.
SELECT_BRANDS = (
    f"SELECT brands.id, brands.brand, {_KEY_COLUMNS} FROM brands LEFT JOIN api_keys ON "
    f"api_keys.brand = brands.id"
)

# Has a new brand wait as those of a restored store do: it may be one of after the backup, whose
# payments are missing. Where none waits, the table is empty, and nothing is selected from it.
_WAIT_IF_NEW = """
    INSERT INTO restored_brands (brand) SELECT DISTINCT ? FROM restored_brands
    WHERE NOT EXISTS (SELECT 1 FROM brands WHERE id = ?) ON CONFLICT (brand) DO NOTHING
"""


def brands() -> SqlQuery[Sequence[BrandRecord]]:
    """Return every brand with its keys, by the brands' ids."""
    rows = yield from execute(f"{SELECT_BRANDS} ORDER BY api_keys.id")
    found = parse_brand_records(rows)
    return [found[id] for id in sorted(found)]


def parse_brand_records(rows: Iterable[Row]) -> Mapping[str, BrandRecord]:
    """Return the brands of these rows with their keys, by the brands' ids."""
    texts: dict[str, str] = {}
    keys: dict[str, list[StoredApiKey]] = {}
    for id, text, *key in rows:
        texts[id] = text
        of_brand = keys.setdefault(id, [])

        # A brand without a key has one row of NULLs.
        if key[0] is not None:
            of_brand.append(StoredApiKey(*key))
    return {id: BrandRecord(parse_brand(texts[id]), tuple(keys[id])) for id in texts}


def save_brands(
    brands: Sequence[Brand],
    removed: Sequence[str],
    *,
    clear_breaker: str,
    replaced: Mapping[str, Brand | None] | None = None,
    event: tuple[AuditEvent, AuditKey] | None = None,
) -> SqlQuery[Sequence[str]]:
    """Add, replace and remove brands, in the order of their ids; a removed brand's keys and breaker
    go with it, and the event goes to the audit log.

    With the versions that are to be replaced, None for a brand that is not there yet, nothing
    happens where others are in force: the ids of these brands are returned."""
    # All or nothing: two users who edit at once must not undo each other's changes unseen.
    if replaced is not None:
        overtaken = yield from _find_overtaken(replaced)
        if overtaken:
            return overtaken

    # In the order of the ids, as every process writes them: no two wait for each other.
    for id in sorted(removed):
        yield from execute("DELETE FROM brands WHERE id = ?", id)
        yield from execute(clear_breaker, id)

    # Before the insert, which makes the brand one that is there.
    for brand in sorted(brands, key=lambda brand: brand.id):
        yield from execute(_WAIT_IF_NEW, brand.id, brand.id)
        yield from execute(
            "INSERT INTO brands (id, brand) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET brand = "
            "excluded.brand",
            brand.id,
            serialize_brand(brand),
        )

    yield from raise_generation()
    if event is not None:
        yield from append_audit(*event)

    return ()


def _find_overtaken(replaced: Mapping[str, Brand | None]) -> SqlQuery[Sequence[str]]:
    """Lock these brands, and return the ids of those that are not in this version."""
    overtaken = []
    for id in sorted(replaced):
        # An update that changes nothing locks the row in both databases.
        rows = yield from execute("UPDATE brands SET id = id WHERE id = ? RETURNING brand", id)
        in_force = None
        if rows:
            in_force = parse_brand(rows[0][0])

        if in_force != replaced[id]:
            overtaken.append(id)

    return overtaken


def switch_brand(
    id: str,
    *,
    enabled: bool,
    hold: BrandHold | None = None,
    event: tuple[AuditEvent, AuditKey],
) -> SqlQuery[bool]:
    """Enable a brand and end its hold, or disable it, with a hold if one is given; everything else
    of the brand stays as it is in force. Return False, and do nothing, when there is no brand."""
    # Locked and read as it is in force: an edit that came just before is not undone.
    rows = yield from execute("UPDATE brands SET id = id WHERE id = ? RETURNING brand", id)
    if not rows:
        return False

    brand = evolve(parse_brand(rows[0][0]), enabled=enabled)
    yield from execute("UPDATE brands SET brand = ? WHERE id = ?", serialize_brand(brand), id)
    if enabled:
        yield from release_brand(id)
    elif hold is not None:
        yield from hold_brand(hold)

    yield from raise_generation()
    yield from append_audit(*event)
    return True


def add_key(brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> SqlQuery[bool]:
    """Add a key; return False when its digest is there already. Raises KeyError for an unknown
    brand."""
    # This update locks the brand's row, so that nobody removes the brand before the key is stored.
    locked = yield from execute("UPDATE brands SET id = id WHERE id = ? RETURNING 1", brand)
    if not locked:
        raise KeyError(brand)

    return (
        yield from returns_row(
            "INSERT INTO api_keys (brand, digest, sealed, added_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (digest) DO NOTHING RETURNING 1",
            brand,
            digest,
            sealed,
            now,
        )
    )


def retire_key(brand: str, id: int, *, now: Instant) -> SqlQuery[bool]:
    """Retire a key; return False when the brand has no such key in use."""
    change = returns_row(
        "UPDATE api_keys SET retired_at = ? WHERE id = ? AND brand = ? AND retired_at IS NULL "
        "RETURNING 1",
        now,
        id,
        brand,
    )
    return raising_generation(change)


def mark_key_leaked(brand: str, id: int, *, now: Instant) -> SqlQuery[bool]:
    """Retire a key as leaked, also one that is retired already; return False when the brand has no
    such key, or it is marked already."""
    change = returns_row(
        "UPDATE api_keys SET retired_at = coalesce(retired_at, ?), leaked_at = ?"
        " WHERE id = ? AND brand = ? AND leaked_at IS NULL RETURNING 1",
        now,
        now,
        id,
        brand,
    )
    return raising_generation(change)


def reseal_key(id: int, digest: bytes, sealed: bytes) -> SqlQuery[None]:
    """Replace what is stored of a key, in use or retired, when another master key seals it."""
    yield from execute(
        "UPDATE api_keys SET digest = ?, sealed = ? WHERE id = ?", digest, sealed, id
    )


def master_keys() -> SqlQuery[Sequence[StoredMasterKey]]:
    """Return the master keys that the store's secrets are or were sealed with, the oldest first;
    none until the first use of the store."""
    rows = yield from execute(
        "SELECT generation, id, added_at, ended_at FROM master_keys ORDER BY generation"
    )
    return [StoredMasterKey(*row) for row in rows]


def add_master_key(added: StoredMasterKey) -> SqlQuery[bool]:
    """Add a master key; return False when its generation or its id is there already."""
    return returns_row(
        "INSERT INTO master_keys (generation, id, added_at) VALUES (?, ?, ?) ON CONFLICT DO "
        "NOTHING RETURNING 1",
        added.generation,
        added.id,
        added.added_at,
    )


def end_master_keys(*, below: int, now: Instant) -> SqlQuery[None]:
    """Record that master keys of generations below a number are not needed any more."""
    yield from execute(
        "UPDATE master_keys SET ended_at = ? WHERE generation < ? AND ended_at IS NULL", now, below
    )
