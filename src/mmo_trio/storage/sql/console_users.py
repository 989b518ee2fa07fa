"""Stores console users, their sessions, attempts to sign in, and proposals in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditKey,
    ConsoleSession,
    ConsoleUser,
    Proposal,
    ProposalState,
    Role,
    SignInAttempt,
)
from mmo_trio.storage.sql.audit_log import append_audit
from mmo_trio.storage.sql.statements import Row, SqlQuery, Where, execute, returns_row, select

_USER_COLUMNS = "name, role, password_hash, added_at, disabled_at"


def add_user(user: ConsoleUser) -> SqlQuery[bool]:
    """Add a user; return False when the name is taken."""
    return returns_row(
        f"INSERT INTO console_users ({_USER_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING 1",
        *_user_values(user),
    )


def replace_user(user: ConsoleUser) -> SqlQuery[bool]:
    """Replace a user and end all its sessions; return False when there is no user of that name."""
    name, *values = _user_values(user)
    changed = yield from execute(
        "UPDATE console_users SET role = ?, password_hash = ?, added_at = ?, disabled_at = ?"
        " WHERE name = ? RETURNING 1",
        *values,
        name,
    )
    yield from execute("DELETE FROM sessions WHERE user_name = ?", name)
    return bool(changed)


def users() -> SqlQuery[Sequence[ConsoleUser]]:
    """Return every user, by name."""
    return select(_parse_user, f"SELECT {_USER_COLUMNS} FROM console_users ORDER BY name")


def user(name: str) -> SqlQuery[ConsoleUser | None]:
    """Return the user of this name."""
    rows = yield from execute(f"SELECT {_USER_COLUMNS} FROM console_users WHERE name = ?", name)
    return _parse_user(rows[0]) if rows else None


def begin_session(session: ConsoleSession, *, expire_before: Instant) -> SqlQuery[None]:
    """Store a session, and delete those that began before a time."""
    yield from execute("DELETE FROM sessions WHERE began_at < ?", expire_before)
    yield from execute(
        "INSERT INTO sessions (digest, user_name, began_at, seen_at) VALUES (?, ?, ?, ?)",
        session.digest,
        session.user,
        session.began_at,
        session.seen_at,
    )


def session(digest: bytes) -> SqlQuery[tuple[ConsoleSession, ConsoleUser] | None]:
    """Return a session and its user, as that user is now."""
    rows = yield from execute(
        f"SELECT digest, user_name, began_at, seen_at, {_USER_COLUMNS}"
        " FROM sessions JOIN console_users ON name = user_name WHERE digest = ?",
        digest,
    )
    return (ConsoleSession(*rows[0][:4]), _parse_user(rows[0][4:])) if rows else None


def touch_session(digest: bytes, at: Instant) -> SqlQuery[None]:
    """Record that a session is in use."""
    yield from execute("UPDATE sessions SET seen_at = ? WHERE digest = ?", at, digest)


def end_session(digest: bytes) -> SqlQuery[None]:
    """End a session, if it is there."""
    yield from execute("DELETE FROM sessions WHERE digest = ?", digest)


def record_sign_in_attempt(attempt: SignInAttempt, *, expire_before: Instant) -> SqlQuery[None]:
    """Record an attempt, and delete those before a time."""
    yield from execute("DELETE FROM sign_in_attempts WHERE at < ?", expire_before)
    yield from execute(
        "INSERT INTO sign_in_attempts (name, network, at) VALUES (?, ?, ?)", attempt.name, attempt.network, attempt.at
    )


def sign_in_attempts(name: str, network: str, *, since: Instant) -> SqlQuery[Sequence[SignInAttempt]]:
    """Return the attempts since a time with this name or from this network, in the order of time."""
    return select(
        lambda row: SignInAttempt(*row),
        "SELECT name, network, at FROM sign_in_attempts WHERE at >= ? AND (name = ? OR network = ?) ORDER BY at",
        since,
        name,
        network,
    )


def forget_sign_in_attempts(name: str, network: str) -> SqlQuery[None]:
    """Delete the attempts with this name from this network."""
    yield from execute("DELETE FROM sign_in_attempts WHERE name = ? AND network = ?", name, network)


PROPOSAL_COLUMNS = (
    "gateway_reference, brand, error_code, provider_reference, reason, evidence, proposed_by,"
    " proposed_at, state, decided_by, decided_at, remark"
)


def proposal_columns(proposal: Proposal) -> Sequence[object]:
    """Return what a row holds besides its id."""
    return (
        proposal.gateway_reference,
        proposal.brand,
        proposal.error_code,
        proposal.provider_reference,
        proposal.reason,
        proposal.evidence,
        proposal.proposed_by,
        proposal.proposed_at,
        proposal.state.value,
        proposal.decided_by,
        proposal.decided_at,
        proposal.remark,
    )


def add_proposal(proposal: Proposal) -> SqlQuery[int | None]:
    """Store a proposal and return its id; return None, and store nothing, while there is an unfinished one about the
    same payment."""
    rows = yield from execute(
        f"INSERT INTO proposals ({PROPOSAL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING RETURNING id",
        *proposal_columns(proposal),
    )
    return int(rows[0][0]) if rows else None


def proposals(
    *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
) -> SqlQuery[Sequence[Proposal]]:
    """Return proposals about one payment or in one state, the newest first."""
    where = Where().and_("gateway_reference = ?", about).and_("state = ?", state and state.value)
    return select(
        parse_proposal,
        f"SELECT id, {PROPOSAL_COLUMNS} FROM proposals {where} ORDER BY id DESC LIMIT ?",
        *where.values,
        limit,
    )


def proposal(id: int) -> SqlQuery[Proposal | None]:
    """Return the proposal with this id."""
    rows = yield from execute(f"SELECT id, {PROPOSAL_COLUMNS} FROM proposals WHERE id = ?", id)
    return parse_proposal(rows[0]) if rows else None


def update_proposal(
    expected_state: ProposalState, updated: Proposal, *, event: tuple[AuditEvent, AuditKey] | None = None
) -> SqlQuery[bool]:
    """Replace a proposal that is in the expected state, and append the event to the audit log, both or neither; return
    False when it isn't in that state any more. Of two users who decide at once, one succeeds."""
    is_replaced = yield from returns_row(
        "UPDATE proposals SET state = ?, decided_by = ?, decided_at = ?, remark = ?"
        " WHERE id = ? AND state = ? RETURNING 1",
        updated.state.value,
        updated.decided_by,
        updated.decided_at,
        updated.remark,
        updated.id,
        expected_state.value,
    )
    if is_replaced and event is not None:
        yield from append_audit(*event)
    return is_replaced


def _user_values(user: ConsoleUser) -> tuple[Any, ...]:
    return (user.name, user.role.value, user.password_hash, user.added_at, user.disabled_at)


def _parse_user(row: Row) -> ConsoleUser:
    return ConsoleUser(row[0], Role(row[1]), *row[2:])


def parse_proposal(row: Row) -> Proposal:
    """Return the proposal of a row: its id, then PROPOSAL_COLUMNS."""
    return Proposal(*(*row[:9], ProposalState(row[9]), *row[10:]))
