"""The first page shows how many payments there were, how many succeeded, and how fast."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import frozen
from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span, earlier, later
from mmo_trio.console import charts
from mmo_trio.console.context import console
from mmo_trio.console.parameters import parse_choice
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.storage.interface.admin_types import CountDimension, CountQuery

ROWS_MAX = 50
DIMENSION_FAULT = "Payments are counted by brand, method or provider."


@frozen
class OverviewPeriod:
    """A period that the overview can show, in steps."""

    name: str
    title: str
    step: Span
    step_count: int

    @property
    def length(self) -> Span:
        """Return the length of the whole period."""
        return Span(self.step_count * self.step)


OVERVIEW_PERIODS = {
    each.name: each
    for each in (OverviewPeriod("day", "24 hours", HOUR, 24), OverviewPeriod("month", "30 days", DAY, 30))
}


pages = Blueprint("overview", __name__)


@pages.get("/")
async def show() -> str:
    """Show the charts and figures of a period; `of` and `value` select a brand, say."""
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
    query = CountQuery(period.step, begin, end, only)
    admin = console().store.admin
    hour_or_day = slice(11, 16) if period.step == HOUR else slice(5, 10)
    steps = charts.statistics_over_time(await admin.count_payments(query, by=None), begin, end, period.step)
    rows = sorted(
        charts.statistics_by_key(await admin.count_payments(query, by=by)).values(),
        key=lambda each: (-each.created - each.ended, each.key),
    )
    return await render_template(
        "overview.html",
        charts=charts.build_charts(steps, lambda at: format_utc_seconds(at)[hour_or_day]),
        steps=[(format_utc_seconds(Instant(int(each.key)))[:16], *_statistics_cells(each)) for each in steps],
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
        size=(charts.WIDTH, charts.HEIGHT, charts.MARGIN_LEFT),
    )


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
