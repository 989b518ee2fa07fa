"""What people list, in SQL: transactions, callbacks, the suspense book."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, SuspenseReason
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.sql.serialization import parse_transaction
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute

SELECT_SUSPENSE = (
    "SELECT id, reason, provider, told, gateway_reference, brand, first_at, last_at, times,"
    " closed_at, closed_by, note FROM suspense"
)
"""The beginning of a statement whose rows are entries of the suspense book: see `entry_of`."""


def find_transactions(
    reference: str | None, brand: str | None, status: Status | None, limit: int
) -> SqlQuery[Sequence[Transaction]]:
    """The newest first."""
    conditions, values = _equality_conditions(brand=brand, status=status and status.value)
    if reference is not None:
        conditions.append(
            "gateway_reference IN (SELECT ? UNION ALL SELECT gateway_reference FROM reference_uses"
            " WHERE merchant_reference = ?)"
        )
        values += [reference, reference]
    rows = yield from execute(
        f"SELECT order_row, progress FROM transactions WHERE {' AND '.join(conditions)}"
        " ORDER BY created_at DESC, gateway_reference DESC LIMIT ?",
        *values,
        limit,
    )
    return [parse_transaction(*row) for row in rows]


def callbacks(
    brand: str | None, gateway_reference: str | None, limit: int
) -> SqlQuery[Sequence[CallbackRecorded]]:
    """The newest, in the order of their recording; those of one transaction with the answers' bodies."""
    conditions, values = _equality_conditions(brand=brand, gateway_reference=gateway_reference)
    body = "" if gateway_reference is None else ", body"
    rows = yield from execute(
        f"SELECT gateway_reference, brand, at, outcome, url, status, duration_ms, detail{body}"
        f" FROM callbacks WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?",
        *values,
        limit,
    )
    return [
        CallbackRecorded(row[0], row[1], DeliveryAttempt(DeliveryOutcome(row[3]), *row[4:]), row[2])
        for row in reversed(rows)
    ]


def suspense(brand: str | None, with_closed: bool, limit: int) -> SqlQuery[Sequence[SuspenseEntry]]:
    """In the order of first telling."""
    conditions, values = _equality_conditions(brand=brand)
    if not with_closed:
        conditions.append("closed_at IS NULL")
    rows = yield from execute(
        f"{SELECT_SUSPENSE} WHERE {' AND '.join(conditions)} ORDER BY first_at, id LIMIT ?",
        *values,
        limit,
    )
    return [parse_suspense_entry(row) for row in rows]


def parse_suspense_entry(row: Row) -> SuspenseEntry:
    """The entry that a row of SUSPENSE is."""
    return SuspenseEntry(row[0], SuspenseReason(row[1]), *row[2:])


def _equality_conditions(**columns: str | None) -> tuple[list[str], list[str]]:
    """What has to hold for columns to have these values, and the values; None leaves a column out."""
    given = {column: value for column, value in columns.items() if value is not None}
    return ["TRUE", *(f"{column} = ?" for column in given)], [*given.values()]
