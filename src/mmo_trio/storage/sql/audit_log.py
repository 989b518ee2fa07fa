"""The audit log in SQL: its head is one row, so that rows are added one after the other by however many nodes."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_trio.storage.interface.admin_types import AuditEvent, AuditHead, AuditRow
from mmo_trio.storage.interface.audit_chain import next_row
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute

_AUDIT_COLUMNS = "number, at, actor, act, about, detail, previous, hash"


def append_audit(event: AuditEvent) -> SqlQuery[AuditRow]:
    """Who adds a row holds the head until it is committed."""
    rows = yield from execute("UPDATE audit_head SET number = number + 1 RETURNING number, hash")
    [(number, hash)] = rows
    row = next_row(AuditHead(number - 1, hash), event)
    yield from execute(
        f"INSERT INTO audit ({_AUDIT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row.number,
        event.at,
        event.actor,
        event.action,
        event.about,
        event.detail,
        row.previous_hash,
        row.hash,
    )
    yield from execute("UPDATE audit_head SET hash = ?", row.hash)
    return row


def audit(before: int | None, about: str | None, limit: int) -> SqlQuery[Sequence[AuditRow]]:
    """The newest first."""
    conditions, values = ["1 = 1"], list[object]()
    if before is not None:
        conditions.append("number < ?")
        values.append(before)
    if about is not None:
        conditions.append("about = ?")
        values.append(about)
    rows = yield from execute(
        f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?",
        *values,
        limit,
    )
    return [_parse_audit_row(row) for row in rows]


def audit_after(number: int, limit: int) -> SqlQuery[Sequence[AuditRow]]:
    """In order."""
    rows = yield from execute(
        f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE number > ? ORDER BY number LIMIT ?",
        number,
        limit,
    )
    return [_parse_audit_row(row) for row in rows]


def audit_head() -> SqlQuery[AuditHead]:
    """Where it ends."""
    rows = yield from execute("SELECT number, hash FROM audit_head")
    return AuditHead(*rows[0])


def _parse_audit_row(row: Row) -> AuditRow:
    return AuditRow(row[0], AuditEvent(*row[1:6]), row[6], row[7])
