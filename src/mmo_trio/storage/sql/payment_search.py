"""What operators look for, in SQL: each question costs a bounded number of rows, whatever there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.payments.stuck import has_unknown_outcome
from mmo_sansio.values.clock import LAST_INSTANT, Instant
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin import PAYMENTS_SCANNED_MAX
from mmo_trio.storage.interface.admin_types import (
    BreakerChange,
    CountDimension,
    CountQuery,
    PaymentCount,
    PaymentFilter,
    PaymentPage,
    Position,
    SuspenseEntry,
)
from mmo_trio.storage.sql.lists import SELECT_SUSPENSE, parse_suspense_entry
from mmo_trio.storage.sql.serialization import parse_transaction
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute

_TRANSACTION_COLUMNS = "t.order_row, t.progress"
_NEWEST_FIRST = "ORDER BY t.created_at DESC, t.gateway_reference DESC LIMIT ?"
_OLDER_THAN = "(t.created_at, t.gateway_reference) < (?, ?)"

AFTER_NEWEST = Position(LAST_INSTANT, "~")
"""Beyond the newest payment: every reference is in upper case."""


def search_payments(
    text: str, msisdn: str | None, before: Position | None, limit: int
) -> SqlQuery[PaymentPage]:
    """Each way to be named has an index of its own, in the order in which payments are told."""
    at = before or AFTER_NEWEST
    beyond = (at.created_at, at.gateway_reference)
    named = [
        ("t.gateway_reference = ?", text.upper()),
        ("t.reconciliation_reference = ?", text),
        ("t.provider_receipt = ?", text),
    ]
    if msisdn is not None:
        named.append(("t.msisdn = ?", msisdn))
    rows = [
        *(
            yield from execute(
                f"SELECT {_TRANSACTION_COLUMNS} FROM reference_uses AS used JOIN transactions AS t"
                " ON t.gateway_reference = used.gateway_reference AND t.brand = used.brand"
                f" WHERE used.merchant_reference = ? AND {_OLDER_THAN} {_NEWEST_FIRST}",
                text,
                *beyond,
                limit + 1,
            )
        )
    ]
    for condition, value in named:
        rows += yield from execute(
            f"SELECT {_TRANSACTION_COLUMNS} FROM transactions AS t"
            f" WHERE {condition} AND {_OLDER_THAN} {_NEWEST_FIRST}",
            value,
            *beyond,
            limit + 1,
        )
    return newest_page(map(_parse_transaction_row, rows), limit)


def newest_page(transactions: Any, limit: int) -> PaymentPage:
    """The newest so many of these, each once."""
    different = {each.reference: each for each in transactions}
    ordered = sorted(
        different.values(), key=lambda each: (each.order.created_at, each.reference), reverse=True
    )
    page = ordered[:limit]
    return PaymentPage(page, position_of(page[-1]) if len(ordered) > limit else None)


def position_of(transaction: Transaction) -> Position:
    """Where it stands."""
    return Position(transaction.order.created_at, transaction.reference)


def list_payments(payment_filter: PaymentFilter) -> SqlQuery[PaymentPage]:
    """Goes along an index in the order of creation, LOOK_MAX rows at most, and picks what fits."""
    at = payment_filter.before or AFTER_NEWEST
    conditions, values = [_OLDER_THAN], list[Any]([at.created_at, at.gateway_reference])
    if payment_filter.brand is not None:
        conditions.insert(0, "t.brand = ?")
        values.insert(0, payment_filter.brand)
    filters = {
        "method": payment_filter.method,
        "status": payment_filter.status and payment_filter.status.value,
    }
    fits = [(column, value) for column, value in filters.items() if value is not None]
    looked_at = (
        "SELECT t.gateway_reference, t.created_at, t.method, t.status, t.order_row, t.progress"
        f" FROM transactions AS t WHERE {' AND '.join(conditions)} {_NEWEST_FIRST}"
    )
    among = f"({looked_at}) AS t"
    picked = " AND ".join(["1 = 1", *(f"t.{column} = ?" for column, _ in fits)])
    rows = yield from execute(
        f"SELECT {_TRANSACTION_COLUMNS} FROM {among} WHERE {picked} {_NEWEST_FIRST}",
        *values,
        PAYMENTS_SCANNED_MAX if fits else payment_filter.limit + 1,
        *(value for _, value in fits),
        payment_filter.limit + 1,
    )
    found = newest_page(map(_parse_transaction_row, rows), payment_filter.limit)
    if found.next_position is not None or not fits:
        return found
    last = yield from execute(
        f"SELECT t.created_at, t.gateway_reference FROM transactions AS t"
        f" WHERE {' AND '.join(conditions)} {_NEWEST_FIRST} OFFSET ?",
        *values,
        1,
        PAYMENTS_SCANNED_MAX - 1,
    )
    return PaymentPage(found.transactions, Position(*last[0]) if last else None)


def unknown_outcomes(
    submitted_before: Instant, after: Position | None, limit: int
) -> SqlQuery[Sequence[Transaction]]:
    """Pending ones in the order of creation: those that wait for something else than a result are few."""
    found: list[Transaction] = []
    at = after or Position(Instant(0), "")
    while len(found) < limit:
        rows = yield from execute(
            f"SELECT {_TRANSACTION_COLUMNS} FROM transactions AS t WHERE t.wake_at IS NOT NULL"
            " AND t.created_at < ? AND (t.created_at, t.gateway_reference) > (?, ?)"
            " ORDER BY t.created_at, t.gateway_reference LIMIT ?",
            submitted_before,
            at.created_at,
            at.gateway_reference,
            limit,
        )
        looked_at = [_parse_transaction_row(row) for row in rows]
        found += [each for each in looked_at if has_unknown_outcome(each, submitted_before)]
        if len(rows) < limit:
            break
        at = position_of(looked_at[-1])
    return found[:limit]


def failed_callbacks(
    brand: str | None, before: int | None, limit: int
) -> SqlQuery[Sequence[tuple[int, CallbackRecorded]]]:
    """Along an index of failures only."""
    conditions, values = [f"outcome <> '{DeliveryOutcome.DELIVERED}'"], list[Any]()
    if brand is not None:
        conditions.append("brand = ?")
        values.append(brand)
    if before is not None:
        conditions.append("id < ?")
        values.append(before)
    rows = yield from execute(
        "SELECT id, gateway_reference, brand, at, outcome, url, status, duration_ms, detail"
        f" FROM callbacks WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?",
        *values,
        limit,
    )
    return [
        (
            row[0],
            CallbackRecorded(
                row[1], row[2], DeliveryAttempt(DeliveryOutcome(row[4]), *row[5:]), row[3]
            ),
        )
        for row in rows
    ]


def suspense_of_payment(gateway_reference: str) -> SqlQuery[Sequence[SuspenseEntry]]:
    """Closed ones, too."""
    rows = yield from execute(
        f"{SELECT_SUSPENSE} WHERE gateway_reference = ? ORDER BY id", gateway_reference
    )
    return [parse_suspense_entry(row) for row in rows]


def suspense_entries(
    with_closed: bool, before: int | None, limit: int
) -> SqlQuery[Sequence[SuspenseEntry]]:
    """The newest first."""
    conditions, values = ["1 = 1"], list[Any]()
    if not with_closed:
        conditions.append("closed_at IS NULL")
    if before is not None:
        conditions.append("id < ?")
        values.append(before)
    rows = yield from execute(
        f"{SELECT_SUSPENSE} WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?",
        *values,
        limit,
    )
    return [parse_suspense_entry(row) for row in rows]


def count_payments(
    query: CountQuery, by: CountDimension | None
) -> SqlQuery[Sequence[PaymentCount]]:
    """Sums over few rows: an hour of one method is one row for each class of latency."""
    key = "began_at" if by is None else by.value
    conditions = ["span = ?", "began_at >= ?", "began_at < ?"]
    values: list[Any] = [query.span, query.begin, query.end]
    if query.only is not None:
        dimension, value = query.only
        conditions.append(f"{dimension.value} = ?")
        values.append(value)
    rows = yield from execute(
        f"SELECT {key}, status, latency_s, CAST(sum(times) AS bigint) FROM figures"
        f" WHERE {' AND '.join(conditions)} GROUP BY {key}, status, latency_s",
        *values,
    )
    return [PaymentCount(str(row[0]), Status(row[1]), row[2], row[3]) for row in rows]


def breaker_changes(brand: str | None, limit: int) -> SqlQuery[Sequence[BreakerChange]]:
    """The newest first."""
    where, values = ("WHERE brand = ?", [brand]) if brand is not None else ("", [])
    rows = yield from execute(
        f"SELECT brand, at, state FROM breaker_changes {where} ORDER BY at DESC, brand LIMIT ?",
        *values,
        limit,
    )
    return [BreakerChange(*row) for row in rows]


def _parse_transaction_row(row: Row) -> Transaction:
    return parse_transaction(row[0], row[1])
