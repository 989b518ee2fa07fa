"""The month's books are exported from the page of payments."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC

from quart import Blueprint, Response, request
from werkzeug.exceptions import BadRequest, TooManyRequests

from mmo_sansio.accounting.book_rows import BOOK_COLUMNS, book_rows, cell_text
from mmo_sansio.accounting.calendar_months import CalendarError, Month, calendar_month
from mmo_sansio.accounting.month_books import MonthBook
from mmo_sansio.values.clock import DAY, Instant, Span, later
from mmo_sansio.values.formula_guard import guard_cell
from mmo_sansio.values.model import Status
from mmo_trio.admin.month_books import fill_book
from mmo_trio.console.context import console
from mmo_trio.console.parameters import query_argument
from mmo_trio.console.sessions import current_user, record_action
from mmo_trio.http.asgi.host import TakeTurn, turns_of
from mmo_trio.http.asgi.web_app import stream_response
from mmo_trio.storage.interface.admin_types import CountDimension, CountQuery
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.time_zones import find_zone

# Payments until the end of the month of one book, which is made in memory beside those who are
# served; `mmo records export` has no limit.
PAYMENTS_MAX = 500_000

# Rows that are written in one turn.
ROWS_AT_ONCE = 500

pages = Blueprint("books", __name__)


@pages.get("/books.csv")
async def export_book() -> Response:
    """Send the book of a month as CSV; the audit log says who did it, and of which month."""
    name, zone_name = query_argument("month") or "", query_argument("timezone")
    brand, exports, user = query_argument("brand"), console().exports, current_user().actor
    try:
        zone = UTC if zone_name is None else find_zone(zone_name)
        month = calendar_month(name, zone)
    except CalendarError as error:
        raise BadRequest(str(error)) from None

    brands = [record.brand.id for record in await console().store.admin.brands()]
    if brand is not None and brand not in brands:
        raise BadRequest("There is no such brand.")

    if await _count_payments(month, brand) > PAYMENTS_MAX:
        raise BadRequest(
            f"There are more than {PAYMENTS_MAX:,} payments until the end of this month. Write its "
            "book by the command `mmo records export --for-accounting`."
        )

    if not exports.has_room_for(user):
        raise TooManyRequests(
            "An export is running. Start the next one when it is complete.", retry_after=10
        )

    await record_action("books_exported", "records", brand=brand, month=name, timezone=zone_name)
    if brand is None:
        chosen = brands
    else:
        chosen = [brand]

    lines = _book_lines(console().store, month, chosen, turns_of(request.scope))

    async def held_lines() -> AsyncGenerator[bytes, None]:
        with exports.hold(user):
            async for line in lines:
                yield line

    response = stream_response(held_lines(), "text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="books-{name}.csv"'
    return response


async def _count_payments(month: Month, brand: str | None) -> int:
    """Return how many payments the counts of the charts have until the end of the last day."""
    only = None
    if brand is not None:
        only = (CountDimension.BRAND, brand)
    query = CountQuery(DAY, Instant(0), later(month.end, Span(DAY)), only)
    counts = await console().store.admin.count_payments(query, by=None)
    return sum(count.count for count in counts if count.status is Status.PENDING)


async def _book_lines(
    store: Store, month: Month, brands: Sequence[str], take_turn: TakeTurn
) -> AsyncGenerator[bytes, None]:
    yield _lines([BOOK_COLUMNS])
    book = MonthBook(month)
    await fill_book(book, store, brands, take_turn=take_turn)

    rows: list[Sequence[str]] = []
    for row in book_rows(book):
        rows.append([cell_text(cell, guard_cell) for cell in row])
        if len(rows) == ROWS_AT_ONCE:
            async with take_turn():
                lines = _lines(rows)
            yield lines
            rows = []

    yield _lines(rows)


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
