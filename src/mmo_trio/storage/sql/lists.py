"""What people list, in SQL: transactions, callbacks, the suspense book."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.http.exchange import Attempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, SuspenseReason
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.sql.serialization import transaction_of
from mmo_trio.storage.sql.statements import Conversation, Row, ask

SUSPENSE = (
    "SELECT id, reason, provider, told, gateway_reference, brand, first_at, last_at, times,"
    " closed_at, closed_by, note FROM suspense"
)
"""The beginning of a statement whose rows are entries of the suspense book: see `entry_of`."""


def find_transactions(
    reference: str | None, brand: str | None, status: Status | None, limit: int
) -> Conversation[Sequence[Transaction]]:
    """The newest first."""
    conditions, values = _equal(brand=brand, status=status and status.value)
    if reference is not None:
        conditions.append(
            "gateway_reference IN (SELECT ? UNION ALL SELECT gateway_reference FROM reference_uses"
            " WHERE merchant_reference = ?)"
        )
        values += [reference, reference]
    rows = yield from ask(
        f"SELECT order_row, progress FROM transactions WHERE {' AND '.join(conditions)}"
        " ORDER BY created_at DESC, gateway_reference DESC LIMIT ?",
        *values,
        limit,
    )
    return [transaction_of(*row) for row in rows]


def callbacks(
    brand: str | None, gateway_reference: str | None, limit: int
) -> Conversation[Sequence[CallbackRecorded]]:
    """The newest, in the order of their recording; those of one transaction with the answers' bodies."""
    conditions, values = _equal(brand=brand, gateway_reference=gateway_reference)
    body = "" if gateway_reference is None else ", body"
    rows = yield from ask(
        f"SELECT gateway_reference, brand, at, outcome, url, status, duration_ms, detail{body}"
        f" FROM callbacks WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?",
        *values,
        limit,
    )
    return [
        CallbackRecorded(row[0], row[1], Attempt(DeliveryOutcome(row[3]), *row[4:]), row[2])
        for row in reversed(rows)
    ]


def suspense(
    brand: str | None, with_closed: bool, limit: int
) -> Conversation[Sequence[SuspenseEntry]]:
    """In the order of first telling."""
    conditions, values = _equal(brand=brand)
    if not with_closed:
        conditions.append("closed_at IS NULL")
    rows = yield from ask(
        f"{SUSPENSE} WHERE {' AND '.join(conditions)} ORDER BY first_at, id LIMIT ?",
        *values,
        limit,
    )
    return [entry_of(row) for row in rows]


def entry_of(row: Row) -> SuspenseEntry:
    """The entry that a row of SUSPENSE is."""
    return SuspenseEntry(row[0], SuspenseReason(row[1]), *row[2:])


def _equal(**wanted: str | None) -> tuple[list[str], list[str]]:
    """What has to hold for columns to have these values, and the values; None leaves a column out."""
    given = {column: value for column, value in wanted.items() if value is not None}
    return ["TRUE", *(f"{column} = ?" for column in given)], [*given.values()]
