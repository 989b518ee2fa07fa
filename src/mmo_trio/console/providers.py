"""The pages about providers and breakers show their state and history, and close a provider."""

from __future__ import annotations

from quart import Blueprint, Response, render_template
from werkzeug.exceptions import Conflict, NotFound

from mmo_trio.console.context import console
from mmo_trio.console.parameters import form_field, redirect_to
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import current_user, record_action, require
from mmo_trio.console.views import show_event
from mmo_trio.storage.interface.admin_types import AuditRow, ClosedProvider, NoteTopic
from mmo_trio.workers.providers.account_notes import read_finding_note

HISTORY_ROWS_MAX = 50

pages = Blueprint("providers", __name__)


@pages.get("/providers")
async def list_providers() -> str:
    """List the providers with their breakers, what the last checks of their accounts found, and their audit events."""
    store, mask = console().store, current_user().mask
    closed = {each.name: each for each in await store.admin.closed_providers()}
    notes = await store.admin.provider_notes(NoteTopic.FINDING)
    recordings = await store.admin.provider_notes(NoteTopic.RECORDING)
    recorded = {each.provider for each in recordings if each.at > console().gateway_time()}
    breakers = console().provider_breakers()
    rows, history = [], list[AuditRow]()
    for name, title in console().provider_titles.items():
        state = breakers.get(name)
        found = [(each.at, read_finding_note(each)) for each in notes if each.provider == name]
        rows.append((name, title, closed.get(name), state.value if state else "none", found, name in recorded))
        history += await store.admin.audit(about=f"provider:{name}", limit=HISTORY_ROWS_MAX)
    history.sort(key=lambda row: row.number, reverse=True)
    return await render_template(
        "providers.html", rows=rows, audit_events=[show_event(each, mask) for each in history[:HISTORY_ROWS_MAX]]
    )


@pages.post("/providers/<name>/disable")
async def close_provider(name: str) -> Response:
    user = await require(Permission.SWITCH_PROVIDERS)
    _check_name(name)
    reason, now = await form_field("reason"), console().now()
    await record_action("provider_closed", f"provider:{name}", reason=reason)
    if not await console().store.admin.close_provider(ClosedProvider(name, now, user.name, reason)):
        raise Conflict("It is closed already.")
    return redirect_to("providers.list_providers")


@pages.post("/providers/<name>/enable")
async def open_provider(name: str) -> Response:
    await require(Permission.SWITCH_PROVIDERS)
    _check_name(name)
    await record_action("provider_opened", f"provider:{name}")
    if not await console().store.admin.open_provider(name):
        raise Conflict("It isn't closed.")
    return redirect_to("providers.list_providers")


@pages.get("/breakers")
async def list_breakers() -> str:
    """List the breakers of the merchants' callbacks, and when they opened and closed."""
    breakers = sorted((await console().store.breakers()).items())
    changes = await console().store.admin.breaker_changes(limit=HISTORY_ROWS_MAX)
    return await render_template("breakers.html", breakers=breakers, changes=changes)


def _check_name(name: str) -> None:
    if name not in console().provider_titles:
        raise NotFound("There is no such provider.")
