"""Stores the proposed changes of brands' configuration in SQL, and the payments and refused
requests that a back-test of one replays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap

from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.brand_changes import RecordedRequest, RefusedRequest, refused_on_record
from mmo_sansio.values.clock import DAY, Instant, earlier
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface import admin_types
from mmo_trio.storage.sql.audit_log import append_audit
from mmo_trio.storage.sql.brand_keys import save_brands
from mmo_trio.storage.sql.serialization import parse_brand, parse_recorded_request, serialize_brand
from mmo_trio.storage.sql.statements import (
    Row,
    SqlQuery,
    Where,
    execute,
    select,
    select_newest,
    select_one,
    values_of,
)

_COLUMNS = (
    "version_before, version_after, reason, proposed_by, proposed_at, state, decided_by, "
    "decided_at, remark,"
    " reverted_by, reverted_at"
)
_REQUEST_COLUMNS = "gateway_reference, at, operation, method, country, minor, currency"
_REFUSED_COLUMNS = f"brand, cause, {_REQUEST_COLUMNS}"

# Rows of one statement, with nine values each: far fewer than either database binds.
_ROWS_MAX = 50


def add_configuration_change(
    change: admin_types.ConfigurationChange,
    event: tuple[admin_types.AuditEvent, admin_types.AuditKey],
) -> SqlQuery[int]:
    """Store a proposed change of a brand together with its audit event, and return its id."""
    # The id is the database's, and the two versions are written as brands are.
    _, _, _, *others = values_of(change)
    rows = yield from execute(
        f"INSERT INTO configuration_changes (brand, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
        f"?, ?, ?, ?)"
        " RETURNING id",
        *(change.after.id, serialize_brand(change.before), serialize_brand(change.after), *others),
    )
    yield from append_audit(*event)
    return int(rows[0][0])


def configuration_changes(
    *,
    brand: str | None = None,
    state: admin_types.ChangeState | None = None,
    without: admin_types.ChangeState | None = None,
    before: int | None = None,
    after: int | None = None,
    limit: int = 50,
) -> SqlQuery[Sequence[admin_types.ConfigurationChange]]:
    """Return changes of one brand, in one state or in any but one, the newest first: those with ids
    below a number, or those next above one."""
    where = Where().and_("brand = ?", brand).and_("state = ?", state and state.value)
    where.and_("state <> ?", without and without.value).and_("id < ?", before).and_("id > ?", after)
    text = f"SELECT id, {_COLUMNS} FROM configuration_changes {where}"
    return select_newest(_parse_change, text, "id", *where.values, after=after, limit=limit)


def configuration_change(id: int) -> SqlQuery[admin_types.ConfigurationChange | None]:
    """Return the change with this id."""
    return select_one(
        _parse_change, f"SELECT id, {_COLUMNS} FROM configuration_changes WHERE id = ?", id
    )


def decide_configuration_change(
    expected_state: admin_types.ChangeState,
    decided: admin_types.ConfigurationChange,
    event: tuple[admin_types.AuditEvent, admin_types.AuditKey],
) -> SqlQuery[admin_types.ChangeDecision]:
    """Replace a change that is in the expected state, bring the version of the brand that belongs
    to its new state into force, and append the event to the audit log, all or nothing. Nothing
    happens when the user who applies it has proposed it, or when the brand in force is not the
    version that is to be replaced."""
    # This update locks the change's row, so that of two users who decide at once, one succeeds.
    rows = yield from execute(
        f"UPDATE configuration_changes SET state = state WHERE id = ? AND state = ? RETURNING id, "
        f"{_COLUMNS}",
        decided.id,
        expected_state.value,
    )
    if not rows:
        return admin_types.ChangeDecision.NOT_IN_STATE

    # The proposer is the stored one: what the caller holds may be older.
    stored = _parse_change(rows[0])
    if (
        decided.state is admin_types.ChangeState.APPLIED
        and decided.decided_by == stored.proposed_by
    ):
        return admin_types.ChangeDecision.OWN_PROPOSAL

    # Staff have approved this change of this version: of another one they have not.
    if (versions := admin_types.replaced_version(decided)) is not None:
        replaced, next_version = versions
        in_force = yield from execute(
            "UPDATE brands SET id = id WHERE id = ? RETURNING brand", replaced.id
        )
        if not in_force or parse_brand(in_force[0][0]) != replaced:
            return admin_types.ChangeDecision.OVERTAKEN

        yield from save_brands((next_version,), (), clear_breaker="")

    yield from execute(
        "UPDATE configuration_changes SET state = ?, decided_by = ?, decided_at = ?, remark = ?, "
        "reverted_by = ?,"
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
    return admin_types.ChangeDecision.DONE


def _parse_change(row: Row) -> admin_types.ConfigurationChange:
    return admin_types.ConfigurationChange(
        *(
            row[0],
            parse_brand(row[1]),
            parse_brand(row[2]),
            *row[3:6],
            admin_types.ChangeState(row[6]),
            *row[7:],
        )
    )


def recorded_requests(
    brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
) -> SqlQuery[Sequence[RecordedRequest]]:
    """Return what a back-test needs, no personal data, of the payments of a brand that were created
    in [begin, end), in the order of creation, those after a position."""
    at = after or Position(begin, "")
    rows = yield from execute(
        "SELECT order_row, progress FROM transactions WHERE brand = ? AND created_at < ?"
        " AND (created_at, gateway_reference) > (?, ?) ORDER BY created_at, "
        "gateway_reference LIMIT ?",
        brand,
        end,
        at.created_at,
        at.gateway_reference,
        limit,
    )
    return list(starmap(parse_recorded_request, rows))


def record_refusals(
    times: Mapping[admin_types.BrandDay, int], refused: Sequence[RefusedRequest], *, now: Instant
) -> SqlQuery[None]:
    """Count refused requests by brand and day, and record these of them: at most
    REFUSALS_RECORDED_MAX for each brand and day in all. What is older than REFUSALS_KEPT is
    removed, at most REFUSALS_REMOVED_MAX at once."""
    # In one order, so that no two processes wait for each other's counts.
    for day in sorted(times, key=lambda day: (day.brand, day.day)):
        counted = yield from execute(
            "INSERT INTO refusal_days (brand, day, times, recorded) VALUES (?, ?, ?, 0) ON "
            "CONFLICT (brand, day)"
            " DO UPDATE SET times = refusal_days.times + excluded.times RETURNING recorded",
            day.brand,
            day.day,
            times[day],
        )

        # All are counted; of a flood only the first ones are kept.
        of_day = (
            refusal
            for refusal in refused
            if admin_types.BrandDay(refusal.brand, refusal.request.created_at // DAY) == day
        )
        yield from _record_refused(
            day, list(of_day)[: max(0, admin_types.REFUSALS_RECORDED_MAX - counted[0][0])]
        )

    # Old ones go with the new ones, so that nobody has to clear up.
    oldest = earlier(now, admin_types.REFUSALS_KEPT)
    yield from execute(
        "DELETE FROM refused_requests WHERE gateway_reference IN"
        " (SELECT gateway_reference FROM refused_requests WHERE at < ? ORDER BY at, "
        "gateway_reference LIMIT ?)",
        oldest,
        admin_types.REFUSALS_REMOVED_MAX,
    )
    yield from execute("DELETE FROM refusal_days WHERE day < ?", oldest // DAY)


def refused_requests(
    brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
) -> SqlQuery[Sequence[RecordedRequest]]:
    """Return the recorded ones of the requests of a brand that were refused in [begin, end), in the
    order of their arrival, those after a position."""
    at = after or Position(begin, "")
    return select(
        _parse_refused,
        f"SELECT {_REQUEST_COLUMNS} FROM refused_requests"
        " WHERE brand = ? AND at < ? AND (at, gateway_reference) > (?, ?) ORDER BY at, "
        "gateway_reference LIMIT ?",
        brand,
        end,
        at.created_at,
        at.gateway_reference,
        limit,
    )


def refusal_count(day: admin_types.BrandDay) -> SqlQuery[admin_types.RefusalCount]:
    """Return how many requests of a brand limits and flows refused on a day."""
    rows = yield from execute(
        "SELECT times, recorded FROM refusal_days WHERE brand = ? AND day = ?", day.brand, day.day
    )
    if rows:
        return admin_types.RefusalCount(*rows[0])
    return admin_types.RefusalCount(0, 0)


def _record_refused(day: admin_types.BrandDay, refused: Sequence[RefusedRequest]) -> SqlQuery[None]:
    for first in range(0, len(refused), _ROWS_MAX):
        rows = refused[first : first + _ROWS_MAX]
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        yield from execute(
            f"INSERT INTO refused_requests ({_REFUSED_COLUMNS}) VALUES {places}",
            *(refusal for row in rows for refusal in _refused_row(row)),
        )

    if refused:
        yield from execute(
            "UPDATE refusal_days SET recorded = recorded + ? WHERE brand = ? AND day = ?",
            len(refused),
            day.brand,
            day.day,
        )


def _refused_row(refused: RefusedRequest) -> Iterable[object]:
    request = refused.request
    assert request.operation is not None, "only requests are refused"
    return (
        refused.brand,
        refused.segment,
        request.gateway_reference,
        request.created_at,
        request.operation.value,
        request.method,
        request.country,
        # As text: a merchant may ask for more than an integer of the database holds.
        str(request.amount.minor),
        request.amount.currency,
    )


def _parse_refused(row: Row) -> RecordedRequest:
    reference, at, operation, method, country, minor, currency = row
    return refused_on_record(
        reference, at, Operation(operation), method, country, Money(int(minor), currency)
    )
