"""Reads a page of records in SQL (R1 to R6)."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.messages.queries import ListRecords, Position, Records
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.sql.serialization import without_checksum
from mmo_trio.storage.sql.statements import Row, SqlQuery, Where, execute


def list_records(query: ListRecords) -> SqlQuery[Records]:
    """Return a page of transaction objects. Needs one snapshot for its two statements."""
    backwards = query.before is not None
    rows = yield from _rows_beyond(query, query.before or query.after, backwards=backwards, limit=query.page_size + 1)
    if not rows:
        return Records((), None, None, has_previous=False, has_next=False)
    nearest = Position(*rows[0][:2])
    opposite = yield from _rows_beyond(query, nearest, backwards=not backwards, limit=1)
    has_more = len(rows) > query.page_size
    page = rows[: query.page_size]
    if backwards:
        page = page[::-1]
    return Records(
        tuple(without_checksum(row[2]) for row in page),
        Position(*page[0][:2]),
        Position(*page[-1][:2]),
        has_previous=has_more if backwards else bool(opposite),
        has_next=bool(opposite) if backwards else has_more,
    )


def _rows_beyond(
    query: ListRecords, beyond: Position | None, *, backwards: bool, limit: int
) -> SqlQuery[Sequence[Row]]:
    """Return created_at, gateway_reference and object of matching rows beyond a position, nearest first."""
    begin, end = query.begin, query.end
    if beyond is not None and backwards:
        end = Instant(min(end, beyond.created_at + 1))
    elif beyond is not None:  # The index is entered at the position, not at the window's edge.
        begin = max(begin, beyond.created_at)
    where = Where().and_("brand = ?", query.brand)
    where.and_("created_at >= ?", begin).and_("created_at < ?", end)
    if beyond is not None:
        sign = "<" if backwards else ">"
        where.and_(f"(created_at, gateway_reference) {sign} (?, ?)", beyond.created_at, beyond.gateway_reference)
    where.and_("type = ?", query.type and query.type.value).and_("method = ?", query.method)
    where.and_("status = ?", query.status and query.status.value)
    order = "DESC" if backwards else "ASC"
    return execute(
        f"SELECT created_at, gateway_reference, object FROM transactions {where}"
        f" ORDER BY brand {order}, created_at {order}, gateway_reference {order} LIMIT ?",
        *where.values,
        limit,
    )
