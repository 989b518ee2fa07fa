"""What waits for a person: stuck payments, the suspense book, callbacks that weren't delivered."""

from __future__ import annotations

from quart import Blueprint, Response, render_template, request, url_for
from werkzeug.exceptions import BadRequest, Conflict

from mmo_sansio.payments.stuck import STUCK_AFTER
from mmo_trio.admin.audit_event import deed
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.console.payments import PAGE, place_of
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import Guard, current, field
from mmo_trio.console.views import delivery_of, entry_of, line_of, moment


def list_pages(desk: ConsoleDesk, guard: Guard) -> Blueprint:
    """GET /stuck, /suspense, /callbacks; POST /suspense/ID/close. Nothing here sends a callback again (K3)."""
    pages = Blueprint("lists", __name__)
    office = desk.store.office

    @pages.get("/stuck")
    async def stuck() -> str:
        before = desk.now() - STUCK_AFTER + 1
        found = await office.unknown_since(
            before, after=place_of(request.args.get("after")), limit=PAGE + 1
        )
        shown, eyes = found[:PAGE], current().eyes
        last = shown[-1] if len(found) > PAGE else None
        return await render_template(
            "stuck.html",
            lines=[(line_of(e, eyes), moment(e.progress.submitted_at)) for e in shown],
            further=last and f"{last.order.created_at}-{last.reference}",
        )

    @pages.get("/suspense")
    async def suspense() -> str:
        with_closed = request.args.get("closed") == "1"
        found = await office.suspense_entries(
            with_closed=with_closed, before=_number(request.args.get("before")), limit=PAGE + 1
        )
        shown = found[:PAGE]
        return await render_template(
            "suspense.html",
            entries=[entry_of(each, current().eyes) for each in shown],
            further=shown[-1].id if len(found) > PAGE else None,
            with_closed=with_closed,
        )

    @pages.post("/suspense/<int:id>/close")
    async def close(id: int) -> Response:
        visitor = await guard.insist(Permission.CLOSE_SUSPENSE)
        note, now = await field("note"), desk.now()
        subject = f"suspense:{id}"
        await office.note(deed(now, visitor.actor, "suspense_closed", subject, note=note))
        closed = id < 2**63 and await desk.store.close_suspense(
            id, by=visitor.name, note=note, now=now
        )
        if not closed:
            await office.note(deed(now, visitor.actor, "suspense_was_not_open", subject))
            raise Conflict("There is no open entry with this number.")
        return Response("", 303, {"Location": url_for("lists.suspense")})

    @pages.get("/callbacks")
    async def callbacks() -> str:
        brand = request.args.get("brand", "").strip()[:255] or None
        found = await office.failed_callbacks(
            brand=brand, before=_number(request.args.get("before")), limit=PAGE + 1
        )
        shown, eyes = found[:PAGE], current().eyes
        return await render_template(
            "callbacks.html",
            rows=[(each, delivery_of(each, eyes)) for _, each in shown],
            further=shown[-1][0] if len(found) > PAGE else None,
            brand=brand,
            brands=[each.brand.id for each in await desk.store.brands()],
        )

    return pages


def _number(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest("This page doesn't exist: begin at the first one.")
    return int(text)
