"""Operators, their sessions and proposals in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import Operator, Proposal, ProposalState, Role, Session
from mmo_trio.storage.sql.statements import Conversation, Row, ask

_OPERATOR = "name, role, password_hash, added_at, disabled_at"


def add_operator(operator: Operator) -> Conversation[bool]:
    """False when the name is taken."""
    added = yield from ask(
        f"INSERT INTO operators ({_OPERATOR}) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO NOTHING RETURNING 1",
        *_columns(operator),
    )
    return bool(added)


def change_operator(operator: Operator) -> Conversation[bool]:
    """Its sessions end with what it was."""
    name, *rest = _columns(operator)
    changed = yield from ask(
        "UPDATE operators SET role = ?, password_hash = ?, added_at = ?, disabled_at = ?"
        " WHERE name = ? RETURNING 1",
        *rest,
        name,
    )
    yield from ask("DELETE FROM sessions WHERE operator = ?", name)
    return bool(changed)


def operators() -> Conversation[Sequence[Operator]]:
    """By name."""
    rows = yield from ask(f"SELECT {_OPERATOR} FROM operators ORDER BY name")
    return [_operator_of(row) for row in rows]


def operator(name: str) -> Conversation[Operator | None]:
    """One of them."""
    rows = yield from ask(f"SELECT {_OPERATOR} FROM operators WHERE name = ?", name)
    return _operator_of(rows[0]) if rows else None


def begin_session(session: Session, forget_before: Instant) -> Conversation[None]:
    """Old ones go at the same time."""
    yield from ask("DELETE FROM sessions WHERE began_at < ?", forget_before)
    yield from ask(
        "INSERT INTO sessions (digest, operator, began_at, seen_at) VALUES (?, ?, ?, ?)",
        session.digest,
        session.operator,
        session.began_at,
        session.seen_at,
    )


def session(digest: bytes) -> Conversation[tuple[Session, Operator] | None]:
    """With the operator as it is now."""
    rows = yield from ask(
        f"SELECT digest, operator, began_at, seen_at, {_OPERATOR}"
        " FROM sessions JOIN operators ON name = operator WHERE digest = ?",
        digest,
    )
    return (Session(*rows[0][:4]), _operator_of(rows[0][4:])) if rows else None


def see_session(digest: bytes, at: Instant) -> Conversation[None]:
    """Note that it is in use."""
    yield from ask("UPDATE sessions SET seen_at = ? WHERE digest = ?", at, digest)


def end_session(digest: bytes) -> Conversation[None]:
    """End it."""
    yield from ask("DELETE FROM sessions WHERE digest = ?", digest)


_PROPOSAL = (
    "gateway_reference, brand, error_code, provider_reference, reason, evidence, proposed_by,"
    " proposed_at, state, decided_by, decided_at, remark"
)


def propose(proposal: Proposal) -> Conversation[int]:
    """Its id."""
    rows = yield from ask(
        f"INSERT INTO proposals ({_PROPOSAL}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " RETURNING id",
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
    return int(rows[0][0])


def proposals(
    about: str | None, state: ProposalState | None, limit: int
) -> Conversation[Sequence[Proposal]]:
    """The newest first."""
    conditions, values = ["1 = 1"], list[Any]()
    if about is not None:
        conditions.append("gateway_reference = ?")
        values.append(about)
    if state is not None:
        conditions.append("state = ?")
        values.append(state.value)
    rows = yield from ask(
        f"SELECT id, {_PROPOSAL} FROM proposals WHERE {' AND '.join(conditions)}"
        " ORDER BY id DESC LIMIT ?",
        *values,
        limit,
    )
    return [_proposal_of(row) for row in rows]


def proposal(id: int) -> Conversation[Proposal | None]:
    """One of them."""
    rows = yield from ask(f"SELECT id, {_PROPOSAL} FROM proposals WHERE id = ?", id)
    return _proposal_of(rows[0]) if rows else None


def decide_proposal(was: ProposalState, decided: Proposal) -> Conversation[bool]:
    """Of two who decide at once, one does."""
    rows = yield from ask(
        "UPDATE proposals SET state = ?, decided_by = ?, decided_at = ?, remark = ?"
        " WHERE id = ? AND state = ? RETURNING 1",
        decided.state.value,
        decided.decided_by,
        decided.decided_at,
        decided.remark,
        decided.id,
        was.value,
    )
    return bool(rows)


def _columns(operator: Operator) -> tuple[Any, ...]:
    return (
        operator.name,
        operator.role.value,
        operator.password_hash,
        operator.added_at,
        operator.disabled_at,
    )


def _operator_of(row: Row) -> Operator:
    return Operator(row[0], Role(row[1]), *row[2:])


def _proposal_of(row: Row) -> Proposal:
    return Proposal(
        id=row[0],
        gateway_reference=row[1],
        brand=row[2],
        error_code=row[3],
        provider_reference=row[4],
        reason=row[5],
        evidence=row[6],
        proposed_by=row[7],
        proposed_at=row[8],
        state=ProposalState(row[9]),
        decided_by=row[10],
        decided_at=row[11],
        remark=row[12],
    )
