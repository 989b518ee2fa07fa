"""The audit log in SQL: its head is one row, so that rows are added one after the other by however many nodes."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_trio.storage.interface.admin_types import AuditRow, Deed, Head
from mmo_trio.storage.interface.audit_chain import next_row
from mmo_trio.storage.sql.statements import Conversation, Row, ask

_ROW = "number, at, actor, act, about, detail, previous, hash"


def note(deed: Deed) -> Conversation[AuditRow]:
    """Who adds a row holds the head until it is committed."""
    rows = yield from ask("UPDATE audit_head SET number = number + 1 RETURNING number, hash")
    [(number, hash)] = rows
    row = next_row(Head(number - 1, hash), deed)
    yield from ask(
        f"INSERT INTO audit ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row.number,
        deed.at,
        deed.actor,
        deed.act,
        deed.about,
        deed.detail,
        row.previous,
        row.hash,
    )
    yield from ask("UPDATE audit_head SET hash = ?", row.hash)
    return row


def audit(before: int | None, about: str | None, limit: int) -> Conversation[Sequence[AuditRow]]:
    """The newest first."""
    conditions, values = ["1 = 1"], list[object]()
    if before is not None:
        conditions.append("number < ?")
        values.append(before)
    if about is not None:
        conditions.append("about = ?")
        values.append(about)
    rows = yield from ask(
        f"SELECT {_ROW} FROM audit WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?",
        *values,
        limit,
    )
    return [_row_of(row) for row in rows]


def audit_after(number: int, limit: int) -> Conversation[Sequence[AuditRow]]:
    """In order."""
    rows = yield from ask(
        f"SELECT {_ROW} FROM audit WHERE number > ? ORDER BY number LIMIT ?", number, limit
    )
    return [_row_of(row) for row in rows]


def audit_head() -> Conversation[Head]:
    """Where it ends."""
    rows = yield from ask("SELECT number, hash FROM audit_head")
    return Head(*rows[0])


def _row_of(row: Row) -> AuditRow:
    return AuditRow(row[0], Deed(*row[1:6]), row[6], row[7])
