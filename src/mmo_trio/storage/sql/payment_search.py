"""Finds payments for staff, in SQL: each search costs a bounded number of rows, however many there
are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import evolve

from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.stuck import STUCK_AFTER, is_stuck
from mmo_sansio.values.clock import LAST_INSTANT, Instant, earlier
from mmo_sansio.values.model import Status, Transaction, Type
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.admin_types import (
    ATTENTION_READ_MAX,
    STUCK_READ_MAX,
    AttentionTimes,
    PaymentFilter,
    PaymentPage,
    PaymentTotals,
)
from mmo_trio.storage.sql.serialization import (
    OrderHead,
    parse_transaction,
    read_error_code,
    read_order_head,
)
from mmo_trio.storage.sql.statements import Row, SqlQuery, Where, execute

# Payments that one search scans, so that none costs more rows, whatever it searches for.
PAYMENTS_SCANNED_MAX = 5_000

# The position after the newest payment: every reference is in upper case.
AFTER_NEWEST = Position(LAST_INSTANT, "~")

# Rows that one statement reads of payments that are selected by their content.
CONTENT_ROWS_READ_MAX = 1_000

# Payments that are scanned to say how many a selection has, and what they have asked for.
TOTALLED_MAX = 2_000

_SELECT = "SELECT t.order_row, t.progress FROM transactions AS t"
_NEWEST_FIRST = "ORDER BY t.created_at DESC, t.gateway_reference DESC LIMIT ?"
_OLDEST_FIRST = "ORDER BY t.created_at, t.gateway_reference LIMIT ?"


def find_transactions(
    *,
    reference: str | None = None,
    brand: str | None = None,
    status: Status | None = None,
    limit: int = 50,
) -> SqlQuery[Sequence[Transaction]]:
    """Return transactions by either reference, brand or status, the newest first."""
    where = Where().and_("t.brand = ?", brand).and_("t.status = ?", status and status.value)
    where.and_(
        "t.gateway_reference IN (SELECT ? UNION ALL SELECT gateway_reference FROM reference_uses"
        " WHERE merchant_reference = ?)",
        reference,
        reference,
    )
    rows = yield from execute(f"{_SELECT} {where} {_NEWEST_FIRST}", *where.values, limit)
    return _parse_transactions(rows)


def search_payments(
    text: str, *, msisdns: Sequence[str] = (), before: Position | None = None, limit: int = 50
) -> SqlQuery[PaymentPage]:
    """Return payments by any reference (the gateway's, the merchant's, for reconciliation, the
    provider's), and by one of these msisdns, newest first. Each has an index of its own, in the
    order of the page."""
    # One statement for each index: an OR over them would read the table.
    of_named = (
        "JOIN transactions AS t ON t.gateway_reference = named.gateway_reference AND t.brand = "
        "named.brand"
    )
    found: list[Transaction] = []
    for source, column, value in (
        (f"reference_uses AS named {of_named}", "named.merchant_reference", text),
        (f"receipts AS named {of_named}", "named.receipt", text),
        ("transactions AS t", "t.gateway_reference", text.upper()),
        ("transactions AS t", "t.reconciliation_reference", text),
        *(("transactions AS t", "t.msisdn", msisdn) for msisdn in msisdns),
    ):
        rows = yield from execute(
            f"SELECT t.order_row, t.progress FROM {source} WHERE {column} = ? AND {_OLDER_THAN} "
            f"{_NEWEST_FIRST}",
            value,
            *_position_values(before),
            limit + 1,
        )
        found += _parse_transactions(rows)

    # A payment may be found by several, as by both of its references.
    return _newest_page(found, limit)


_OLDER_THAN = "(t.created_at, t.gateway_reference) < (?, ?)"
_NEWER_THAN = "(t.created_at, t.gateway_reference) > (?, ?)"


def _position_values(before: Position | None) -> tuple[Instant, str]:
    at = before or AFTER_NEWEST
    return at.created_at, at.gateway_reference


def list_payments(payment_filter: PaymentFilter) -> SqlQuery[PaymentPage]:
    """Return payments that match, newest first. An index is scanned in the order of creation, or
    upwards from `after`, PAYMENTS_SCANNED_MAX rows at most."""
    # Three ways, by what the filter asks for: few payments that are named elsewhere, the content of
    # rows, or columns alone.
    if payment_filter.attention is not None:
        return (yield from _list_needing_person(payment_filter, payment_filter.attention))
    if _is_by_content(payment_filter):
        return (yield from _list_by_content(payment_filter))

    scanned, order = _scanned(payment_filter, payment_filter.after or payment_filter.before)
    matching = _matching(payment_filter)
    is_selective = bool(matching.conditions)

    # The limit is on what is scanned, inside; the conditions on what is found come outside.
    scan = f"SELECT {_SCANNED_COLUMNS} FROM transactions AS t {scanned} {order}"
    rows = yield from execute(
        f"SELECT t.order_row, t.progress FROM ({scan}) AS t {matching} {order}",
        *scanned.values,
        PAYMENTS_SCANNED_MAX if is_selective else payment_filter.limit + 1,
        *matching.values,
        payment_filter.limit + 1,
    )
    page = _newest_page(
        _parse_transactions(rows), payment_filter.limit, upwards=payment_filter.after is not None
    )
    if page.next_position is not None or not is_selective:
        return page

    # The page is not full, but there may be more beyond what was scanned: the next look goes on
    # from the last row of this one.
    last_scanned = yield from execute(
        f"SELECT t.created_at, t.gateway_reference FROM transactions AS t {scanned} "
        f"{order} OFFSET ?",
        *scanned.values,
        1,
        PAYMENTS_SCANNED_MAX - 1,
    )
    if last_scanned:
        return PaymentPage(page.transactions, Position(*last_scanned[0]))
    return page


_SCANNED_COLUMNS = (
    "t.gateway_reference, t.created_at, t.method, t.status, t.type, t.order_row, t.progress"
)


def _matching(payment_filter: PaymentFilter) -> Where:
    """Return the conditions on columns that no index in the order of creation has."""
    status = payment_filter.status and payment_filter.status.value
    type_ = payment_filter.type and payment_filter.type.value
    where = Where().and_("t.method = ?", payment_filter.method)
    return where.and_("t.status = ?", status).and_("t.type = ?", type_)


def _is_by_content(payment_filter: PaymentFilter) -> bool:
    """Return whether only the content of rows says what is selected."""
    chosen = (payment_filter.provider, payment_filter.error_code)
    return chosen != (None, None) or payment_filter.has_amount_bounds


def _has_content(payment_filter: PaymentFilter, order_row: bytes, progress: bytes) -> bool:
    """Return whether the content of a row is selected, without reading all of it."""
    # The bytes first: to look for them costs far less than to read the row.
    code = payment_filter.error_code
    if code is not None and (
        _json_bytes(code) not in progress or read_error_code(progress) != code
    ):
        return False

    provider = payment_filter.provider
    if provider is not None and _json_bytes(provider) not in order_row:
        return False
    if provider is None and not payment_filter.has_amount_bounds:
        return True

    head = read_order_head(order_row)
    return provider in (None, head.provider) and payment_filter.has_amount(
        Money(head.minor, head.currency)
    )


def _scanned(payment_filter: PaymentFilter, at: Position | None) -> tuple[Where, str]:
    """Return the conditions that an index in the order of creation bounds, and the order of the
    scan."""
    beyond = _OLDER_THAN
    order = _NEWEST_FIRST
    if payment_filter.after is not None:
        beyond = _NEWER_THAN
        order = _OLDEST_FIRST

    where = Where().and_("t.brand = ?", payment_filter.brand).and_(beyond, *_position_values(at))
    where.and_("t.created_at >= ?", payment_filter.begin)
    where.and_("t.created_at < ?", payment_filter.end)
    return where, order


def _list_by_content(payment_filter: PaymentFilter) -> SqlQuery[PaymentPage]:
    """Select by what only the rows' content says, such as the provider. The rows are read a
    thousand at a time; only those that are selected are read as a whole."""
    found: list[Transaction] = []
    at = payment_filter.after or payment_filter.before
    upwards = payment_filter.after is not None
    scanned_count = 0
    while scanned_count < PAYMENTS_SCANNED_MAX and len(found) <= payment_filter.limit:
        scanned, order = _scanned(payment_filter, at)
        rows = yield from execute(
            f"SELECT t.created_at, t.gateway_reference, t.order_row, t.progress FROM transactions "
            f"AS t {scanned}"
            f" {order}",
            *scanned.values,
            CONTENT_ROWS_READ_MAX,
        )
        candidates = [row[2:] for row in rows if _has_content(payment_filter, *row[2:])]
        found += filter(payment_filter.matches, _parse_transactions(candidates))
        if len(rows) < CONTENT_ROWS_READ_MAX:
            return _newest_page(found, payment_filter.limit, upwards=upwards)

        at = Position(*rows[-1][:2])
        scanned_count += len(rows)

    page = _newest_page(found, payment_filter.limit, upwards=upwards)
    if page.next_position is not None:
        return page

    # The page is not full: the next look goes on where this one has come to.
    return PaymentPage(page.transactions, at)


def _list_needing_person(
    payment_filter: PaymentFilter, times: AttentionTimes
) -> SqlQuery[PaymentPage]:
    """Return a page of the payments that need a person: all of them are found, and a part is
    shown."""
    rows, _ = yield from _rows_needing_person(payment_filter, times)
    limit, after, before = payment_filter.limit, payment_filter.after, payment_filter.before
    if after is not None:
        nearest = [row for row in reversed(rows) if row[:2] > _position_values(after)]
    else:
        nearest = [row for row in rows if row[:2] < _position_values(before)]

    shown = _parse_transactions([row[2:] for row in nearest[: limit + 1]])
    return _newest_page(shown, limit, upwards=after is not None)


def _rows_needing_person(
    payment_filter: PaymentFilter, times: AttentionTimes
) -> SqlQuery[tuple[list[Row], bool]]:
    """Return created_at, gateway_reference, order_row and progress of the payments that need a
    person and match, the newest first, and whether all were found."""
    # 1. Which payments: each of these is few rows of an index of its own.
    stuck = yield from stuck_transactions(times.own_time, limit=STUCK_READ_MAX)
    reported = yield from execute(
        "SELECT gateway_reference FROM suspense WHERE closed_at IS NULL"
        " AND gateway_reference IS NOT NULL ORDER BY id DESC LIMIT ?",
        ATTENTION_READ_MAX,
    )
    uncalled = yield from execute(
        "SELECT gateway_reference, at FROM callbacks WHERE outcome <> 'delivered'"
        " ORDER BY id DESC LIMIT ?",
        ATTENTION_READ_MAX,
    )
    late = [reference for reference, at in uncalled if at >= times.callbacks_since]
    named = {payment.reference for payment in stuck} | {row[0] for row in reported} | set(late)
    is_complete = len(stuck) < STUCK_READ_MAX and max(len(reported), len(late)) < ATTENTION_READ_MAX

    # 2. Those of them that match.
    where = _matching(payment_filter).among("t.gateway_reference", sorted(named))
    where.and_("t.brand = ?", payment_filter.brand)
    where.and_("t.created_at >= ?", payment_filter.begin)
    where.and_("t.created_at < ?", payment_filter.end)
    rows = yield from execute(
        "SELECT t.created_at, t.gateway_reference, t.order_row, t.progress FROM transactions AS t"
        f" {where} ORDER BY t.created_at DESC, t.gateway_reference DESC",
        *where.values,
    )
    return [row for row in rows if _has_content(payment_filter, *row[2:])], is_complete


def total_payments(payment_filter: PaymentFilter) -> SqlQuery[PaymentTotals]:
    """Return how many payments match, wherever a page of them begins, and what they have asked for:
    of the newest TOTALLED_MAX, or of those that need a person."""
    if payment_filter.attention is not None:
        found, is_complete = yield from _rows_needing_person(
            payment_filter, payment_filter.attention
        )
        return _total([row[2] for row in found], is_complete=is_complete)

    # The same total on every page of a list.
    newest = evolve(payment_filter, before=None, after=None)
    scanned, order = _scanned(newest, None)
    matching = _matching(newest)
    rows = yield from execute(
        "SELECT t.order_row, t.progress FROM"
        f" (SELECT {_SCANNED_COLUMNS} FROM transactions AS t {scanned} {order}) AS t {matching}",
        *scanned.values,
        TOTALLED_MAX,
        *matching.values,
    )

    # One more row would have been scanned: the total says "of the newest".
    older = yield from execute(
        f"SELECT 1 FROM transactions AS t {scanned} {order} OFFSET ?",
        *scanned.values,
        1,
        TOTALLED_MAX,
    )
    return _total([row[0] for row in rows if _has_content(newest, *row)], is_complete=not older)


def _total(order_rows: Sequence[bytes], *, is_complete: bool) -> PaymentTotals:
    # Simulated money is added to no other.
    heads = [read_order_head(row) for row in order_rows]
    return PaymentTotals(
        len(heads),
        _sum_up(head for head in heads if not head.is_simulated),
        is_complete,
        _sum_up(head for head in heads if head.is_simulated),
    )


def _sum_up(heads: Iterable[OrderHead]) -> Sequence[tuple[Type, Money]]:
    minor: Counter[tuple[str, str]] = Counter()
    for head in heads:
        minor[head.type, head.currency] += head.minor
    return [
        (Type(type_), Money(sum_, currency)) for (type_, currency), sum_ in sorted(minor.items())
    ]


def _json_bytes(text: str) -> bytes:
    """Return a string as it is written within a stored row."""
    return json.dumps(text).encode()


def stuck_transactions(
    now: Instant, *, after: Position | None = None, limit: int = 50
) -> SqlQuery[Sequence[Transaction]]:
    """Return the transactions that are stuck (`mmo_sansio.payments.stuck.is_stuck`), the oldest
    first, a page at a time: those after a position. They are scanned in the order of creation, as
    few pending payments wait for something else than a result."""
    found: list[Transaction] = []
    at = after or Position(Instant(0), "")
    while len(found) < limit:
        rows = yield from execute(
            "SELECT t.order_row, t.progress FROM wakes AS w JOIN transactions AS t"
            " ON t.gateway_reference = w.gateway_reference AND t.brand = w.brand"
            " WHERE (w.created_at <= ? OR w.created_at > ?)"
            " AND w.created_at >= ? AND (w.created_at, w.gateway_reference) > (?, ?)"
            " ORDER BY w.created_at, w.gateway_reference LIMIT ?",
            earlier(now, STUCK_AFTER),
            # What a wrong clock has dated in the future may be older than it looks.
            now,
            at.created_at,
            at.created_at,
            at.gateway_reference,
            limit,
        )
        scanned = _parse_transactions(rows)
        found += [payment for payment in scanned if is_stuck(payment, now=now)]
        if len(rows) < limit:
            break

        at = position_of(scanned[-1])

    return found[:limit]


def _parse_transactions(rows: Sequence[Row]) -> list[Transaction]:
    return [parse_transaction(*row) for row in rows]


def _newest_page(
    transactions: Iterable[Transaction], limit: int, *, upwards: bool = False
) -> PaymentPage:
    """Return the newest of these transactions, upwards the oldest, each once and the newest
    first."""
    different = {transaction.reference: transaction for transaction in transactions}
    ordered = sorted(different.values(), key=position_of, reverse=not upwards)
    page = ordered[:limit]
    next_position = None
    if len(ordered) > limit:
        next_position = position_of(page[-1])

    if upwards:
        page.reverse()

    return PaymentPage(page, next_position)


def position_of(transaction: Transaction) -> Position:
    """Return the position of a transaction among all payments."""
    return Position(transaction.order.created_at, transaction.reference)
