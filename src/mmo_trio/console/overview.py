"""The first page shows key figures, how providers and merchants do, and charts of how payments
went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from attrs import Factory, define, evolve, frozen
from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span, earlier, later
from mmo_sansio.values.model import Status
from mmo_trio.console.context import console
from mmo_trio.console.parameters import cut_page, parse_choice, query_argument
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.design.chart_drawing import DrawnChart, Series, draw_bars, draw_lines
from mmo_trio.storage.interface.admin_types import (
    LATENCY_BOUNDS_S,
    STUCK_COUNT_MAX,
    CountDimension,
    CountQuery,
    PaymentCount,
)

ROWS_PAGE_SIZE = 15
HEALTH_ROWS_MAX = 8

FAILED_CALLBACKS_READ_MAX = 1_000
"""Failed callbacks that are counted, the newest first."""

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
    by, of = (
        parse_choice(CountDimension, request.args.get(name), DIMENSION_FAULT)
        for name in ("by", "of")
    )
    by = by or CountDimension.BRAND
    value = request.args.get("value", "").strip()[:255]
    only = (of, value) if of is not None and value else None
    now = console().now()
    end = _period_end(request.args.get("end"), now, period)
    begin = earlier(end, period.length)
    admin, which = console().store.admin, _counted_payments(only)
    both = CountQuery(period.step, earlier(begin, period.length), end, only, which)
    steps = statistics_over_time(
        await admin.count_payments(both, by=None), both.begin, end, period.step
    )
    steps_before, steps = steps[: period.step_count], steps[period.step_count :]
    counted = CountQuery(period.step, begin, end, only, which)
    rows = sorted(
        statistics_by_key(await admin.count_payments(counted, by=by)).values(),
        key=lambda each: (-each.created - each.ended, each.key),
    )
    statistics, before = sum_statistics(steps), sum_statistics(steps_before)
    figures, providers, brands = payment_figures(statistics, before), None, None
    if only is None and end > now:
        failed = await admin.failed_callbacks(limit=FAILED_CALLBACKS_READ_MAX)
        figures += await _waiting_figures(statistics, failed, begin, both.begin)
        # A simulated provider has a row of its own.
        providers = await _provider_health(evolve(counted, is_simulated=None))
        brands = await _brand_health(counted, failed)
    if which is False:
        figures += await _simulated_figures(evolve(counted, is_simulated=True))
    hour_or_day = slice(11, 16) if period.step == HOUR else slice(5, 10)
    labels = [format_utc_seconds(Instant(int(each.key)))[hour_or_day] for each in steps]
    charts = build_charts(steps, labels)
    return await render_template(
        "overview.html",
        figures=figures,
        providers=providers,
        brands=brands,
        charts=charts,
        as_table=query_argument("table") is not None,
        steps=[
            (
                drawn[0][0],
                [
                    (name, cell)
                    for chart, (_, cells) in zip(charts, drawn, strict=True)
                    for (_, name), cell in zip(chart.legend, cells, strict=True)
                ],
            )
            for drawn in zip(*(each.rows for each in charts), strict=True)
        ],
        page=cut_page(rows, ROWS_PAGE_SIZE),
        format_rate=format_rate,
        format_latency=format_latency,
        health_rows_max=HEALTH_ROWS_MAX,
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


def _counted_payments(only: tuple[CountDimension, str] | None) -> bool | None:
    """Return which payments are counted, as `CountQuery.is_simulated` says it: simulated ones are
    added to no others, unless no account moves money, or the page is about one that does not."""
    context = console()
    simulated = {(CountDimension.PROVIDER, name) for name in context.simulated_providers}
    moves_no_money = context.provider_titles.keys() <= context.simulated_providers
    return None if moves_no_money or only in simulated else False


async def _simulated_figures(query: CountQuery) -> list[KeyFigure]:
    """Return the figure of the payments by which no money moved, where there are any."""
    counts = await console().store.admin.count_payments(query, by=None)
    created = sum(each.count for each in counts if each.status is Status.PENDING)
    if not created:
        return []
    note = "no money moved; not counted here"
    return [KeyFigure("Simulated", f"{created:,}", "", None, note, "payments.list_payments")]


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


async def _waiting_figures(
    statistics: PaymentStatistics,
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
    figures = [
        waiting_figure(
            "Pending", backlog.pending, max(0, pending_before), "payments.list_payments"
        ),
        waiting_figure(
            "Stuck",
            backlog.stuck,
            None,
            "work_lists.stuck",
            note="sent over an hour ago",
            count_max=STUCK_COUNT_MAX,
        ),
        waiting_figure(
            "Callbacks not delivered",
            recent,
            before,
            "work_lists.callbacks",
            count_max=callbacks_max,
        ),
    ]
    if backlog.reversals:  # They are rare.
        note = "without an outcome"
        figures.append(
            waiting_figure(
                "Reversals", backlog.reversals, None, "reversals.list_reversals", note=note
            )
        )
    return figures


async def _provider_health(query: CountQuery) -> list[Health]:
    admin, breakers = console().store.admin, console().provider_breakers()
    closed = {each.name for each in await admin.closed_providers()}
    counted = statistics_by_key(await admin.count_payments(query, by=CountDimension.PROVIDER))
    return worst_first(
        judge_health(
            name,
            title,
            counted.get(name),
            stopped="stopped by staff" if name in closed else "",
            breaker=breakers.get(name),
        )
        for name, title in console().provider_titles.items()
    )


async def _brand_health(
    query: CountQuery, failed: Sequence[tuple[int, CallbackRecorded]]
) -> list[Health]:
    """Return how each merchant does, the worst first."""
    store = console().store
    counted = statistics_by_key(await store.admin.count_payments(query, by=CountDimension.BRAND))
    holds = {each.brand for each in await store.admin.brand_holds()}
    breakers = await store.breakers()
    failures = Counter(each.brand for _, each in failed if each.at >= query.begin)
    found = []
    for record in await store.admin.brands():
        brand = record.brand
        breaker = breakers.get(brand.id)
        found.append(
            judge_health(
                brand.id,
                brand.name,
                counted.get(brand.id),
                stopped="on hold" if brand.id in holds else "" if brand.enabled else "disabled",
                breaker=None if breaker is None else breaker.state,
                breaker_text="callbacks stopped",
                failed_callbacks=failures[brand.id],
            )
        )
    return worst_first(found)


LATENCY_BUCKETS: Sequence[int] = (*LATENCY_BOUNDS_S, 0)


@define
class PaymentStatistics:
    """Counts the payments of one period, or of one brand, method or provider."""

    key: str
    created: int = 0
    succeeded: int = 0
    failed: int = 0
    latencies: Counter[int] = Factory(Counter)

    @property
    def ended(self) -> int:
        """Return the number of payments with either result."""
        return self.succeeded + self.failed

    @property
    def success_rate(self) -> float | None:
        """Return the share of successes among ended payments; None without any."""
        return self.succeeded / self.ended if self.ended else None

    def quantile(self, share: float) -> int | None:
        """Return the upper bound in seconds of this share; 0: above all, None: no result."""
        required, seen = share * sum(self.latencies.values()), 0
        for each in LATENCY_BUCKETS:
            seen += self.latencies[each]
            if seen and seen >= required:
                return each
        return None


def statistics_by_key(counts: Iterable[PaymentCount]) -> dict[str, PaymentStatistics]:
    by_key: dict[str, PaymentStatistics] = {}
    for each in counts:
        statistics = by_key.setdefault(each.key, PaymentStatistics(each.key))
        match each.status:
            case Status.PENDING:
                statistics.created += each.count
            case Status.SUCCESS:
                statistics.succeeded += each.count
            case Status.FAILED:
                statistics.failed += each.count
        if each.status is not Status.PENDING:
            statistics.latencies[each.latency_s] += each.count
    return by_key


def statistics_over_time(
    counts: Iterable[PaymentCount], begin: Instant, end: Instant, span: Span
) -> list[PaymentStatistics]:
    """Return the statistics of each span in [begin, end), also of those without payments."""
    by_key = statistics_by_key(counts)
    return [by_key.get(str(at), PaymentStatistics(str(at))) for at in range(begin, end, span)]


def sum_statistics(statistics: Sequence[PaymentStatistics]) -> PaymentStatistics:
    total = PaymentStatistics("")
    for each in statistics:
        total.created += each.created
        total.succeeded += each.succeeded
        total.failed += each.failed
        total.latencies.update(each.latencies)
    return total


@frozen
class KeyFigure:
    title: str
    value: str
    change: str
    """The change against the period before, such as `+12 %`; empty when there is nothing to compare
    with."""
    is_good: bool | None
    """Whether the change is welcome; None when it is neither."""
    note: str = ""
    """What stands in place of a change."""
    endpoint: str | None = None
    """The page that lists what the figure counts."""


def payment_figures(now: PaymentStatistics, before: PaymentStatistics) -> list[KeyFigure]:
    rate, rate_before = now.success_rate, before.success_rate
    points = None if rate is None or rate_before is None else round((rate - rate_before) * 100, 1)
    return [
        KeyFigure(
            "Payments created", f"{now.created:,}", format_change(now.created, before.created), None
        ),
        KeyFigure(
            "Success rate",
            format_rate(rate),
            "" if points is None else f"{points:+.1f} points",
            None if not points else points > 0,
        ),
    ]


def waiting_figure(
    title: str,
    count: int,
    before: int | None,
    endpoint: str,
    *,
    note: str = "",
    count_max: int | None = None,
) -> KeyFigure:
    """Return the figure of what waits, of which less is better. A count of `count_max` stands for
    more as well."""
    is_capped = count_max is not None and count >= count_max
    value = f"{count:,}+" if is_capped else f"{count:,}"
    if before is None or is_capped:
        return KeyFigure(title, value, "", None, note, endpoint)
    is_good = None if count == before else count < before
    return KeyFigure(
        title,
        value,
        f"{count - before:+,}" if count != before else "no change",
        is_good,
        note,
        endpoint,
    )


def format_change(now: int, before: int) -> str:
    """Return a change in per cent, `+12 %`; empty when there was nothing before."""
    if not before:
        return ""
    return f"{(now - before) / before * 100:+.0f} %" if now != before else "no change"


ENDED_MIN = 10
"""Fewer payments than this say nothing about a rate."""
FAILING_RATE = 0.5
"""Below this success rate something is broken."""
WEAK_RATE = 0.8
"""Below this success rate somebody should look."""


class HealthLevel(StrEnum):
    """Says how something does; the worst is the last."""

    QUIET = "quiet"
    """Nothing happened, or too little to tell."""
    WELL = "well"
    WEAK = "weak"
    FAILING = "failing"


@frozen
class Health:
    """Describes how a provider or merchant does, and why."""

    key: str
    title: str
    level: HealthLevel
    text: str
    """The reason in a few words."""
    created: int
    rate: str


def judge_health(
    key: str,
    title: str,
    statistics: PaymentStatistics | None,
    *,
    stopped: str = "",
    breaker: BreakerState | None = None,
    breaker_text: str = "stopped by its breaker",
    failed_callbacks: int = 0,
) -> Health:
    """Judge a provider or merchant. `stopped` says in words why nothing more is sent, when staff
    has stopped it."""
    known = statistics or PaymentStatistics(key)
    rate = known.success_rate if known.ended >= ENDED_MIN else None
    if stopped:
        level, text = HealthLevel.FAILING, stopped
    elif breaker is BreakerState.OPEN:
        level, text = HealthLevel.FAILING, breaker_text
    elif rate is not None and rate < FAILING_RATE:
        level, text = HealthLevel.FAILING, "most payments fail"
    elif breaker is BreakerState.HALF_OPEN:
        level, text = HealthLevel.WEAK, "breaker tries again"
    elif rate is not None and rate < WEAK_RATE:
        level, text = HealthLevel.WEAK, "many payments fail"
    elif failed_callbacks:
        callbacks = "1 callback" if failed_callbacks == 1 else f"{failed_callbacks:,} callbacks"
        level, text = HealthLevel.WEAK, f"{callbacks} not delivered"
    elif not (known.created or known.ended):
        level, text = HealthLevel.QUIET, "no payments"
    elif rate is None:
        level, text = HealthLevel.QUIET, "too few to tell"
    else:
        level, text = HealthLevel.WELL, "well"
    return Health(key, title, level, text, known.created, format_rate(known.success_rate))


def worst_first(found: Iterable[Health]) -> list[Health]:
    """Return what fails before what is weak and what does well, the busiest first."""
    levels = list(HealthLevel)
    return sorted(found, key=lambda each: (-levels.index(each.level), -each.created, each.title))


def build_charts(
    statistics: Sequence[PaymentStatistics], labels: Sequence[str]
) -> tuple[DrawnChart, ...]:
    """Return the charts of volume, success rate and latency."""
    succeeded = Series("succeeded", [each.succeeded for each in statistics], "c2")
    failed = Series("failed", [each.failed for each in statistics], "c3")
    rates = Series("success rate", [each.success_rate for each in statistics], "c2")
    half = Series(
        "half ended in", [_latency_height(each.quantile(0.5)) for each in statistics], "c1"
    )
    most = Series(
        "95 % ended in", [_latency_height(each.quantile(0.95)) for each in statistics], "c4"
    )
    top = float(len(LATENCY_BUCKETS) - 1)
    return (
        draw_bars(
            "volume",
            "Payments that ended",
            labels,
            [succeeded, failed],
            lambda value: f"{value:,.0f}",
        ),
        draw_lines("rate", "Success rate", labels, [rates], lambda value: f"{value:.0%}", top=1.0),
        draw_lines("latency", "Time to a result", labels, [half, most], _latency_text, top=top),
    )


def _latency_height(upper_s: int | None) -> int | None:
    """Return the place of a class of latency on the axis."""
    return None if upper_s is None else LATENCY_BUCKETS.index(upper_s)


def _latency_text(height: float) -> str:
    return format_latency(LATENCY_BUCKETS[int(height)])


def format_latency(upper_s: int | None) -> str:
    """Format a class of latency: `≤ 5 s`, `≤ 15 min`, `> 1 h`; a dash for None."""
    if upper_s is None:
        return "–"
    if upper_s == 0:
        return "> 1 h"
    return f"≤ {upper_s} s" if upper_s < 60 else f"≤ {upper_s // 60} min"


def format_rate(rate: float | None) -> str:
    """Format a rate, `98.4 %`; a dash for None."""
    return "–" if rate is None else f"{rate * 100:.1f} %"
