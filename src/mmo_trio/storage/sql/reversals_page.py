"""Reads a page of the payments of a brand of which money was asked back."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.api.extensions import ReversedPayment, reversed_payment_object
from mmo_sansio.messages.queries import (
    REVERSALS_PAGE_MAX,
    ListReversals,
    Position,
    Records,
    empty_page,
    place_beside,
)
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.sql.serialization import parse_reversals, parse_transaction
from mmo_trio.storage.sql.statements import Row, SqlQuery, SqlStatement, Where, execute


def list_reversals(query: ListReversals) -> SqlQuery[Records]:
    """Return a page of objects of reversed payments. Needs one snapshot for its statements."""
    backwards = query.before is not None
    size = min(query.page_size, REVERSALS_PAGE_MAX)
    found = yield _select_rows(
        query, query.before or query.after, backwards=backwards, limit=size + 1
    )
    rows = list(found[:size])
    has_more = len(found) > size

    # An empty page still says whether there is something on its other side.
    if not rows:
        place = place_beside(query)
        beside = place and (yield _select_rows(query, place, backwards=not backwards, limit=1))
        return empty_page(query, has_opposite=bool(beside))

    opposite = yield _select_rows(query, _position(rows[0]), backwards=not backwards, limit=1)

    # A page is always in the order of change, from whichever side it was read.
    has_previous = bool(opposite)
    has_next = has_more
    if backwards:
        rows.reverse()
        has_previous = has_more
        has_next = bool(opposite)

    payments = yield from _payments(query.brand, [reference for _, reference, _ in rows])
    return Records(
        tuple(
            reversed_payment_object(ReversedPayment(payments[reference], parse_reversals(stored)))
            for _, reference, stored in rows
        ),
        _position(rows[0]),
        _position(rows[-1]),
        has_previous=has_previous,
        has_next=has_next,
        simulated=tuple(payments[reference].order.is_simulated for _, reference, _ in rows),
    )


def _select_rows(
    query: ListReversals, beyond: Position | None, *, backwards: bool, limit: int
) -> SqlStatement:
    """Select changed_at, payment and reversals of matching rows beyond a position, nearest
    first."""
    where = Where().and_("brand = ?", query.brand)
    where.and_("changed_at >= ?", query.begin).and_("changed_at < ?", query.end)
    if beyond is not None:
        sign = "<" if backwards else ">"
        where.and_(
            f"(changed_at, payment) {sign} (?, ?)", beyond.created_at, beyond.gateway_reference
        )

    order = "DESC" if backwards else "ASC"
    return SqlStatement(
        f"SELECT changed_at, payment, reversals FROM reversals {where}"
        f" ORDER BY brand {order}, changed_at {order}, payment {order} LIMIT ?",
        (*where.values, limit),
    )


def _position(row: Row) -> Position:
    return Position(*row[:2])


def _payments(brand: str, references: Sequence[str]) -> SqlQuery[dict[str, Transaction]]:
    """Return these payments of a brand by gatewayReference."""
    where = Where().and_("brand = ?", brand).among("gateway_reference", references)
    rows = yield from execute(
        f"SELECT order_row, progress FROM transactions {where}", *where.values
    )
    found = [parse_transaction(*row) for row in rows]
    return {payment.reference: payment for payment in found}
