"""The audit log in SQL: its head is one row, so that any number of processes append one after the
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmo_trio.storage.interface.admin_types import AuditEvent, AuditHead, AuditKey, AuditRow
from mmo_trio.storage.interface.audit_chain import next_row
from mmo_trio.storage.sql.statements import (
    Row,
    SqlQuery,
    Where,
    execute,
    select,
    select_newest,
    values_of,
)

# What the index `audit_changes` says in the same words: that nobody has only looked, or come and
# gone.
_IS_CHANGE = "act NOT IN ('personal_data_viewed', 'signed_in', 'signed_out', 'sign_in_failed')"

_AUDIT_COLUMNS = "number, at, actor, act, about, detail, previous, hash, key_id, mac"


def append_audit(event: AuditEvent, key: AuditKey) -> SqlQuery[AuditRow]:
    """Append an event to the audit log; the action waits for this first. The update of the head
    keeps other processes waiting until it is committed."""
    # 1. Lock the head: nobody else appends until this row is committed.
    rows = yield from execute("UPDATE audit_head SET number = number + 1 RETURNING number, hash")
    [(number, hash)] = rows

    # 2. The row follows the head that was there.
    row = next_row(AuditHead(number - 1, hash), event, key)
    yield from execute(
        f"INSERT INTO audit ({_AUDIT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(row.number, *values_of(event), row.previous_hash, row.hash, row.key_id, row.mac),
    )

    # 3. The head names it, so that a row that is cut off from the end is missed.
    yield from execute("UPDATE audit_head SET hash = ?", row.hash)
    return row


def audit(
    *,
    before: int | None = None,
    after: int | None = None,
    about: str | None = None,
    actor: str | None = None,
    only_changes: bool = False,
    limit: int = 50,
) -> SqlQuery[Sequence[AuditRow]]:
    """Return rows of the audit log, the newest first: those below a number, or those next above
    one; of all, or of those that have changed something."""
    where = Where().and_("number < ?", before).and_("number > ?", after)

    # In the words of its index, or else the planner does not use it.
    if only_changes:
        where.and_(_IS_CHANGE)

    where.and_("about = ?", about).and_("actor = ?", actor)
    text = f"SELECT {_AUDIT_COLUMNS} FROM audit {where}"
    return select_newest(_parse_audit_row, text, "number", *where.values, after=after, limit=limit)


def audit_after(number: int, *, limit: int) -> SqlQuery[Sequence[AuditRow]]:
    """Return rows above a number, in order."""
    return select(
        _parse_audit_row,
        f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE number > ? ORDER BY number LIMIT ?",
        number,
        limit,
    )


def audit_head() -> SqlQuery[AuditHead]:
    """Return where the log ends."""
    rows = yield from execute("SELECT number, hash FROM audit_head")
    return AuditHead(*rows[0])


def sealed_audit_keys() -> SqlQuery[Mapping[str, bytes]]:
    """Return the audit keys of earlier master keys by their ids, sealed with a later master key."""
    return dict((yield from execute("SELECT id, sealed FROM audit_keys")))


def save_audit_key(id: str, sealed: bytes) -> SqlQuery[None]:
    """Keep a sealed audit key; replace the one with this id."""
    yield from execute(
        "INSERT INTO audit_keys (id, sealed) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET sealed "
        "= excluded.sealed",
        id,
        sealed,
    )


def _parse_audit_row(row: Row) -> AuditRow:
    return AuditRow(row[0], AuditEvent(*row[1:6]), *row[6:])
