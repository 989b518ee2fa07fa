"""Providers and breakers, with what became of them; closing a provider for new payments, and opening it again."""

from __future__ import annotations

from quart import Blueprint, Response, render_template, url_for
from werkzeug.exceptions import Conflict, NotFound

from mmo_trio.admin.audit_event import deed
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import Guard, current, field
from mmo_trio.console.views import moment
from mmo_trio.storage.interface.admin_types import AuditRow
from mmo_trio.storage.interface.store import ClosedProvider

HISTORY = 50


def provider_pages(desk: ConsoleDesk, guard: Guard) -> Blueprint:
    """GET /providers, /breakers; POST /providers/NAME/disable and /enable."""
    pages = Blueprint("providers", __name__)
    office = desk.store.office

    @pages.get("/providers")
    async def listed() -> str:
        closed = {each.name: each for each in await desk.store.closed_providers()}
        breakers, eyes = desk.accounts(), current().eyes
        rows, history = [], list[AuditRow]()
        for name, title in desk.titles.items():
            state = breakers.get(name)
            rows.append((name, title, closed.get(name), state.value if state else "none"))
            history += await office.audit(about=f"provider:{name}", limit=HISTORY)
        history.sort(key=lambda row: row.number, reverse=True)
        deeds = [row.deed for row in history[:HISTORY]]
        return await render_template(
            "providers.html",
            rows=rows,
            deeds=[(moment(e.at), e.actor, e.act, e.about, eyes.text(e.detail)) for e in deeds],
        )

    @pages.post("/providers/<name>/disable")
    async def disable(name: str) -> Response:
        visitor = await guard.insist(Permission.SWITCH_PROVIDERS)
        _must_be_known(name)
        reason, now = await field("reason"), desk.now()
        subject = f"provider:{name}"
        await office.note(deed(now, visitor.actor, "provider_closed", subject, reason=reason))
        if not await desk.store.close_provider(ClosedProvider(name, now, visitor.name, reason)):
            raise Conflict("It is closed already.")
        return _back()

    @pages.post("/providers/<name>/enable")
    async def enable(name: str) -> Response:
        visitor = await guard.insist(Permission.SWITCH_PROVIDERS)
        _must_be_known(name)
        await office.note(deed(desk.now(), visitor.actor, "provider_opened", f"provider:{name}"))
        if not await desk.store.open_provider(name):
            raise Conflict("It isn't closed.")
        return _back()

    @pages.get("/breakers")
    async def breakers() -> str:
        kept = await desk.store.breakers()
        rows = [
            (
                brand,
                each.state.value,
                moment(each.open_until),
                sum(window.successes for window in each.sub_windows),
                sum(window.failures for window in each.sub_windows),
            )
            for brand, each in sorted(kept.items())
        ]
        changes = await office.breaker_changes(limit=HISTORY)
        return await render_template("breakers.html", rows=rows, changes=changes)

    def _must_be_known(name: str) -> None:
        if name not in desk.titles:
            raise NotFound("There is no such provider.")

    return pages


def _back() -> Response:
    return Response("", 303, {"Location": url_for("providers.listed")})
