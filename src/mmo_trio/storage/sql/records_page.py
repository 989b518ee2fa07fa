"""Reads a page of records in SQL (R1 to R6)."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from mmo_sansio.messages.queries import ListRecords, Position, Records
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.shared.records_size import count_fitting
from mmo_trio.storage.sql.serialization import CHECKSUM_BYTES, OBJECT_COLUMNS, object_of_row
from mmo_trio.storage.sql.statements import Row, SqlQuery, SqlStatement, Where

UNMEASURED_ROWS: Final = 100
"""Rows that are read without a look at their sizes before: even the largest are fewer bytes than a page may have."""


_SIZE_MOST: Final = (
    "CASE WHEN length(object) > 0 THEN length(object) ELSE length(order_row) + length(progress) + 1000 END AS size"
)
"""At least the size of an object: that of a pending transaction has the same values, and shorter names than that."""

_SIZE_COLUMNS: Final = OBJECT_COLUMNS.replace("object,", "length(object),", 1)


def list_records(query: ListRecords) -> SqlQuery[Records]:
    """Return a page of transaction objects. Needs one snapshot for its statements."""
    backwards = query.before is not None
    rows, has_more = yield from _read_page(query, query.before or query.after, backwards=backwards)
    if not rows:
        return Records((), None, None, has_previous=False, has_next=False)
    nearest = Position(*rows[0][:2])
    opposite = yield _select_rows(query, nearest, "1", backwards=not backwards, limit=1)
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


def _read_page(query: ListRecords, beyond: Position | None, *, backwards: bool) -> SqlQuery[tuple[list[Row], bool]]:
    """Return the rows of the page with their objects, nearest first, and whether further ones follow.

    Nothing is loaded that the page does not hold: the size of many rows is read first, which loads no object."""
    limit = query.page_size + 1
    if query.page_size > UNMEASURED_ROWS:
        measure = _select_rows(query, beyond, _SIZE_MOST, backwards=backwards, limit=limit)
        ((total,),) = yield evolve(measure, text=f"SELECT coalesce(sum(size), 0) FROM ({measure.text}) AS page")
        if total > query.bytes_max:
            sizes = yield _select_rows(query, beyond, _SIZE_COLUMNS, backwards=backwards, limit=limit)
            fitting = count_fitting(map(_object_size, sizes), query)
            rows = yield _select_rows(query, beyond, OBJECT_COLUMNS, backwards=backwards, limit=fitting)
            return _with_objects(list(rows)), len(sizes) > fitting
    rows = yield _select_rows(query, beyond, OBJECT_COLUMNS, backwards=backwards, limit=limit)
    found = _with_objects(list(rows))
    fitting = count_fitting((len(row[2]) for row in found), query)
    return found[:fitting], len(found) > fitting


def _object_size(row: Row) -> int:
    """Return the bytes of an object; that of a pending transaction is rendered for it."""
    size, order, progress = row[2:]
    return size - CHECKSUM_BYTES if size else len(object_of_row((b"", order, progress)))


def _with_objects(rows: list[Row]) -> list[Row]:
    """Replace the columns after created_at and gateway_reference by the object; no page is in memory twice."""
    for nth, row in enumerate(rows):
        rows[nth] = (*row[:2], object_of_row(row[2:]))
    return rows


def _take_objects(rows: list[Row]) -> tuple[bytes, ...]:
    """Return the objects of rows; each row is dropped as soon as it is read, so that no page is in memory twice."""
    rows.reverse()
    objects: list[bytes] = []
    while rows:
        objects.append(rows.pop()[2])
    return tuple(objects)


def _select_rows(
    query: ListRecords, beyond: Position | None, column: str, *, backwards: bool, limit: int
) -> SqlStatement:
    """Select created_at, gateway_reference and this column of matching rows beyond a position, nearest first."""
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
    return SqlStatement(
        f"SELECT created_at, gateway_reference, {column} FROM transactions {where}"
        f" ORDER BY brand {order}, created_at {order}, gateway_reference {order} LIMIT ?",
        (*where.values, limit),
    )
