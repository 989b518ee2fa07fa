"""Stores the proposed changes of brands' configuration in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.brand_changes import RecordedRequest
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import AuditEvent, AuditKey
from mmo_trio.storage.interface.configuration_types import (
    ChangeDecision,
    ChangeState,
    ConfigurationChange,
    replaced_version,
)
from mmo_trio.storage.sql.audit_log import append_audit
from mmo_trio.storage.sql.brand_keys import save_brands
from mmo_trio.storage.sql.serialization import parse_brand, parse_recorded_request, serialize_brand
from mmo_trio.storage.sql.statements import Row, SqlQuery, Where, execute, select

_COLUMNS = (
    "version_before, version_after, reason, proposed_by, proposed_at, state, decided_by, decided_at, remark,"
    " reverted_by, reverted_at"
)


def add_configuration_change(change: ConfigurationChange, event: tuple[AuditEvent, AuditKey]) -> SqlQuery[int]:
    """Store a proposed change of a brand together with its audit event, and return its id."""
    rows = yield from execute(
        f"INSERT INTO configuration_changes (brand, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " RETURNING id",
        change.after.id,
        serialize_brand(change.before),
        serialize_brand(change.after),
        change.reason,
        change.proposed_by,
        change.proposed_at,
        change.state.value,
        change.decided_by,
        change.decided_at,
        change.remark,
        change.reverted_by,
        change.reverted_at,
    )
    yield from append_audit(*event)
    return int(rows[0][0])


def configuration_changes(
    *, brand: str | None = None, state: ChangeState | None = None, limit: int = 50
) -> SqlQuery[Sequence[ConfigurationChange]]:
    """Return changes of one brand or in one state, the newest first."""
    where = Where().and_("brand = ?", brand).and_("state = ?", state and state.value)
    return select(
        _parse_change,
        f"SELECT id, {_COLUMNS} FROM configuration_changes {where} ORDER BY id DESC LIMIT ?",
        *where.values,
        limit,
    )


def configuration_change(id: int) -> SqlQuery[ConfigurationChange | None]:
    """Return the change with this id."""
    rows = yield from execute(f"SELECT id, {_COLUMNS} FROM configuration_changes WHERE id = ?", id)
    return _parse_change(rows[0]) if rows else None


def decide_configuration_change(
    expected_state: ChangeState, decided: ConfigurationChange, event: tuple[AuditEvent, AuditKey]
) -> SqlQuery[ChangeDecision]:
    """Replace a change that is in the expected state, bring the version of the brand that belongs to its new state into
    force, and append the event to the audit log, all or nothing. Nothing happens when the user who applies it has
    proposed it, or when the brand in force is not the version that is to be replaced."""
    # This update locks the change's row, so that of two users who decide at once, one succeeds.
    rows = yield from execute(
        f"UPDATE configuration_changes SET state = state WHERE id = ? AND state = ? RETURNING id, {_COLUMNS}",
        decided.id,
        expected_state.value,
    )
    if not rows:
        return ChangeDecision.NOT_IN_STATE
    stored = _parse_change(rows[0])
    if decided.state is ChangeState.APPLIED and decided.decided_by == stored.proposed_by:
        return ChangeDecision.OWN_PROPOSAL
    if (versions := replaced_version(decided)) is not None:
        replaced, next_version = versions
        in_force = yield from execute("UPDATE brands SET id = id WHERE id = ? RETURNING brand", replaced.id)
        if not in_force or parse_brand(in_force[0][0]) != replaced:
            return ChangeDecision.OVERTAKEN
        yield from save_brands((next_version,), (), clear_breaker="")
    yield from execute(
        "UPDATE configuration_changes SET state = ?, decided_by = ?, decided_at = ?, remark = ?, reverted_by = ?,"
        " reverted_at = ? WHERE id = ?",
        decided.state.value,
        decided.decided_by,
        decided.decided_at,
        decided.remark,
        decided.reverted_by,
        decided.reverted_at,
        decided.id,
    )
    yield from append_audit(*event)
    return ChangeDecision.DONE


def recorded_requests(
    brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
) -> SqlQuery[Sequence[RecordedRequest]]:
    """Return what a back-test needs, no personal data, of the payments of a brand that were created in [begin, end), in
    the order of creation, those after a position."""
    at = after or Position(begin, "")
    rows = yield from execute(
        "SELECT order_row, progress FROM transactions WHERE brand = ? AND created_at < ?"
        " AND (created_at, gateway_reference) > (?, ?) ORDER BY created_at, gateway_reference LIMIT ?",
        brand,
        end,
        at.created_at,
        at.gateway_reference,
        limit,
    )
    return list(starmap(parse_recorded_request, rows))


def _parse_change(row: Row) -> ConfigurationChange:
    return ConfigurationChange(
        *(row[0], parse_brand(row[1]), parse_brand(row[2]), *row[3:6], ChangeState(row[6]), *row[7:])
    )
