"""The first page: how many payments there were, how many succeeded, and how long they took."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import frozen
from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span, earlier, later
from mmo_trio.console.charts import (
    HEIGHT,
    MARGIN_LEFT,
    WIDTH,
    PaymentStatistics,
    build_charts,
    format_latency,
    format_rate,
    statistics_by_key,
    statistics_over_time,
)
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.storage.interface.admin_types import CountDimension, CountQuery

ROWS_MAX = 50


@frozen
class OverviewPeriod:
    """A length of time to look at, in steps."""

    name: str
    title: str
    step: Span
    step_count: int


OVERVIEW_PERIODS = {
    each.name: each
    for each in (
        OverviewPeriod("day", "24 hours", HOUR, 24),
        OverviewPeriod("month", "30 days", DAY, 30),
    )
}


def create_overview_blueprint(context: ConsoleContext) -> Blueprint:
    """GET /, with `view`, `by`, `of` and `value`, and `end` to look back."""
    pages = Blueprint("overview", __name__)

    @pages.get("/")
    async def show() -> str:
        view, by = OVERVIEW_PERIODS.get(request.args.get("view", "day")), _parse_dimension("by")
        if view is None:
            raise BadRequest("There is no such view.")
        end = _period_end(request.args.get("end"), context.now(), view)
        begin = earlier(end, Span(view.step_count * view.step))
        of, value = _parse_dimension("of"), request.args.get("value", "").strip()[:255]
        only = (of, value) if of is not None and value else None
        wanted, by = CountQuery(view.step, begin, end, only), by or CountDimension.BRAND
        office = context.store.admin
        steps = statistics_over_time(
            await office.count_payments(wanted, by=None), begin, end, view.step
        )
        rows = sorted(
            statistics_by_key(await office.count_payments(wanted, by=by)).values(),
            key=lambda each: (-each.created - each.ended, each.key),
        )
        name_moment = _format_hour if view.step == HOUR else _format_day
        return await render_template(
            "overview.html",
            charts=build_charts(steps, name_moment),
            steps=[
                (format_utc_seconds(Instant(int(each.key)))[:16], *_statistics_cells(each))
                for each in steps
            ],
            rows=[(each.key, *_statistics_cells(each)) for each in rows[:ROWS_MAX]],
            left_out=max(0, len(rows) - ROWS_MAX),
            view=view,
            views=OVERVIEW_PERIODS.values(),
            by=by,
            dimensions=list(CountDimension),
            only=only,
            begin=format_utc_seconds(begin)[:16],
            end=format_utc_seconds(end)[:16],
            earlier=_hour_parameter(begin),
            later=_hour_parameter(later(end, Span(view.step_count * view.step)))
            if end < context.now()
            else None,
            here=_hour_parameter(end),
            size=(WIDTH, HEIGHT, MARGIN_LEFT),
        )

    return pages


def _statistics_cells(statistics: PaymentStatistics) -> tuple[int, int, int, str, str, str]:
    return (
        statistics.created,
        statistics.succeeded,
        statistics.failed,
        format_rate(statistics.success_rate),
        format_latency(statistics.quantile(0.5)),
        format_latency(statistics.quantile(0.95)),
    )


def _parse_dimension(name: str) -> CountDimension | None:
    text = request.args.get(name, "")
    if not text:
        return None
    try:
        return CountDimension(text)
    except ValueError:
        raise BadRequest("Payments are counted by brand, method or provider.") from None


def _period_end(text: str | None, now: Instant, period: OverviewPeriod) -> Instant:
    """The end of the step that is under way, or that was asked for (`2026-11-21T15`)."""
    at = now
    if text:
        try:
            asked = datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC)
        except ValueError:
            raise BadRequest("The end is an hour, as in 2026-11-21T15.") from None
        at = earlier(Instant(int(asked.timestamp()) * SECOND), Span(1))
    return later(Instant(min(at, now) // period.step * period.step), period.step)


def _hour_parameter(at: Instant) -> str:
    return format_utc_seconds(at)[:13].replace(" ", "T")


def _format_hour(at: Instant) -> str:
    return format_utc_seconds(at)[11:16]


def _format_day(at: Instant) -> str:
    return format_utc_seconds(at)[5:10]
