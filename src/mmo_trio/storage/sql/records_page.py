"""Reads a page of records in SQL (R1 to R6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import evolve

from mmo_sansio.messages.queries import ListRecords, Position, Records, empty_page, place_beside
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.sql.serialization import OBJECT_COLUMNS, object_of_row
from mmo_trio.storage.sql.statements import Row, SqlQuery, SqlStatement, Where

# Rows that are read without a look at their sizes before: even the largest are fewer bytes than a
# page may have.
UNMEASURED_ROWS: Final = 100


_COLUMNS: Final = f"is_simulated, {OBJECT_COLUMNS}"

# The bytes that a row has in OBJECT_COLUMNS.
_STORED_SIZE: Final = (
    "CASE WHEN length(object) > 0 THEN length(object) ELSE length(order_row) + length(progress) "
    "END AS size"
)


def list_records(query: ListRecords) -> SqlQuery[Records]:
    """Return a page of transaction objects. Needs one snapshot for its statements."""
    backwards = query.before is not None
    rows, has_more = yield from _read_page(query, query.before or query.after, backwards=backwards)

    # An empty page still says whether there is something on its other side.
    if not rows:
        place = place_beside(query)
        opposite = place and (
            yield _select_rows(query, place, "1", backwards=not backwards, limit=1)
        )
        return empty_page(query, has_opposite=bool(opposite))

    nearest = Position(*rows[0][:2])
    opposite = yield _select_rows(query, nearest, "1", backwards=not backwards, limit=1)

    # A page is always in the order of creation, from whichever side it was read.
    has_previous = bool(opposite)
    has_next = has_more
    if backwards:
        rows.reverse()
        has_previous = has_more
        has_next = bool(opposite)

    first, last = Position(*rows[0][:2]), Position(*rows[-1][:2])
    simulated = tuple(bool(is_simulated) for *_, is_simulated in rows)
    return Records(
        _take_objects(rows),
        first,
        last,
        has_previous=has_previous,
        has_next=has_next,
        simulated=simulated,
    )


def _read_page(
    query: ListRecords, beyond: Position | None, *, backwards: bool
) -> SqlQuery[tuple[list[Row], bool]]:
    """Return the rows of the page with their objects, nearest first, and whether further ones
    follow.

    At most `bytes_max` of rows, as they are stored, and of objects are in memory at a time: the
    size of many rows is read first, which loads no object."""
    found: list[Row] = []
    total = 0
    while True:
        rows, has_more = yield from _read_rows(
            query, beyond, query.page_size + 1 - len(found), backwards=backwards
        )

        # Popped one by one, so that no row is in memory beside its object.
        rows.reverse()
        while rows:
            created_at, reference, is_simulated, *stored = rows.pop()
            rendered = object_of_row(stored)
            total += len(rendered)
            if found and (len(found) == query.page_size or total > query.bytes_max):
                return found, True

            found.append((created_at, reference, rendered, is_simulated))

        if not has_more:
            return found, False

        beyond = Position(*found[-1][:2])


def _read_rows(
    query: ListRecords, beyond: Position | None, limit: int, *, backwards: bool
) -> SqlQuery[tuple[list[Row], bool]]:
    """Return so many rows beyond a position, or the first of them if all have too many bytes; and
    whether more follow within the limit."""
    # Many rows: their sum first, which is usually small enough, and only then the size of each.
    if limit > UNMEASURED_ROWS + 1:
        measure = _select_rows(query, beyond, _STORED_SIZE, backwards=backwards, limit=limit)
        ((total,),) = yield evolve(
            measure, text=f"SELECT coalesce(sum(size), 0) FROM ({measure.text}) AS page"
        )
        if total > query.bytes_max:
            sizes = yield measure
            most = _count_fitting((row[2] for row in sizes), query)
            return list(
                (yield _select_rows(query, beyond, _COLUMNS, backwards=backwards, limit=most))
            ), True

    return list(
        (yield _select_rows(query, beyond, _COLUMNS, backwards=backwards, limit=limit))
    ), False


def _count_fitting(sizes: Iterable[int], query: ListRecords) -> int:
    """Return how many of these objects are a page, nearest first: at most `page_size` and
    `bytes_max`, but one at least, so that a walk goes on."""
    total = 0
    count = 0
    for size in sizes:
        total += size
        if count == query.page_size or (total > query.bytes_max and count > 0):
            break

        count += 1

    return count


def _take_objects(rows: list[Row]) -> tuple[bytes, ...]:
    """Return the objects of rows; each row is dropped as soon as it is read, so that no page is in
    memory twice."""
    rows.reverse()
    objects: list[bytes] = []
    while rows:
        objects.append(rows.pop()[2])
    return tuple(objects)


def _select_rows(
    query: ListRecords, beyond: Position | None, columns: str, *, backwards: bool, limit: int
) -> SqlStatement:
    """Select created_at, gateway_reference and these columns of matching rows beyond a position,
    nearest first."""
    begin, end = query.begin, query.end
    if beyond is not None and backwards:
        end = Instant(min(end, beyond.created_at + 1))
    elif beyond is not None:
        # The index is entered at the position, not at the window's edge.
        begin = max(begin, beyond.created_at)

    where = Where().and_("brand = ?", query.brand)
    where.and_("created_at >= ?", begin).and_("created_at < ?", end)
    if beyond is not None:
        sign = "<" if backwards else ">"
        where.and_(
            f"(created_at, gateway_reference) {sign} (?, ?)",
            beyond.created_at,
            beyond.gateway_reference,
        )

    where.and_("type = ?", query.type and query.type.value).and_("method = ?", query.method)
    where.and_("status = ?", query.status and query.status.value)
    # All three columns of the index, so that it is read in its order and nothing is sorted.
    order = "DESC" if backwards else "ASC"
    return SqlStatement(
        f"SELECT created_at, gateway_reference, {columns} FROM transactions {where}"
        f" ORDER BY brand {order}, created_at {order}, gateway_reference {order} LIMIT ?",
        (*where.values, limit),
    )
