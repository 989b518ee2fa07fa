"""Raises the generation of what processes keep in memory, closes providers, and keeps notes of them, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_trio.storage.interface.admin_types import ClosedProvider, Configuration, NoteTopic, ProviderNote
from mmo_trio.storage.sql.statements import ANY_OF, Row, SqlQuery, execute, returns_row, select

SELECT_CONFIGURATION = (
    "SELECT configuration.generation, closed_providers.name FROM configuration LEFT JOIN closed_providers ON 1 = 1"
)
"""One statement, as each process repeats it every second."""


def parse_configuration(rows: Sequence[Row]) -> Configuration:
    """Return the configuration of rows of SELECT_CONFIGURATION."""
    return Configuration(rows[0][0], frozenset(name for _, name in rows if name is not None))


def raise_generation() -> SqlQuery[None]:
    """Let every process read again what this transaction changes."""
    yield from execute("UPDATE configuration SET generation = generation + 1")


def raising_generation(change: SqlQuery[bool]) -> SqlQuery[bool]:
    """Run a conversation that tells whether it has changed anything, and if so, let every process read that again."""
    has_changed = yield from change
    if has_changed:
        yield from raise_generation()
    return has_changed


def closed_providers() -> SqlQuery[Sequence[ClosedProvider]]:
    """Return the providers that are closed for new payments, by name."""
    rows = yield from execute("SELECT name, closed_at, closed_by, reason FROM closed_providers")
    return sorted((ClosedProvider(*row) for row in rows), key=lambda each: each.name)


def close_provider(closed: ClosedProvider) -> SqlQuery[bool]:
    """Close a provider for new payments; return False when it is closed already."""
    change = returns_row(
        "INSERT INTO closed_providers (name, closed_at, closed_by, reason) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO NOTHING RETURNING 1",
        closed.name,
        closed.closed_at,
        closed.closed_by,
        closed.reason,
    )
    return raising_generation(change)


def open_provider(name: str) -> SqlQuery[bool]:
    """Open a provider again; return False when it isn't closed."""
    return raising_generation(returns_row("DELETE FROM closed_providers WHERE name = ? RETURNING 1", name))


def provider_notes(*topics: NoteTopic) -> SqlQuery[Sequence[ProviderNote]]:
    """Return the notes with these topics, by provider, topic and subject."""
    notes = yield from select(
        lambda row: ProviderNote(row[0], NoteTopic(row[1]), *row[2:]),
        f"SELECT provider, topic, subject, at, content FROM provider_notes WHERE topic {ANY_OF}",
        [str(each) for each in topics],
    )
    return sorted(notes, key=lambda each: (each.provider, each.topic, each.subject))


def note_provider(note: ProviderNote, *, replacing: ProviderNote | None = None) -> SqlQuery[bool]:
    """Write a note; return False when another one than the one to replace is there."""
    values: list[object] = [note.provider, str(note.topic), note.subject, note.at, note.content]
    condition = ""
    if replacing is not None:
        condition = " WHERE provider_notes.at = ? AND provider_notes.content = ?"
        values += [replacing.at, replacing.content]
    return returns_row(
        "INSERT INTO provider_notes (provider, topic, subject, at, content) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (provider, topic, subject) DO UPDATE SET at = excluded.at, content = excluded.content"
        f"{condition} RETURNING 1",
        *values,
    )


def remove_provider_notes(provider: str, topic: NoteTopic) -> SqlQuery[None]:
    """Remove the notes of a provider with this topic."""
    yield from execute("DELETE FROM provider_notes WHERE provider = ? AND topic = ?", provider, str(topic))
