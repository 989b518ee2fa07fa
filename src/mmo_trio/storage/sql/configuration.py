"""Reads and raises the generation of what processes keep in memory, closes providers and keeps
notes of them, and says which store it is and what follows when it was restored, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.resilience.store_mark import StoreMark, StoreState
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface import admin_types
from mmo_trio.storage.sql.monitoring import hold_brand
from mmo_trio.storage.sql.statements import (
    ANY_OF,
    Row,
    SqlQuery,
    execute,
    returns_row,
    select,
    values_of,
)

STORE_STATE_COLUMNS = "id, epoch, command_epoch, raised_at, former_ids"
SELECT_STORE_STATE = f"SELECT {STORE_STATE_COLUMNS} FROM store_state"

# One statement, as each process repeats it every second. The joined rows are few: what is stopped.
# LEFT JOIN ON true: the generation comes also when nothing is.
SELECT_CONFIGURATION = """
    SELECT configuration.generation, stopped.provider, stopped.brand FROM configuration LEFT JOIN (
        SELECT name AS provider, NULL AS brand FROM closed_providers
        UNION ALL SELECT NULL, brand FROM restored_brands
    ) AS stopped ON 1 = 1
"""


def parse_configuration(rows: Sequence[Row]) -> admin_types.Configuration:
    """Return the configuration of rows of SELECT_CONFIGURATION."""
    closed = frozenset(provider for _, provider, _ in rows if provider is not None)
    return admin_types.Configuration(
        rows[0][0], closed, frozenset(brand for *_, brand in rows if brand is not None)
    )


def raise_generation() -> SqlQuery[None]:
    """Let every process read again what this transaction changes."""
    yield from execute("UPDATE configuration SET generation = generation + 1")


def raising_generation(change: SqlQuery[bool]) -> SqlQuery[bool]:
    """Run a conversation that tells whether it has changed anything, and if so, let every process
    read that again."""
    has_changed = yield from change
    if has_changed:
        yield from raise_generation()
    return has_changed


def closed_providers() -> SqlQuery[Sequence[admin_types.ClosedProvider]]:
    """Return the providers that are closed for new payments, by name."""
    rows = yield from execute("SELECT name, closed_at, closed_by, reason FROM closed_providers")

    # Sorted here: the databases order text by different rules.
    return sorted(
        (admin_types.ClosedProvider(*row) for row in rows), key=lambda closed: closed.name
    )


def close_provider(closed: admin_types.ClosedProvider) -> SqlQuery[bool]:
    """Close a provider for new payments; return False when it is closed already."""
    change = returns_row(
        "INSERT INTO closed_providers (name, closed_at, closed_by, reason) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO NOTHING RETURNING 1",
        *values_of(closed),
    )
    return raising_generation(change)


def open_provider(name: str) -> SqlQuery[bool]:
    """Open a provider again; return False when it isn't closed."""
    return raising_generation(
        returns_row("DELETE FROM closed_providers WHERE name = ? RETURNING 1", name)
    )


def provider_notes(*topics: admin_types.NoteTopic) -> SqlQuery[Sequence[admin_types.ProviderNote]]:
    """Return the notes with these topics, by provider, topic and subject."""
    notes = yield from select(
        lambda row: admin_types.ProviderNote(row[0], admin_types.NoteTopic(row[1]), *row[2:]),
        f"SELECT provider, topic, subject, at, content FROM provider_notes WHERE topic {ANY_OF}",
        [str(topic) for topic in topics],
    )
    return sorted(notes, key=lambda note: (note.provider, note.topic, note.subject))


def note_provider(
    note: admin_types.ProviderNote, *, replacing: admin_types.ProviderNote | None = None
) -> SqlQuery[bool]:
    """Write a note in place of the one with its provider, topic and subject. Return False, and
    write nothing, when that is another one than the one to replace; None: whatever is there is
    replaced."""
    values: list[object] = [note.provider, str(note.topic), note.subject, note.at, note.content]

    # Two processes may check an account at once: the slower one must not overwrite what it has not
    # seen.
    condition = ""
    if replacing is not None:
        condition = " WHERE provider_notes.at = ? AND provider_notes.content = ?"
        values += [replacing.at, replacing.content]

    return returns_row(
        "INSERT INTO provider_notes (provider, topic, subject, at, content) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (provider, topic, subject) DO UPDATE SET at = excluded.at, content = "
        "excluded.content"
        f"{condition} RETURNING 1",
        *values,
    )


def remove_provider_notes(
    provider: str, topic: admin_types.NoteTopic, *, until: Instant | None = None
) -> SqlQuery[None]:
    """Remove the notes of a provider with this topic; only those up to a time, where one is
    given."""
    condition = ""
    values: list[object] = [provider, str(topic)]
    if until is not None:
        condition = " AND at <= ?"
        values.append(until)

    yield from execute(
        f"DELETE FROM provider_notes WHERE provider = ? AND topic = ?{condition}", *values
    )


def parse_store_state(
    rows: Sequence[Row], timeline: int | None = None, *, is_synchronous: bool = False
) -> StoreState:
    """Return the state of a row of STORE_STATE_COLUMNS."""
    id, epoch, command_epoch, raised_at, former_ids = rows[0]
    mark = StoreMark(id, epoch, command_epoch, raised_at, timeline, is_synchronous)
    return StoreState(mark, frozenset(former_ids.split()))


def begin_restoration(
    store_id: str, holds: Sequence[admin_types.BrandHold], lost_id: str = ""
) -> SqlQuery[None]:
    """Give a store that was restored another id, and hold these brands: they take no payments, and
    what is not found of theirs may be missing, until `finish_restoration`. `lost_id` is the name
    that was lost with what the backup lacks, where it has another; marks with it stay good.

    All sessions of the console end, and what was typed in them goes."""
    yield from execute(
        "UPDATE store_state SET former_ids = trim(former_ids || ' ' || id || ' ' || ?), id = ?",
        lost_id,
        store_id,
    )

    # Held as well as restored: nothing is submitted of what was pending in the backup, as it may
    # have been paid since.
    for hold in holds:
        yield from execute(
            "INSERT INTO restored_brands (brand) VALUES (?) ON CONFLICT (brand) DO NOTHING",
            hold.brand,
        )
        yield from hold_brand(hold)

    # Those of the backup may have ended since, by a user or with one.
    yield from execute("DELETE FROM sessions")
    yield from execute("DELETE FROM console_inputs")
    yield from raise_generation()


def finish_restoration(brand: str) -> SqlQuery[bool]:
    """Let a brand of a restored store take payments again, unless staff hold it; return False when
    it does."""
    # Only the hold of the restoration: one of staff has its own reason.
    yield from execute(
        "DELETE FROM brand_holds WHERE brand = ? AND held_by = ?", brand, admin_types.RESTORATION
    )
    released = returns_row("DELETE FROM restored_brands WHERE brand = ? RETURNING 1", brand)
    return (yield from raising_generation(released))
