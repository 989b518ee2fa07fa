"""The pages about providers and breakers show their state and history, and close a provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quart import Blueprint, Response, render_template
from werkzeug.exceptions import Conflict, NotFound

from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.values.clock import DAY, HOUR, Instant, earlier
from mmo_trio.console.context import console
from mmo_trio.console.notices import with_notice
from mmo_trio.console.parameters import cut_page, form_field, query_argument, redirect_to
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import current_user, record_action, require
from mmo_trio.console.views import format_utc_seconds, show_event
from mmo_trio.design.chart_drawing import DrawnChart, Series, draw_lines
from mmo_trio.storage.interface.admin_types import AuditRow, ClosedProvider, NoteTopic
from mmo_trio.workers.providers.account_notes import read_finding_note
from mmo_trio.workers.providers.float_monitor import KnownFloat, float_refusals, known_floats

HISTORY_ROWS_MAX = 20
PROVIDERS_PAGE_SIZE = 6
"""Providers of a page: each may have several accounts, with a chart each."""
CHARTED: Final = DAY
"""How far back the chart of a balance goes."""

pages = Blueprint("providers", __name__)


@pages.get("/providers")
async def list_providers() -> str:
    """List the providers with their breakers, what the last checks of their accounts found, and
    their audit events."""
    store, mask = console().store, current_user().mask
    closed = {each.name: each for each in await store.admin.closed_providers()}
    notes = await store.admin.provider_notes(NoteTopic.FINDING)
    recordings = await store.admin.provider_notes(NoteTopic.RECORDING)
    now = console().gateway_time()
    recorded = {each.provider for each in recordings if each.at > now}
    floats = await known_floats(store.admin, console().provider_titles, now)
    refusals = await float_refusals(store.admin, now)
    balances = await store.admin.provider_balances(earlier(now, CHARTED))
    breakers = console().provider_breakers()
    rows, history = [], list[AuditRow]()
    accounts = dict[str, list[tuple[KnownFloat, DrawnChart]]]()
    text = query_argument("q")
    found_titles = [
        (name, title)
        for name, title in console().provider_titles.items()
        if text is None or text.casefold() in f"{name} {title}".casefold()
    ]
    page = cut_page(found_titles, PROVIDERS_PAGE_SIZE)
    for name, title in page.rows:
        state = breakers.get(name)
        found = [(each.at, read_finding_note(each)) for each in notes if each.provider == name]
        rows.append(
            (
                name,
                title,
                closed.get(name),
                state.value if state else "none",
                found,
                name in recorded,
            )
        )
        accounts[name] = [
            (each, draw_balances(f"{name}-{number}", each, balances, now))
            for number, each in enumerate(floats)
            if each.forecast.latest.provider == name
        ]
        history += await store.admin.audit(about=f"provider:{name}", limit=HISTORY_ROWS_MAX)
    history.sort(key=lambda row: row.number, reverse=True)
    return await render_template(
        "providers.html",
        rows=rows,
        page=page,
        text=text,
        accounts=accounts,
        refusals=refusals,
        audit_events=[show_event(each, mask) for each in history[:HISTORY_ROWS_MAX]],
    )


def draw_balances(
    id: str, known: KnownFloat, balances: Sequence[AccountBalance], now: Instant
) -> DrawnChart:
    """Return a chart of an account's last balance in each hour, up to this time."""
    latest = known.forecast.latest
    hours, end = CHARTED // HOUR, now // HOUR
    units = dict[int, float]()
    for each in balances:
        if each.key == latest.key:
            units[each.at // HOUR] = max(0.0, float(each.amount.text))
    steps = range(end - hours + 1, end + 1)
    labels = [format_utc_seconds(Instant(step * HOUR))[11:16] for step in steps]
    series = Series(latest.amount.currency, [units.get(step) for step in steps])
    return draw_lines(id, f"Last {hours} hours", labels, [series], lambda value: f"{value:,.0f}")


@pages.post("/providers/<name>/disable")
async def close_provider(name: str) -> Response:
    user = await require(Permission.SWITCH_PROVIDERS)
    _check_name(name)
    reason, now = await form_field("reason"), console().now()
    await record_action("provider_closed", f"provider:{name}", reason=reason)
    if not await console().store.admin.close_provider(ClosedProvider(name, now, user.name, reason)):
        raise Conflict("It is closed already.")
    return with_notice(redirect_to("providers.list_providers"), f"{name} takes no new payments.")


@pages.post("/providers/<name>/enable")
async def open_provider(name: str) -> Response:
    await require(Permission.SWITCH_PROVIDERS)
    _check_name(name)
    await record_action("provider_opened", f"provider:{name}")
    if not await console().store.admin.open_provider(name):
        raise Conflict("It isn't closed.")
    return with_notice(redirect_to("providers.list_providers"), f"{name} takes payments again.")


@pages.get("/breakers")
async def list_breakers() -> str:
    """List the breakers of the merchants' callbacks, and when they opened and closed."""
    breakers = sorted((await console().store.breakers()).items())
    changes = await console().store.admin.breaker_changes(limit=HISTORY_ROWS_MAX)
    return await render_template(
        "breakers.html", breakers=breakers, at=console().gateway_time(), changes=changes
    )


def _check_name(name: str) -> None:
    if name not in console().provider_titles:
        raise NotFound("There is no such provider.")
