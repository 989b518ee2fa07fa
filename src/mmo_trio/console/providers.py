"""Shows the pages about providers, where staff stop and reopen one, and about the breakers of the
merchants' callbacks.

A provider is closed by staff, while a breaker opens by itself. Notes and balances are dated in the
gateway's own time, by which their age counts; the counts of payments, and what staff have done, in
wall time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen
from quart import Blueprint, Response, render_template
from werkzeug.exceptions import Conflict, NotFound

from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Instant, Span, earlier, elapsed, later
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import format_amount
from mmo_trio.console.attention import AccountConcern, account_concern, format_time_left
from mmo_trio.console.context import console
from mmo_trio.console.notices import with_notice
from mmo_trio.console.parameters import cut_page, form_field, query_argument, redirect_to
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import current_user, record_action, require
from mmo_trio.console.views import show_event
from mmo_trio.design.chart_drawing import Sparkline, draw_sparkline
from mmo_trio.storage.interface.admin_types import (
    QUARTER_HOUR,
    AuditRow,
    ClosedProvider,
    NoteTopic,
    ProviderNote,
)
from mmo_trio.workers.providers.account_notes import CHECKED_EVERY, read_finding_note
from mmo_trio.workers.providers.float_monitor import KnownFloat, float_refusals, known_floats

HISTORY_ROWS_MAX = 20

# Providers of a page: each may have several accounts.
PROVIDERS_PAGE_SIZE = 20

# How far back the line of a balance goes.
CHARTED: Final = DAY

pages = Blueprint("providers", __name__)


@frozen
class ShownFloat:
    """Describes an account with a provider, and the money in it."""

    known: KnownFloat
    time_left: str
    """How long it lasts, in words; empty above 30 days, and where nothing is spent."""
    line: Sparkline
    line_text: str
    """The line in words."""


@frozen
class ProviderRow:
    """Describes a provider."""

    name: str
    title: str
    closed: ClosedProvider | None
    """Who has closed it, and why; None while it is open."""
    breaker: str
    """The state of this process's breaker for it, or `none`."""
    concern: AccountConcern | None
    """What staff should look at in its account."""
    is_recorded: bool
    """Whether what goes to and comes from it is being recorded."""
    succeeded: int
    """Payments that succeeded in the last hour."""
    ended: int
    """Payments that ended in the last hour, either way."""
    floats: Sequence[ShownFloat]
    refusal: ProviderNote | None
    """The last refusal of a pay-out for lack of float."""
    checks: Sequence[tuple[str, AccountFinding]]
    """What is known of each part of the account, with its age."""
    checked_age: str
    """The age of the oldest check."""
    is_outdated: bool
    """Whether twice the time between two checks has passed since."""

    @property
    def working(self) -> int:
        return sum(found.state is AccountState.WORKS for _, found in self.checks)

    @property
    def held(self) -> bool:
        return any(found.holds_back for _, found in self.checks)


@pages.get("/providers")
async def list_providers() -> str:
    """List the providers with their breakers, what the last checks of their accounts found, and
    their audit events."""
    store, mask = console().store, current_user().mask
    text, now = query_argument("q"), console().own_time()
    found_titles = [
        (name, title)
        for name, title in console().provider_titles.items()
        if text is None or text.casefold() in f"{name} {title}".casefold()
    ]
    page = cut_page(found_titles, PROVIDERS_PAGE_SIZE)

    history = list[AuditRow]()
    for name, _ in page.rows:
        history += await store.admin.audit(about=f"provider:{name}", limit=HISTORY_ROWS_MAX)

    history.sort(key=lambda row: row.number, reverse=True)
    return await render_template(
        "providers.html",
        rows=await _read_rows(page.rows, now),
        page=page,
        text=text,
        audit_events=[show_event(row, mask) for row in history[:HISTORY_ROWS_MAX]],
    )


