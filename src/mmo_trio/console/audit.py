"""The audit log, to read; `mmo audit verify` checks it."""

from __future__ import annotations

from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_trio.console.context import ConsoleDesk
from mmo_trio.console.payments import PAGE
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import Guard


def audit_pages(desk: ConsoleDesk, guard: Guard) -> Blueprint:
    """GET /audit."""
    pages = Blueprint("auditing", __name__)

    @pages.get("/audit")
    async def listed() -> str:
        await guard.insist(Permission.READ_AUDIT)
        before = request.args.get("before", "")
        if before and not (before.isascii() and before.isdigit() and len(before) <= 18):
            raise BadRequest("This page doesn't exist: begin at the first one.")
        rows = await desk.store.office.audit(before=int(before) if before else None, limit=PAGE + 1)
        shown = rows[:PAGE]
        return await render_template(
            "audit.html", rows=shown, further=shown[-1].number if len(rows) > PAGE else None
        )

    return pages
