"""What staff read and write about payments, in SQL: timelines, callbacks, the suspense book and
proposals."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseReason
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditKey,
    Proposal,
    ProposalState,
    SuspenseEntry,
)
from mmo_trio.storage.sql.audit_log import append_audit
from mmo_trio.storage.sql.statements import (
    Row,
    SqlQuery,
    Where,
    execute,
    returns_row,
    select,
    select_newest,
    select_one,
    values_of,
)


def timeline(gateway_reference: str) -> SqlQuery[Sequence[JournalEntry]]:
    """Return the journal of one transaction, in order."""
    return select(
        lambda row: JournalEntry(*row),
        "SELECT at, what, actor, gateway_reference, nullif(brand, ''), stage_before, stage_after,"
        " detail FROM journal WHERE gateway_reference = ? ORDER BY id",
        gateway_reference,
    )


# The body of a callback's response, while it is kept.
_BODY = """(
    SELECT body FROM callback_bodies AS kept
    WHERE kept.at = callbacks.at AND kept.brand = callbacks.brand
        AND kept.gateway_reference = callbacks.gateway_reference LIMIT 1
)"""


def callbacks(
    *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
) -> SqlQuery[Sequence[CallbackRecorded]]:
    """Return the newest recorded callbacks, in the order of their recording.

    The responses' bodies come only with the callbacks of one transaction: each may be a megabyte
    (K4)."""
    where = Where().and_("brand = ?", brand).and_("gateway_reference = ?", gateway_reference)
    if gateway_reference is None:
        body = ""
    else:
        body = f", {_BODY}"

    rows = yield from execute(
        f"SELECT gateway_reference, brand, at, outcome, url, status, duration_ms, detail{body}"
        f" FROM callbacks {where} ORDER BY id DESC LIMIT ?",
        *where.values,
        limit,
    )
    return [_parse_callback(row) for row in reversed(rows)]


def failed_callbacks(
    *,
    brand: str | None = None,
    before: int | None = None,
    after: int | None = None,
    limit: int = 50,
) -> SqlQuery[Sequence[tuple[int, CallbackRecorded]]]:
    """Return callbacks that were not delivered with their numbers, the newest first, without the
    responses' bodies: those below a number, or those next above one. An index holds the failures
    only."""
    # Written into the statement, not bound: only so it is the condition of the index.
    where = Where().and_(f"outcome <> '{DeliveryOutcome.DELIVERED}'")
    where.and_("brand = ?", brand).and_("id < ?", before).and_("id > ?", after)
    columns = "id, gateway_reference, brand, at, outcome, url, status, duration_ms, detail"
    return select_newest(
        lambda row: (row[0], _parse_callback(row[1:])),
        f"SELECT {columns} FROM callbacks {where}",
        "id",
        *where.values,
        after=after,
        limit=limit,
    )


def _parse_callback(row: Row) -> CallbackRecorded:
    """Return the callback of a row: its payment, brand and time, then the members of its
    attempt."""
    # Rows of a list come without bodies; where they do come, one that has aged is NULL.
    body: tuple[bytes, ...] = ()
    if len(row) > 8:
        body = (row[8] or b"",)

    attempt = DeliveryAttempt(DeliveryOutcome(row[3]), *row[4:8], *body)
    return CallbackRecorded(row[0], row[1], attempt, row[2])


def suspense(
    *, brand: str | None = None, with_closed: bool = False, limit: int = 500
) -> SqlQuery[Sequence[SuspenseEntry]]:
    """Return entries of the suspense book, in the order of their first report."""
    where = Where().and_("brand = ?", brand)
    if not with_closed:
        where.and_("closed_at IS NULL")
    return _select_suspense(f"{where} ORDER BY first_at, id LIMIT ?", *where.values, limit)


def suspense_of_payment(gateway_reference: str) -> SqlQuery[Sequence[SuspenseEntry]]:
    """Return all entries of the suspense book about a payment, closed ones too."""
    return _select_suspense("WHERE gateway_reference = ? ORDER BY id", gateway_reference)


def open_suspense_of(gateway_references: Sequence[str]) -> SqlQuery[Sequence[SuspenseEntry]]:
    """Return the open entries of the suspense book about these payments."""
    where = Where().and_("closed_at IS NULL").among("gateway_reference", gateway_references)
    return _select_suspense(str(where), *where.values)


def undelivered_of(gateway_references: Sequence[str]) -> SqlQuery[frozenset[str]]:
    """Return those of these payments that have a callback which was not delivered."""
    where = Where().and_(f"outcome <> '{DeliveryOutcome.DELIVERED}'")
    where.among("gateway_reference", gateway_references)
    rows = yield from execute(
        f"SELECT DISTINCT gateway_reference FROM callbacks {where}", *where.values
    )
    return frozenset(row[0] for row in rows)


def suspense_entries(
    *,
    reasons: Sequence[SuspenseReason] = (),
    with_closed: bool = False,
    before: int | None = None,
    after: int | None = None,
    limit: int = 50,
) -> SqlQuery[Sequence[SuspenseEntry]]:
    """Return entries of the suspense book, the newest first: those with ids below a number, or
    those next above one; with reasons only those that have one of them."""
    where = Where().and_("id < ?", before).and_("id > ?", after)
    if reasons:
        where.among("reason", [reason.value for reason in reasons])

    if not with_closed:
        where.and_("closed_at IS NULL")

    text = f"SELECT {SUSPENSE_COLUMNS} FROM suspense {where}"
    return select_newest(parse_suspense_entry, text, "id", *where.values, after=after, limit=limit)


def close_suspense(id: int, *, by: str, note: str, now: Instant) -> SqlQuery[bool]:
    """Close an open entry; return False when there is no open entry with this id."""
    return returns_row(
        "UPDATE suspense SET closed_at = ?, closed_by = ?, note = ? WHERE id = ? AND closed_at IS "
        "NULL RETURNING 1",
        now,
        by,
        note,
        id,
    )


def _select_suspense(clauses: str, *values: object) -> SqlQuery[Sequence[SuspenseEntry]]:
    return select(
        parse_suspense_entry, f"SELECT {SUSPENSE_COLUMNS} FROM suspense {clauses}", *values
    )


SUSPENSE_COLUMNS = (
    "id, reason, provider, told, gateway_reference, brand, first_at, last_at, times, closed_at, "
    "closed_by, note"
)


def parse_suspense_entry(row: Row) -> SuspenseEntry:
    """Return the entry of a row of SUSPENSE_COLUMNS."""
    return SuspenseEntry(row[0], SuspenseReason(row[1]), *row[2:])


_PROPOSAL_COLUMNS = (
    "gateway_reference, brand, error_code, provider_reference, reason, evidence, proposed_by,"
    " proposed_at, state, decided_by, decided_at, remark"
)


def add_proposal(proposal: Proposal) -> SqlQuery[int | None]:
    """Store a proposal and return its id; return None, and store nothing, while there is an
    unfinished one about the same payment."""
    # The conflict is that of the index over unfinished proposals, one for each payment.
    rows = yield from execute(
        f"INSERT INTO proposals ({_PROPOSAL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING RETURNING id",
        *values_of(proposal)[1:],
    )
    if rows:
        return int(rows[0][0])
    return None


def proposals(
    *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
) -> SqlQuery[Sequence[Proposal]]:
    """Return proposals about one payment or in one state, the newest first."""
    where = Where().and_("gateway_reference = ?", about).and_("state = ?", state and state.value)
    return select(
        _parse_proposal,
        f"SELECT id, {_PROPOSAL_COLUMNS} FROM proposals {where} ORDER BY id DESC LIMIT ?",
        *where.values,
        limit,
    )


def proposal(id: int) -> SqlQuery[Proposal | None]:
    """Return the proposal with this id."""
    return select_one(
        _parse_proposal, f"SELECT id, {_PROPOSAL_COLUMNS} FROM proposals WHERE id = ?", id
    )


def update_proposal(
    expected_state: ProposalState,
    updated: Proposal,
    *,
    event: tuple[AuditEvent, AuditKey] | None = None,
) -> SqlQuery[bool]:
    """Replace a proposal that is in the expected state, and append the event to the audit log, both
    or neither; return False when it isn't in that state any more. Of two users who decide at once,
    one succeeds."""
    # The condition on the state is what lets one of two users succeed.
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


def _parse_proposal(row: Row) -> Proposal:
    """Return the proposal of a row: its id, then _PROPOSAL_COLUMNS."""
    return Proposal(*(*row[:9], ProposalState(row[9]), *row[10:]))