async def _read_rows(titles: Sequence[tuple[str, str]], now: Instant) -> Sequence[ProviderRow]:
    """Return what is known of these providers, in their order."""
    # 1. Whether each takes payments.
    admin = console().store.admin
    closed = {
        closed_provider.name: closed_provider for closed_provider in await admin.closed_providers()
    }
    breakers = console().provider_breakers()

    # 2. What is known of their accounts. The time of a note of a recording is when that ends.
    notes = await admin.provider_notes(NoteTopic.FINDING)
    recordings = await admin.provider_notes(NoteTopic.RECORDING)
    recorded = {note.provider for note in recordings if note.at > now}
    floats = await known_floats(admin, console().provider_titles, now)
    refusals = await float_refusals(admin, now)
    balances = await admin.provider_balances(earlier(now, CHARTED))

    # 3. How their payments of the last hour ended, from the beginning of a quarter, as they are
    # counted by quarters.
    end = console().wall_time()
    quarters = await admin.provider_quarters(
        Instant((end - HOUR) // QUARTER_HOUR * QUARTER_HOUR), later(end, Span(1))
    )

    rows = []
    for name, title in titles:
        of_provider = [note for note in notes if note.provider == name]
        checks = [(age_text(note.at, now), read_finding_note(note)) for note in of_provider]
        checked_at = min((note.at for note in of_provider), default=now)
        counts = [quarter for quarter in quarters if quarter.provider == name]
        succeeded = sum(quarter.succeeded for quarter in counts)
        breaker = "none"
        if name in breakers:
            breaker = breakers[name].value

        rows.append(
            ProviderRow(
                name=name,
                title=title,
                closed=closed.get(name),
                breaker=breaker,
                concern=account_concern([found for _, found in checks]),
                is_recorded=name in recorded,
                succeeded=succeeded,
                ended=succeeded + sum(quarter.failed for quarter in counts),
                floats=[
                    show_float(watched, balances, now)
                    for watched in floats
                    if watched.forecast.latest.provider == name
                ],
                refusal=refusals.get(name),
                checks=checks,
                checked_age=age_text(checked_at, now),
                is_outdated=elapsed(checked_at, now) > 2 * CHECKED_EVERY,
            )
        )

    return rows


def age_text(at: Instant, now: Instant) -> str:
    """Return how long ago something was, `just now`, `42 min ago`, `3 h ago`, `2 d ago`."""
    age = elapsed(at, now)
    for span, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if age >= span:
            return f"{age // span} {unit} ago"
    return "just now"


def show_float(known: KnownFloat, balances: Sequence[AccountBalance], now: Instant) -> ShownFloat:
    """Return an account with the line of its last balance in each hour, up to this time, the least
    of these balances and when it runs out."""
    latest = known.forecast.latest
    hours = CHARTED // HOUR
    this_hour = now // HOUR

    # The balances come in the order of their times, so that the last one of an hour stays.
    last_of_hour = dict[int, Money]()
    for balance in balances:
        if balance.key == latest.key and balance.amount.currency == latest.amount.currency:
            last_of_hour[balance.at // HOUR] = balance.amount

    values = [last_of_hour.get(hour) for hour in range(this_hour - hours + 1, this_hour + 1)]
    line = draw_sparkline(
        [None if value is None else float(max(0, value.minor)) for value in values],
        known.forecast.hours_left,
    )

    text = ""
    if line.points:
        least = min((value for value in values if value is not None), key=lambda found: found.minor)
        text = f"Last {hours} hours, at least {format_amount(least)}"
        if line.forecast:
            text += f", runs out in about {format_time_left(known).removesuffix(' left')}"

    return ShownFloat(known, format_time_left(known), line, text)


@pages.post("/providers/<name>/disable")
async def close_provider(name: str) -> Response:
    user = await require(Permission.SWITCH_PROVIDERS)
    _check_name(name)
    reason, now = await form_field("reason"), console().wall_time()
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
        "breakers.html", breakers=breakers, at=console().own_time(), changes=changes
    )


def _check_name(name: str) -> None:
    if name not in console().provider_titles:
        raise NotFound("There is no such provider.")
