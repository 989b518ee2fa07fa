"""What waits for a person: stuck payments, the suspense book, callbacks that weren't delivered."""

from __future__ import annotations

from quart import Blueprint, Response, render_template, request, url_for
from werkzeug.exceptions import BadRequest, Conflict

from mmo_sansio.payments.stuck import STUCK_AFTER
from mmo_sansio.values.clock import Span, earlier, later
from mmo_trio.admin.audit_event import audit_event
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.payments import PAGE_SIZE, parse_position
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import SessionGuard, current_user, form_field
from mmo_trio.console.views import (
    format_utc_seconds,
    to_callback_view,
    to_payment_row,
    to_suspense_entry_view,
)


def create_work_lists_blueprint(context: ConsoleContext, guard: SessionGuard) -> Blueprint:
    """GET /stuck, /suspense, /callbacks; POST /suspense/ID/close. Nothing here sends a callback again (K3)."""
    pages = Blueprint("lists", __name__)
    office = context.store.admin

    @pages.get("/stuck")
    async def stuck() -> str:
        before = later(earlier(context.now(), STUCK_AFTER), Span(1))
        found = await office.unknown_outcomes(
            before, after=parse_position(request.args.get("after")), limit=PAGE_SIZE + 1
        )
        shown, eyes = found[:PAGE_SIZE], current_user().mask
        last = shown[-1] if len(found) > PAGE_SIZE else None
        return await render_template(
            "stuck.html",
            lines=[
                (to_payment_row(e, eyes), format_utc_seconds(e.progress.submitted_at))
                for e in shown
            ],
            further=last and f"{last.order.created_at}-{last.reference}",
        )

    @pages.get("/suspense")
    async def suspense() -> str:
        with_closed = request.args.get("closed") == "1"
        found = await office.suspense_entries(
            with_closed=with_closed,
            before=_parse_row_number(request.args.get("before")),
            limit=PAGE_SIZE + 1,
        )
        shown = found[:PAGE_SIZE]
        return await render_template(
            "suspense.html",
            entries=[to_suspense_entry_view(each, current_user().mask) for each in shown],
            further=shown[-1].id if len(found) > PAGE_SIZE else None,
            with_closed=with_closed,
        )

    @pages.post("/suspense/<int:id>/close")
    async def close(id: int) -> Response:
        visitor = await guard.require(Permission.CLOSE_SUSPENSE)
        note, now = await form_field("note"), context.now()
        subject = f"suspense:{id}"
        await office.append_audit(
            audit_event(now, visitor.actor, "suspense_closed", subject, note=note)
        )
        closed = id < 2**63 and await context.store.close_suspense(
            id, by=visitor.name, note=note, now=now
        )
        if not closed:
            await office.append_audit(
                audit_event(now, visitor.actor, "suspense_was_not_open", subject)
            )
            raise Conflict("There is no open entry with this number.")
        return Response("", 303, {"Location": url_for("lists.suspense")})

    @pages.get("/callbacks")
    async def callbacks() -> str:
        brand = request.args.get("brand", "").strip()[:255] or None
        found = await office.failed_callbacks(
            brand=brand, before=_parse_row_number(request.args.get("before")), limit=PAGE_SIZE + 1
        )
        shown, eyes = found[:PAGE_SIZE], current_user().mask
        return await render_template(
            "callbacks.html",
            rows=[(each, to_callback_view(each, eyes)) for _, each in shown],
            further=shown[-1][0] if len(found) > PAGE_SIZE else None,
            brand=brand,
            brands=[each.brand.id for each in await context.store.brands()],
        )

    return pages


def _parse_row_number(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest("This page doesn't exist: begin at the first one.")
    return int(text)
