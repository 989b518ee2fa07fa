"""Finds a stored brand for a command, and shows its keys by number, never themselves (A5)."""

from __future__ import annotations

from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.output import format_instant
from mmo_trio.storage.interface.admin_types import BrandRecord
from mmo_trio.storage.sql.store import Store


async def find_brand(store: Store, id: str) -> BrandRecord:
    """Return the brand with this id. Raises NegativeAnswer when there is none."""
    record = await store.brand_record(id)
    if record is None:
        raise NegativeAnswer(f"There is no brand {id}. `mmo brands list` shows those there are.")
    return record


def brand_keys_to_json(record: BrandRecord) -> list[dict[str, object]]:
    """Return the number of each key of a brand, and when it was added, retired and reported as
    leaked."""
    return [
        {
            "id": key.id,
            "addedAt": format_instant(key.added_at),
            "retiredAt": format_instant(key.retired_at),
            "leakedAt": format_instant(key.leaked_at),
        }
        for key in record.keys
    ]
