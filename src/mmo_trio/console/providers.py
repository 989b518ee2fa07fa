"""Providers and breakers, with what became of them; closing a provider for new payments, and opening it again."""

from __future__ import annotations

from quart import Blueprint, Response, render_template, url_for
from werkzeug.exceptions import Conflict, NotFound

from mmo_sansio.values.clock import Instant
from mmo_trio.admin.audit_event import audit_event
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import SessionGuard, current_user, form_field
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.storage.interface.admin_types import AuditRow
from mmo_trio.storage.interface.store import ClosedProvider

HISTORY_ROWS_MAX = 50


def create_providers_blueprint(context: ConsoleContext, guard: SessionGuard) -> Blueprint:
    """GET /providers, /breakers; POST /providers/NAME/disable and /enable."""
    pages = Blueprint("providers", __name__)
    office = context.store.admin

    @pages.get("/providers")
    async def listed() -> str:
        closed = {each.name: each for each in await context.store.closed_providers()}
        breakers, eyes = context.provider_breakers(), current_user().mask
        rows, history = [], list[AuditRow]()
        for name, title in context.provider_titles.items():
            state = breakers.get(name)
            rows.append((name, title, closed.get(name), state.value if state else "none"))
            history += await office.audit(about=f"provider:{name}", limit=HISTORY_ROWS_MAX)
        history.sort(key=lambda row: row.number, reverse=True)
        deeds = [row.event for row in history[:HISTORY_ROWS_MAX]]
        return await render_template(
            "providers.html",
            rows=rows,
            deeds=[
                (format_utc_seconds(e.at), e.actor, e.action, e.about, eyes.text(e.detail))
                for e in deeds
            ],
        )

    @pages.post("/providers/<name>/disable")
    async def disable(name: str) -> Response:
        visitor = await guard.require(Permission.SWITCH_PROVIDERS)
        _must_be_known(name)
        reason, now = await form_field("reason"), context.now()
        subject = f"provider:{name}"
        await office.append_audit(
            audit_event(now, visitor.actor, "provider_closed", subject, reason=reason)
        )
        if not await context.store.close_provider(ClosedProvider(name, now, visitor.name, reason)):
            raise Conflict("It is closed already.")
        return _redirect_to_providers()

    @pages.post("/providers/<name>/enable")
    async def enable(name: str) -> Response:
        visitor = await guard.require(Permission.SWITCH_PROVIDERS)
        _must_be_known(name)
        await office.append_audit(
            audit_event(context.now(), visitor.actor, "provider_opened", f"provider:{name}")
        )
        if not await context.store.open_provider(name):
            raise Conflict("It isn't closed.")
        return _redirect_to_providers()

    @pages.get("/breakers")
    async def breakers() -> str:
        kept = await context.store.breakers()
        rows = [
            (
                brand,
                each.state.value,
                format_utc_seconds(None if each.open_until is None else Instant(each.open_until)),
                sum(window.successes for window in each.sub_windows),
                sum(window.failures for window in each.sub_windows),
            )
            for brand, each in sorted(kept.items())
        ]
        changes = await office.breaker_changes(limit=HISTORY_ROWS_MAX)
        return await render_template("breakers.html", rows=rows, changes=changes)

    def _must_be_known(name: str) -> None:
        if name not in context.provider_titles:
            raise NotFound("There is no such provider.")

    return pages


def _redirect_to_providers() -> Response:
    return Response("", 303, {"Location": url_for("providers.listed")})
