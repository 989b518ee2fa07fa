"""The first page shows key figures, how providers and merchants do, and charts of how payments went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from attrs import frozen
from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span, earlier, later
from mmo_trio.console import charts
from mmo_trio.console.context import console
from mmo_trio.console.figures import (
    FAILED_CALLBACKS_READ_MAX,
    KeyFigure,
    payment_figures,
    sum_statistics,
    waiting_figure,
)
from mmo_trio.console.health import Health, judge_health, worst_first
from mmo_trio.console.parameters import parse_choice
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.storage.interface.admin_types import STUCK_COUNT_MAX, CountDimension, CountQuery

ROWS_MAX = 50
HEALTH_ROWS_MAX = 12
DIMENSION_FAULT = "Payments are counted by brand, method or provider."


@frozen
class OverviewPeriod:
    """A period that the overview can show, in steps."""

    name: str
    title: str
    before: str
    """The period before it, in words."""
    step: Span
    step_count: int

    @property
    def length(self) -> Span:
        """Return the length of the whole period."""
        return Span(self.step_count * self.step)


OVERVIEW_PERIODS = {
    each.name: each
    for each in (
        OverviewPeriod("day", "24 hours", "the day before", HOUR, 24),
        OverviewPeriod("month", "30 days", "the 30 days before", DAY, 30),
    )
}


pages = Blueprint("overview", __name__)


@pages.get("/")
async def show() -> str:
    """Show the figures, health and charts of a period; `of` and `value` select a brand, say."""
    period = OVERVIEW_PERIODS.get(request.args.get("view", "day"))
    if period is None:
        raise BadRequest("There is no such view.")
    by, of = (parse_choice(CountDimension, request.args.get(name), DIMENSION_FAULT) for name in ("by", "of"))
    by = by or CountDimension.BRAND
    value = request.args.get("value", "").strip()[:255]
    only = (of, value) if of is not None and value else None
    now = console().now()
    end = _period_end(request.args.get("end"), now, period)
    begin = earlier(end, period.length)
    admin = console().store.admin
    both = CountQuery(period.step, earlier(begin, period.length), end, only)
    steps = charts.statistics_over_time(await admin.count_payments(both, by=None), both.begin, end, period.step)
    steps_before, steps = steps[: period.step_count], steps[period.step_count :]
    counted = CountQuery(period.step, begin, end, only)
    rows = sorted(
        charts.statistics_by_key(await admin.count_payments(counted, by=by)).values(),
        key=lambda each: (-each.created - each.ended, each.key),
    )
    statistics, before = sum_statistics(steps), sum_statistics(steps_before)
    figures, providers, brands = payment_figures(statistics, before), None, None
    if only is None and end > now:
        failed = await admin.failed_callbacks(limit=FAILED_CALLBACKS_READ_MAX)
        figures += await _waiting_figures(statistics, failed, begin, both.begin)
        providers, brands = await _provider_health(counted), await _brand_health(counted, failed)
    hour_or_day = slice(11, 16) if period.step == HOUR else slice(5, 10)
    labels = [format_utc_seconds(Instant(int(each.key)))[hour_or_day] for each in steps]
    drawn = charts.build_charts(steps, labels)
    return await render_template(
        "overview.html",
        figures=figures,
        providers=providers,
        brands=brands,
        charts=drawn,
        steps=[
            (rows[0][0], [cell for _, cells in rows for cell in cells])
            for rows in zip(*(each.rows for each in drawn), strict=True)
        ],
        rows=[(each.key, *_statistics_cells(each)) for each in rows[:ROWS_MAX]],
        left_out=max(0, len(rows) - ROWS_MAX),
        view=period,
        views=OVERVIEW_PERIODS.values(),
        by=by,
        dimensions=list(CountDimension),
        only=only,
        begin=format_utc_seconds(begin)[:16],
        end=format_utc_seconds(end)[:16],
        earlier=_hour_parameter(begin),
        later=_hour_parameter(later(end, period.length)) if end < now else None,
        here=_hour_parameter(end),
    )


async def _waiting_figures(
    statistics: charts.PaymentStatistics,
    failed: Sequence[tuple[int, CallbackRecorded]],
    begin: Instant,
    begin_before: Instant,
) -> list[KeyFigure]:
    """Return what waits now, and the callbacks that failed since `begin` and in the time before."""
    now = console().gateway_time()
    backlog = await console().store.admin.backlog(now, overdue_before=now)
    pending_before = backlog.pending - statistics.created + statistics.ended
    recent = sum(each.at >= begin for _, each in failed)
    older = sum(begin_before <= each.at < begin for _, each in failed)
    callbacks_max = FAILED_CALLBACKS_READ_MAX
    before = None if recent + older >= callbacks_max else older
    return [
        waiting_figure("Pending", backlog.pending, max(0, pending_before), "payments.list_payments"),
        waiting_figure(
            "Stuck", backlog.stuck, None, "work_lists.stuck", note="sent over an hour ago", count_max=STUCK_COUNT_MAX
        ),
        waiting_figure("Callbacks failed", recent, before, "work_lists.callbacks", count_max=callbacks_max),
    ]


async def _provider_health(query: CountQuery) -> list[Health]:
    """Return how each provider does."""
    admin, breakers = console().store.admin, console().provider_breakers()
    closed = {each.name for each in await admin.closed_providers()}
    counted = charts.statistics_by_key(await admin.count_payments(query, by=CountDimension.PROVIDER))
    return worst_first(
        judge_health(
            name,
            title,
            counted.get(name),
            stopped="closed by staff" if name in closed else "",
            breaker=breakers.get(name),
        )
        for name, title in console().provider_titles.items()
    )


async def _brand_health(query: CountQuery, failed: Sequence[tuple[int, CallbackRecorded]]) -> list[Health]:
    """Return how each merchant does, the worst first and HEALTH_ROWS_MAX at most."""
    store = console().store
    counted = charts.statistics_by_key(await store.admin.count_payments(query, by=CountDimension.BRAND))
    holds = {each.brand for each in await store.admin.brand_holds()}
    breakers = await store.breakers()
    failures = Counter(each.brand for _, each in failed if each.at >= query.begin)
    found = []
    for record in await store.admin.brands():
        brand = record.brand
        stopped = "on hold" if brand.id in holds else "" if brand.enabled else "disabled"
        breaker = breakers.get(brand.id)
        state = None if breaker is None else breaker.state
        statistics, failure_count = counted.get(brand.id), failures[brand.id]
        found.append(
            judge_health(
                brand.id,
                brand.name,
                statistics,
                stopped=stopped,
                breaker=state,
                breaker_text="callbacks stopped",
                failed_callbacks=failure_count,
            )
        )
    return worst_first(found)[:HEALTH_ROWS_MAX]


def _statistics_cells(statistics: charts.PaymentStatistics) -> tuple[int, int, int, str, str, str]:
    return (
        statistics.created,
        statistics.succeeded,
        statistics.failed,
        charts.format_rate(statistics.success_rate),
        charts.format_latency(statistics.quantile(0.5)),
        charts.format_latency(statistics.quantile(0.95)),
    )


def _period_end(text: str | None, now: Instant, period: OverviewPeriod) -> Instant:
    """Return the end of the current step, or of the requested one (`2026-11-21T15`)."""
    at = now
    if text:
        try:
            requested = datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC)
        except ValueError:
            raise BadRequest("The end is an hour, as in 2026-11-21T15.") from None
        at = earlier(Instant(int(requested.timestamp()) * SECOND), Span(1))
    return later(Instant(min(at, now) // period.step * period.step), period.step)


def _hour_parameter(at: Instant) -> str:
    return format_utc_seconds(at)[:13].replace(" ", "T")
