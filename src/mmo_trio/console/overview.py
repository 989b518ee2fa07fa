"""The first page shows what needs a person, money, key figures, how providers and merchants do, and
charts of how payments went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

import structlog
import trio
from attrs import Factory, define, evolve, frozen
from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span, earlier, later
from mmo_sansio.values.model import Status
from mmo_trio.console.attention import (
    AccountConcern,
    Attention,
    read_account_concerns,
    read_attention,
)
from mmo_trio.console.context import ConsoleContext, console
from mmo_trio.console.money_figures import (
    CURRENCIES_MAX,
    currency_totals,
    draw_money,
    failure_counts,
    failure_reasons,
    failures_by_actor,
    main_reasons,
)
from mmo_trio.console.operator_days import (
    ENDED_MIN,
    FAILING_RATE,
    WEAK_RATE,
    OperatorDay,
    operator_day,
    stop_times,
)
from mmo_trio.console.parameters import cut_page, parse_choice, query_argument
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.design.chart_drawing import DrawnChart, Series, draw_bars, draw_lines
from mmo_trio.storage.interface.admin_types import (
    LATENCY_BOUNDS_S,
    QUARTER_HOUR,
    CountDimension,
    CountQuery,
    PaymentCount,
)
from mmo_trio.storage.interface.store import log_store_failure

logger = structlog.get_logger(__name__)

ROWS_PAGE_SIZE = 10

# Rows of the lists of operators and merchants, and of what needs a person: one screen of a phone
# has to say whether anything is wrong. The rest is one touch away.
HEALTH_ROWS_MAX = 6
ATTENTION_SHOWN_MAX = 5

# Currencies with a chart, those of the most payments: each chart is 2,500 bytes of a page that is
# read on slow links.
CHARTS_OF_MONEY_MAX = 2

# What the success rate alone says of an operator or merchant.
MOST_FAIL_TEXT, MANY_FAIL_TEXT = "most payments fail", "many payments fail"

# Audit events about a provider in which the times are looked for in which it was stopped.
STOPS_READ_MAX = 20

# Failed callbacks that are counted, the newest first.
FAILED_CALLBACKS_READ_MAX = 1_000

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
    account.name: account
    for account in (
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
    only = None
    if of is not None and value:
        only = (of, value)

    now = console().wall_time()
    end = _period_end(request.args.get("end"), now, period)
    begin = earlier(end, period.length)
    admin, which = console().store.admin, _counted_payments(only)
    counted_past = console().counted

    both = CountQuery(period.step, earlier(begin, period.length), end, only, which)
    steps = statistics_over_time(
        await counted_past.count_payments(both, by=None), both.begin, end, period.step
    )
    steps_before, steps = steps[: period.step_count], steps[period.step_count :]
    counted = CountQuery(period.step, begin, end, only, which)
    by_dimension = {by: statistics_by_key(await counted_past.count_payments(counted, by=by))}
    titles = await _titles(by)
    rows = [
        (figure, titles.get(figure.key, figure.key))
        for figure in sorted(
            by_dimension[by].values(),
            key=lambda figure: (-figure.created - figure.ended, figure.key),
        )
    ]

    statistics, before = sum_statistics(steps), sum_statistics(steps_before)
    figures, providers, brands = payment_figures(statistics, before, period.before), None, None
    attention, days = None, None
    if only is None and end > now:
        failed = await admin.failed_callbacks(limit=FAILED_CALLBACKS_READ_MAX)
        concerns = await read_account_concerns()
        recent = [failure for failure in failed if failure[1].at >= begin]
        attention = await read_attention(concerns, recent)
        figures.append(await _pending_figure(statistics))
        # A simulated provider has a row of its own.
        providers = await _provider_health(evolve(counted, is_simulated=None), concerns)
        attention = [
            *(need for need in attention if need.is_bad),
            *weak_operators(providers, attention),
            *(need for need in attention if not need.is_bad),
        ]
        if CountDimension.BRAND not in by_dimension:
            by_dimension[CountDimension.BRAND] = statistics_by_key(
                await counted_past.count_payments(counted, by=CountDimension.BRAND)
            )

        brands = await _brand_health(counted, by_dimension[CountDimension.BRAND], failed)

    if which is False:
        figures += await _simulated_figures(evolve(counted, is_simulated=True))

    sums = await counted_past.sum_payments(counted, by=None)
    totals = currency_totals(sums)
    if period.step == HOUR and (only is None or only[0] is CountDimension.PROVIDER):
        days = await _operator_days(evolve(counted, is_simulated=None))

    operators = operator_rows(providers, days or ())
    failures = failure_counts(sums)
    if period.step == HOUR:
        step_name, hour_or_day = "hour", slice(11, 16)
    else:
        step_name, hour_or_day = "day", slice(5, 10)

    labels = [format_utc_seconds(Instant(int(step.key)))[hour_or_day] for step in steps]
    charts = [
        draw_money(total.currency, sums, [step.key for step in steps], labels, step_name)
        for total in totals[:CHARTS_OF_MONEY_MAX]
    ]
    charts += build_charts(steps, labels, with_rate=days is None) if statistics.ended else []
    return await render_template(
        "overview.html",
        attention=attention,
        totals=totals,
        totals_shown_max=CURRENCIES_MAX,
        reasons=failure_reasons(failures),
        failed_by=failures_by_actor(failures),
        failed_count=sum(failures.values()),
        days=days,
        operators=operators[:HEALTH_ROWS_MAX],
        operators_left_out=max(0, len(operators) - HEALTH_ROWS_MAX),
        attention_shown_max=ATTENTION_SHOWN_MAX,
        quarters=(end - begin) // QUARTER_HOUR,
        until=_last_day(begin, end),
        figures=figures,
        providers=providers,
        brands=brands,
        charts=charts,
        as_table=query_argument("table") is not None,
        steps=[
            (
                drawn[0][0],
                [
                    (f"{chart.id[6:]} {name}" if chart.id.startswith("money-") else name, cell)
                    for chart, (_, cells) in zip(charts, drawn, strict=True)
                    for (_, name), cell in zip(chart.legend, cells, strict=True)
                ],
            )
            for drawn in zip(*(chart.rows for chart in charts), strict=True)
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
        only_title=None if only is None else (await _titles(only[0])).get(only[1], only[1]),
        begin=format_utc_seconds(begin)[:16],
        end=format_utc_seconds(end)[:16],
        earlier=_hour_parameter(begin),
        later=_hour_parameter(later(end, period.length)) if end < now else None,
        here=_hour_parameter(end),
    )


async def keep_ready(context: ConsoleContext) -> None:
    """Read what the page shows of time that is over before anybody asks for it, now and whenever an
    hour begins, until cancelled: a store with millions of payments takes a second for all of it."""
    while True:
        try:
            await read_ahead(context)
        except Exception as error:
            # Who opens the page has it read then; payments go on without it.
            log_store_failure(logger, "overview_not_read_ahead", error)
        await trio.sleep((HOUR - context.wall_time() % HOUR) / SECOND)


async def read_ahead(context: ConsoleContext) -> None:
    """Read the counts of each period up to now that the page shows without a selection."""
    counted, now = context.counted, context.wall_time()
    which = None if context.moves_no_money else False
    for period in OVERVIEW_PERIODS.values():
        end = _period_end(None, now, period)
        begin = earlier(end, period.length)
        query = CountQuery(period.step, begin, end, is_simulated=which)
        all_payments = evolve(query, is_simulated=None)

        await counted.count_payments(evolve(query, begin=earlier(begin, period.length)), by=None)
        await counted.sum_payments(query, by=None)
        for by in CountDimension:
            await counted.count_payments(query, by=by)

        await counted.count_payments(all_payments, by=CountDimension.PROVIDER)

        # Of what the page of each method and provider is made, with the period before.
        await counted.read_cells(evolve(query, begin=earlier(begin, period.length)))
        if which is False:
            await counted.count_payments(evolve(query, is_simulated=True), by=None)
        if period.step == HOUR:
            await counted.provider_quarters(begin, end)
            await counted.sum_payments(all_payments, by=CountDimension.PROVIDER)


def _last_day(begin: Instant, end: Instant) -> tuple[str, str]:
    """Return the first and the last day of a time, as lists of payments select them."""
    return format_utc_seconds(begin)[:10], format_utc_seconds(earlier(end, Span(1)))[:10]


async def _titles(dimension: CountDimension) -> Mapping[str, str]:
    """Return the names by which people know brands and providers, by id."""
    match dimension:
        case CountDimension.PROVIDER:
            return console().provider_titles
        case CountDimension.BRAND:
            records = await console().store.admin.brands()
            return {record.brand.id: record.brand.name for record in records}
        case CountDimension.METHOD:
            return {}


async def _operator_days(query: CountQuery) -> Sequence[OperatorDay]:
    """Return the days of the operators with payments, that with the most failures first."""
    admin, now = console().store.admin, console().wall_time()
    begin, end, only = query.begin, query.end, query.only
    counts = await console().counted.provider_quarters(begin, end)
    reasons = main_reasons(await console().counted.sum_payments(query, by=CountDimension.PROVIDER))
    ended = Counter[str]()
    for count in counts:
        ended[count.provider] += count.succeeded + count.failed

    closed = {
        closed_provider.name: closed_provider.closed_at
        for closed_provider in await admin.closed_providers()
    }

    days = list[OperatorDay]()
    for name, _ in ended.most_common():
        if only is not None and only[1] != name:
            continue
        if len(days) == HEALTH_ROWS_MAX:
            break

        events = await admin.audit(about=f"provider:{name}", limit=STOPS_READ_MAX)
        stops = stop_times(events, begin, now, closed.get(name))
        title = console().provider_titles.get(name, name)
        reason = reasons.get(name, "")
        days.append(operator_day(name, title, counts, begin, end, stops, reason))

    return sorted(days, key=lambda day: (day.succeeded / day.ended, -day.ended))


def _counted_payments(only: tuple[CountDimension, str] | None) -> bool | None:
    """Return which payments are counted, as `CountQuery.is_simulated` says it: simulated ones are
    added to no others, unless no account moves money, or the page is about one that does not."""
    context = console()
    simulated = {(CountDimension.PROVIDER, name) for name in context.simulated_providers}
    if context.moves_no_money or only in simulated:
        return None
    return False


async def _simulated_figures(query: CountQuery) -> list[KeyFigure]:
    """Return the figure of the payments by which no money moved, where there are any."""
    counts = await console().counted.count_payments(query, by=None)
    created = sum(count.count for count in counts if count.status is Status.PENDING)
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


async def _pending_figure(statistics: PaymentStatistics) -> KeyFigure:
    """Return how many payments have not ended; what needs a person is told apart."""
    now = console().own_time()
    backlog = await console().store.admin.backlog(now, overdue_before=now)
    before = max(0, backlog.pending - statistics.created + statistics.ended)
    return waiting_figure("Pending", backlog.pending, before, "payments.list_payments")


async def _provider_health(
    query: CountQuery, concerns: Mapping[str, Sequence[AccountConcern]]
) -> list[Health]:
    admin, breakers = console().store.admin, console().provider_breakers()
    closed = {closed_provider.name for closed_provider in await admin.closed_providers()}
    counted = statistics_by_key(
        await console().counted.count_payments(query, by=CountDimension.PROVIDER)
    )
    return worst_first(
        judge_health(
            name,
            title,
            counted.get(name),
            stopped="stopped by staff" if name in closed else "",
            breaker=breakers.get(name),
            concern=next(iter(concerns.get(name, ())), None),
        )
        for name, title in console().provider_titles.items()
    )


async def _brand_health(
    query: CountQuery,
    counted: Mapping[str, PaymentStatistics],
    failed: Sequence[tuple[int, CallbackRecorded]],
) -> list[Health]:
    """Return how each merchant does, the worst first."""
    store = console().store
    holds = {brand_hold.brand for brand_hold in await store.admin.brand_holds()}
    breakers = await store.breakers()
    failures = Counter(payment.brand for _, payment in failed if payment.at >= query.begin)
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
        if self.ended:
            return self.succeeded / self.ended
        return None

    def quantile(self, share: float) -> int | None:
        """Return the upper bound in seconds of this share; 0: above all, None: no result."""
        required, seen = share * sum(self.latencies.values()), 0
        for latency_bucket in LATENCY_BUCKETS:
            seen += self.latencies[latency_bucket]
            if seen and seen >= required:
                return latency_bucket
        return None


def statistics_by_key(counts: Iterable[PaymentCount]) -> dict[str, PaymentStatistics]:
    by_key: dict[str, PaymentStatistics] = {}
    for count in counts:
        statistics = by_key.setdefault(count.key, PaymentStatistics(count.key))
        match count.status:
            case Status.PENDING:
                statistics.created += count.count
            case Status.SUCCESS:
                statistics.succeeded += count.count
            case Status.FAILED:
                statistics.failed += count.count

        if count.status is not Status.PENDING:
            statistics.latencies[count.latency_s] += count.count

    return by_key


def statistics_over_time(
    counts: Iterable[PaymentCount], begin: Instant, end: Instant, span: Span
) -> list[PaymentStatistics]:
    """Return the statistics of each span in [begin, end), also of those without payments."""
    by_key = statistics_by_key(counts)
    return [by_key.get(str(at), PaymentStatistics(str(at))) for at in range(begin, end, span)]


def sum_statistics(statistics: Sequence[PaymentStatistics]) -> PaymentStatistics:
    total = PaymentStatistics("")
    for statistic in statistics:
        total.created += statistic.created
        total.succeeded += statistic.succeeded
        total.failed += statistic.failed
        total.latencies.update(statistic.latencies)
    return total


@frozen
class KeyFigure:
    """Describes a figure of the period, beside that of the period before."""

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


def payment_figures(
    now: PaymentStatistics, before: PaymentStatistics, before_words: str
) -> list[KeyFigure]:
    """Return how many payments there were, and how many succeeded, against the time before; a few
    before are told as they are, as no rate or percentage can be read from them."""
    rate, rate_before = now.success_rate, before.success_rate
    points = None
    if not (rate is None or rate_before is None):
        points = round((rate - rate_before) * 100, 1)

    few_created = 0 < before.created < ENDED_MIN
    few_ended = 0 < before.ended < ENDED_MIN
    return [
        KeyFigure(
            "Payments created",
            f"{now.created:,}",
            "" if few_created else format_change(now.created, before.created),
            None,
            f"{before.created} {before_words}" if few_created else "",
        ),
        KeyFigure(
            "Success rate",
            format_rate(rate),
            "" if points is None or few_ended else f"{points:+.1f} points",
            None if not points or few_ended else points > 0,
            f"{before.succeeded} of {before.ended} {before_words}" if few_ended else "",
        ),
    ]


def waiting_figure(title: str, count: int, before: int, endpoint: str) -> KeyFigure:
    """Return the figure of what waits, of which less is better."""
    is_good = None
    if count != before:
        is_good = count < before
    if count != before:
        change = f"{count - before:+,}"
    else:
        change = "no change"
    return KeyFigure(title, f"{count:,}", change, is_good, "", endpoint)


def format_change(now: int, before: int) -> str:
    """Return a change in per cent, `+12 %`; empty when there was nothing before."""
    if not before:
        return ""
    if now != before:
        return f"{(now - before) / before * 100:+.0f} %"
    return "no change"


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
    success_rate: float | None = None


def judge_health(
    key: str,
    title: str,
    statistics: PaymentStatistics | None,
    *,
    stopped: str = "",
    breaker: BreakerState | None = None,
    breaker_text: str = "stopped by its breaker",
    failed_callbacks: int = 0,
    concern: AccountConcern | None = None,
) -> Health:
    """Judge a provider or merchant. `stopped` says in words why nothing more is sent, when staff
    has stopped it."""
    known = statistics or PaymentStatistics(key)
    rate = known.success_rate if known.ended >= ENDED_MIN else None

    # The first that is true is told: what fails comes before what is weak, and of each a known
    # cause before a rate.
    if stopped:
        level, text = HealthLevel.FAILING, stopped
    elif breaker is BreakerState.OPEN:
        level, text = HealthLevel.FAILING, breaker_text
    elif concern is not None and concern.is_bad:
        level, text = HealthLevel.FAILING, concern.text
    elif rate is not None and rate < FAILING_RATE:
        level, text = HealthLevel.FAILING, MOST_FAIL_TEXT
    elif concern is not None:
        level, text = HealthLevel.WEAK, concern.text
    elif breaker is BreakerState.HALF_OPEN:
        level, text = HealthLevel.WEAK, "breaker tries again"
    elif rate is not None and rate < WEAK_RATE:
        level, text = HealthLevel.WEAK, MANY_FAIL_TEXT
    elif failed_callbacks:
        if failed_callbacks == 1:
            callbacks = "1 callback"
        else:
            callbacks = f"{failed_callbacks:,} callbacks"
        level, text = HealthLevel.WEAK, f"{callbacks} not delivered"
    elif not (known.created or known.ended):
        level, text = HealthLevel.QUIET, "no payments"
    elif rate is None:
        level, text = HealthLevel.QUIET, "too few to tell"
    else:
        level, text = HealthLevel.WELL, "well"

    return Health(
        key=key,
        title=title,
        level=level,
        text=text,
        created=known.created,
        rate=format_rate(known.success_rate),
        success_rate=rate,
    )


def worst_first(found: Iterable[Health]) -> list[Health]:
    """Return what fails before what is weak and what does well, each by its success rate, and of
    equal ones the busiest first."""
    levels = list(HealthLevel)

    def place(each: Health) -> tuple[int, float, int, str]:
        rate = 0.0 if each.success_rate is None else each.success_rate
        return -levels.index(each.level), rate, -each.created, each.title

    return sorted(found, key=place)


def weak_operators(
    providers: Sequence[Health], attention: Sequence[Attention]
) -> Sequence[Attention]:
    """Return the operators whose payments fail over the whole time, without those of which
    something worse is told."""
    told = {need.provider for need in attention}
    return [
        Attention(
            False,
            f"{provider.title}: {provider.text}",
            f"{provider.rate} of {provider.created:,} succeeded",
            "providers.list_providers",
            provider.key,
        )
        for provider in providers
        if provider.text in (MOST_FAIL_TEXT, MANY_FAIL_TEXT) and provider.key not in told
    ]


@frozen
class OperatorRow:
    """Describes how an operator does, and did over the day."""

    key: str
    title: str
    rate: str
    """Its success rate and of how many payments, `66.7 % of 66`; empty without any."""
    health: Health | None
    """None for a time that is over, of which only the payments are known."""
    day: OperatorDay | None
    """None where the time is longer than a day, or no payment ended in it."""


def operator_rows(
    providers: Sequence[Health] | None, days: Sequence[OperatorDay]
) -> Sequence[OperatorRow]:
    """Return a row of each operator: in the order of their health where that is known, else in that
    of their days."""
    if providers is None:
        return [
            OperatorRow(day.name, day.title, _rate_of(day.succeeded, day.ended), None, day)
            for day in days
        ]

    days_by_name = {day.name: day for day in days}
    rows = []
    for provider in providers:
        day = days_by_name.get(provider.key)
        rate = ""
        if day is not None:
            rate = _rate_of(day.succeeded, day.ended)
        elif provider.created:
            rate = f"{provider.rate} of {provider.created:,}"
        rows.append(OperatorRow(provider.key, provider.title, rate, provider, day))

    # Payments of a provider that is not configured any more have ended all the same.
    configured = {provider.key for provider in providers}
    past = [day for day in days if day.name not in configured]
    return [*rows, *operator_rows(None, past)]


def _rate_of(succeeded: int, ended: int) -> str:
    return f"{format_rate(succeeded / ended)} of {ended:,}"


def build_charts(
    statistics: Sequence[PaymentStatistics], labels: Sequence[str], *, with_rate: bool
) -> list[DrawnChart]:
    """Return the charts of volume and latency, and with `with_rate` that of the success rate."""
    # 1. How many ended, and in how much time.
    succeeded = Series("succeeded", [statistic.succeeded for statistic in statistics], "c2")
    failed = Series("failed", [statistic.failed for statistic in statistics], "c3")
    half = Series(
        "half ended in",
        [_latency_height(statistic.quantile(0.5)) for statistic in statistics],
        "c1",
    )
    most = Series(
        "95 % ended in",
        [_latency_height(statistic.quantile(0.95)) for statistic in statistics],
        "c4",
    )
    # The axis of latency has room for two classes at least.
    places = [place for series in (half, most) for place in series.values if place is not None]
    if places:
        top = float(max(2, *places))
    else:
        top = 2.0

    charts = [
        draw_bars(
            "volume",
            "Payments that ended",
            labels,
            [succeeded, failed],
            lambda value: f"{value:,.0f}",
        ),
        draw_lines("latency", "Time to a result", labels, [half, most], _latency_text, top=top),
    ]
    # 2. Which part of them succeeded. The axis begins a tenth or two below the lowest
    # rate, so that the line can be seen to move.
    if with_rate:
        rates = Series("success rate", [statistic.success_rate for statistic in statistics], "c2")
        known = [rate for rate in rates.values if rate is not None]
        lowest = max(0.0, int(min(known, default=0.0) * 10 - 1) / 10)
        charts.append(
            draw_lines(
                "rate",
                "Success rate",
                labels,
                [rates],
                lambda value: f"{value:.0%}",
                top=1.0,
                bottom=lowest,
            )
        )

    return charts


def _latency_height(upper_s: int | None) -> int | None:
    """Return the place of a class of latency on the axis."""
    if upper_s is None:
        return None
    return LATENCY_BUCKETS.index(upper_s)


def _latency_text(height: float) -> str:
    return format_latency(LATENCY_BUCKETS[int(height)])


def format_latency(upper_s: int | None) -> str:
    """Format a class of latency: `≤ 5 s`, `≤ 15 min`, `> 1 h`; a dash for None."""
    if upper_s is None:
        return "–"
    if upper_s == 0:
        return "> 1 h"
    if upper_s < 60:
        return f"≤ {upper_s} s"
    return f"≤ {upper_s // 60} min"


def format_rate(rate: float | None) -> str:
    """Format a rate, `98.4 %`; a dash for None."""
    if rate is None:
        return "–"
    return f"{rate * 100:.1f} %"
