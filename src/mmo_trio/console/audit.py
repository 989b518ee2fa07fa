"""The audit log, to read; `mmo audit verify` checks it."""

from __future__ import annotations

from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.payments import PAGE_SIZE
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import SessionGuard


def create_audit_blueprint(context: ConsoleContext, guard: SessionGuard) -> Blueprint:
    """GET /audit."""
    pages = Blueprint("auditing", __name__)

    @pages.get("/audit")
    async def listed() -> str:
        await guard.require(Permission.READ_AUDIT)
        before = request.args.get("before", "")
        if before and not (before.isascii() and before.isdigit() and len(before) <= 18):
            raise BadRequest("This page doesn't exist: begin at the first one.")
        rows = await context.store.admin.audit(
            before=int(before) if before else None, limit=PAGE_SIZE + 1
        )
        shown = rows[:PAGE_SIZE]
        return await render_template(
            "audit.html", rows=shown, further=shown[-1].number if len(rows) > PAGE_SIZE else None
        )

    return pages
