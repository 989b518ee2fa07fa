"""Reads a page of records in SQL (R1 to R6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mmo_sansio.messages.queries import ListRecords, Position, Records
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.shared.records_size import count_fitting
from mmo_trio.storage.sql.serialization import CHECKSUM_BYTES, without_checksum
from mmo_trio.storage.sql.statements import Row, SqlQuery, Where, execute

UNMEASURED_ROWS: Final = 100
"""Rows that are read without a look at their sizes before: even the largest ones are fewer bytes than a page may have.
A larger page reads the sizes first, which costs no object, so that it never loads what it cannot hold."""


def list_records(query: ListRecords) -> SqlQuery[Records]:
    """Return a page of transaction objects. Needs one snapshot for its statements."""
    backwards = query.before is not None
    beyond = query.before or query.after
    if query.page_size <= UNMEASURED_ROWS:
        rows = list((yield from _rows_beyond(query, beyond, "object", backwards=backwards, limit=query.page_size + 1)))
        fitting = count_fitting((len(row[2]) - CHECKSUM_BYTES for row in rows), query)
        has_more = len(rows) > fitting
        del rows[fitting:]
    else:
        sizes = yield from _rows_beyond(query, beyond, "length(object)", backwards=backwards, limit=query.page_size + 1)
        fitting = count_fitting((row[2] - CHECKSUM_BYTES for row in sizes), query)
        has_more = len(sizes) > fitting
        rows = list((yield from _rows_beyond(query, beyond, "object", backwards=backwards, limit=fitting)))
    if not rows:
        return Records((), None, None, has_previous=False, has_next=False)
    opposite = yield from _rows_beyond(query, Position(*rows[0][:2]), "1", backwards=not backwards, limit=1)
    if backwards:
        rows.reverse()
    first, last = Position(*rows[0][:2]), Position(*rows[-1][:2])
    return Records(
        _take_objects(rows),
        first,
        last,
        has_previous=has_more if backwards else bool(opposite),
        has_next=bool(opposite) if backwards else has_more,
    )


def _take_objects(rows: list[Row]) -> tuple[bytes, ...]:
    """Return the objects of rows; each row is dropped as soon as it is read, so that no page is in memory twice."""
    rows.reverse()
    objects: list[bytes] = []
    while rows:
        objects.append(without_checksum(rows.pop()[2]))
    return tuple(objects)


def _rows_beyond(
    query: ListRecords, beyond: Position | None, column: str, *, backwards: bool, limit: int
) -> SqlQuery[Sequence[Row]]:
    """Return created_at, gateway_reference and this column of matching rows beyond a position, nearest first."""
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
        f"SELECT created_at, gateway_reference, {column} FROM transactions {where}"
        f" ORDER BY brand {order}, created_at {order}, gateway_reference {order} LIMIT ?",
        *where.values,
        limit,
    )
