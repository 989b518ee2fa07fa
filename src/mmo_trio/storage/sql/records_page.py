"""A page of records as SQL (R1 to R6): which rows it has, and what they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmo_sansio.messages.queries import ListRecords, Position, Records
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.sql.serialization import without_checksum

EMPTY_PAGE = Records((), None, None, has_previous=False, has_next=False)


def page_statement(
    query: ListRecords, beyond: Position | None, *, backwards: bool, limit: int, placeholder: str
) -> tuple[str, Sequence[object]]:
    """Statement and values for created_at, gateway_reference and object of matching rows beyond a position, nearest
    first. `mark` stands for a value: `?` or `%s`."""
    begin, end = query.begin, query.end
    if beyond is not None and backwards:
        end = Instant(min(end, beyond.created_at + 1))
    elif beyond is not None:  # The index is entered at the position, not at the window's edge.
        begin = max(begin, beyond.created_at)
    conditions = [
        f"brand = {placeholder}",
        f"created_at >= {placeholder}",
        f"created_at < {placeholder}",
    ]
    values: list[object] = [query.brand, begin, end]
    if beyond is not None:
        sign = "<" if backwards else ">"
        conditions.append(f"(created_at, gateway_reference) {sign} ({placeholder}, {placeholder})")
        values += [beyond.created_at, beyond.gateway_reference]
    filters = {"type": query.type, "method": query.method, "status": query.status}
    for column, wanted in filters.items():
        if wanted is not None:
            conditions.append(f"{column} = {placeholder}")
            values.append(str(wanted))
    order = "DESC" if backwards else "ASC"
    statement = (
        "SELECT created_at, gateway_reference, object FROM transactions"
        f" WHERE {' AND '.join(conditions)}"
        f" ORDER BY brand {order}, created_at {order}, gateway_reference {order} LIMIT {placeholder}"
    )
    return statement, (*values, limit)


def page_with_lookahead_statement(
    query: ListRecords, placeholder: str
) -> tuple[str, Sequence[object]]:
    """The rows of the page, and one more, which tells whether there is more on that side."""
    backwards = query.before is not None
    beyond = query.before or query.after
    return page_statement(
        query, beyond, backwards=backwards, limit=query.page_size + 1, placeholder=placeholder
    )


def opposite_row_statement(
    query: ListRecords, rows: Sequence[Sequence[Any]], placeholder: str
) -> tuple[str, Sequence[object]]:
    """One row on the other side, where what `page_with_lookahead_statement` found begins."""
    nearest = Position(rows[0][0], rows[0][1])
    return page_statement(
        query, nearest, backwards=query.before is None, limit=1, placeholder=placeholder
    )


def build_page(
    query: ListRecords, rows: Sequence[Sequence[Any]], *, has_more_opposite: bool
) -> Records:
    """The page that these rows are, given as `page_with_lookahead_statement` finds them. `opposite`: whether there is more on the
    side that it came from."""
    if not rows:
        return EMPTY_PAGE
    backwards = query.before is not None
    is_more = len(rows) > query.page_size
    page = list(rows[: query.page_size])
    if backwards:
        page.reverse()
    return Records(
        tuple(without_checksum(row[2]) for row in page),
        Position(page[0][0], page[0][1]),
        Position(page[-1][0], page[-1][1]),
        has_previous=is_more if backwards else has_more_opposite,
        has_next=has_more_opposite if backwards else is_more,
    )
