"""A list of payments as CSV: the selection that a page shows, streamed, with as little personal data as lists have."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Sequence

from attrs import evolve
from quart import Blueprint, Response, request
from werkzeug.exceptions import TooManyRequests

from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Transaction
from mmo_trio.console.context import console
from mmo_trio.console.payment_selection import read_selection
from mmo_trio.console.permissions import MASKED
from mmo_trio.console.sessions import current_user, record_action
from mmo_trio.http.asgi.host import TakeTurn, turns_of
from mmo_trio.storage.interface.admin import AdminStore
from mmo_trio.storage.interface.admin_types import PaymentFilter
from mmo_trio.system.display_text import guard_cell

EXPORT_ROWS_MAX = 50_000
"""Payments of one export; `mmo records export` has no limit."""
EXPORT_PAGE_SIZE = 500
"""Payments in memory at one time."""
COLUMNS = (
    *("createdAt", "gatewayReference", "brand", "merchantReference", "type", "flow", "method", "country"),
    *("provider", "providerReference", "msisdn", "amount", "currency", "status", "errorCode", "completedAt"),
)

pages = Blueprint("payment_export", __name__)


@pages.get("/payments.csv")
async def export_payments() -> Response:
    """Send the selected payments as CSV, the newest first; the audit log says who did it and what was selected."""
    selection, exports, user = read_selection(), console().exports, current_user().actor
    if not exports.has_room_for(user):
        raise TooManyRequests("An export is running. Start the next one when it is complete.", retry_after=10)
    await record_action("payments_exported", "payments", selection=selection.fields)
    payment_filter = evolve(selection.payment_filter, limit=EXPORT_PAGE_SIZE)
    csv_pages = _csv_pages(console().store.admin, payment_filter, turns_of(request.scope))

    async def rows() -> AsyncGenerator[bytes, None]:
        with exports.hold(user):
            async for each in csv_pages:
                yield each

    response = Response(rows(), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="payments.csv"'
    response.timeout = None
    return response


async def _csv_pages(
    admin: AdminStore, payment_filter: PaymentFilter, take_turn: TakeTurn
) -> AsyncGenerator[bytes, None]:
    yield csv_lines([COLUMNS])
    left = EXPORT_ROWS_MAX
    while left > 0:
        async with take_turn():
            page = await admin.list_payments(evolve(payment_filter, limit=min(left, EXPORT_PAGE_SIZE)))
            lines = csv_lines([_cells(each) for each in page.transactions])
        if lines:
            yield lines
        left -= len(page.transactions)
        if page.next_position is None:
            return
        payment_filter = evolve(payment_filter, before=page.next_position)


def _cells(transaction: Transaction) -> Sequence[str]:
    order, progress = transaction.order, transaction.progress
    return (
        format_with_microseconds(order.created_at),
        transaction.reference,
        order.brand,
        order.merchant_reference or "",
        order.type,
        order.flow,
        order.method,
        order.country,
        order.provider,
        progress.provider_reference or "",
        MASKED.number(order.party.msisdn),
        order.requested.text,
        order.requested.currency,
        transaction.status,
        progress.error_code or "",
        _format_time(progress.completed_at),
    )


def _format_time(at: Instant | None) -> str:
    return "" if at is None else format_with_microseconds(at)


def csv_lines(rows: Sequence[Sequence[str]]) -> bytes:
    """Return rows as CSV (RFC 4180), of which a spreadsheet program runs nothing."""
    text = io.StringIO()
    csv.writer(text).writerows([[guard_cell(cell) for cell in row] for row in rows])
    return text.getvalue().encode("utf-8", "replace")
