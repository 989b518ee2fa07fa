"""Charts of volume, success rate and latency are computed from counts; a template draws the SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from attrs import Factory, define, frozen

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Status
from mmo_trio.storage.interface.admin_types import LATENCY_BOUNDS_S, PaymentCount

WIDTH, HEIGHT = 720, 150
MARGIN_LEFT, MARGIN_BOTTOM, MARGIN_TOP = 48, 20, 8
"""The space for labels, in the units of the drawing."""

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
    """Add up the counts by their key."""
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


@frozen
class Bar:
    """Describes a bar of a chart."""

    x: float
    y: float
    width: float
    height: float
    css_class: str


@frozen
class AxisLabel:
    """Describes a label of an axis, and its line."""

    position: float
    text: str


@frozen
class Polyline:
    """Describes a line through points; a gap in the data begins another one."""

    css_class: str
    points: str
    """The attribute `points` of `<polyline>`."""


@frozen
class Chart:
    """Describes one chart."""

    id: str
    title: str
    bars: Sequence[Bar]
    polylines: Sequence[Polyline]
    dots: Sequence[tuple[float, float, str]]
    y_labels: Sequence[AxisLabel]
    x_labels: Sequence[AxisLabel]


def build_charts(
    statistics: Sequence[PaymentStatistics], format_label: Callable[[Instant], str]
) -> tuple[Chart, Chart, Chart]:
    """Return the charts of volume, success rate and latency."""
    step = (WIDTH - MARGIN_LEFT) / max(1, len(statistics))
    every = max(1, len(statistics) // 8)
    x_labels = [
        AxisLabel(MARGIN_LEFT + (index + 0.5) * step, format_label(Instant(int(each.key))))
        for index, each in enumerate(statistics)
        if index % every == 0
    ]
    return (
        _volume_chart(statistics, step, x_labels),
        _success_rate_chart(statistics, step, x_labels),
        _latency_chart(statistics, step, x_labels),
    )


def _volume_chart(statistics: Sequence[PaymentStatistics], step: float, x_labels: Sequence[AxisLabel]) -> Chart:
    most = _round_up_scale(max((max(each.ended, each.created) for each in statistics), default=1))
    bars = []
    for index, each in enumerate(statistics):
        x = MARGIN_LEFT + index * step
        good, bad = _height(each.succeeded / most), _height(each.failed / most)
        floor = float(HEIGHT - MARGIN_BOTTOM)
        bars.append(_bar(x + step * 0.1, floor - good, step * 0.55, good, "success"))
        bars.append(_bar(x + step * 0.1, floor - good - bad, step * 0.55, bad, "failed"))
        begun = _height(each.created / most)
        bars.append(_bar(x + step * 0.68, floor - begun, step * 0.2, begun, "started"))
    levels = [AxisLabel(_y(share), f"{most * share:,.0f}") for share in (0.0, 0.5, 1.0)]
    return Chart("volume", "Payments", bars, (), (), levels, x_labels)


def _success_rate_chart(statistics: Sequence[PaymentStatistics], step: float, x_labels: Sequence[AxisLabel]) -> Chart:
    heights = [each.success_rate for each in statistics]
    levels = [AxisLabel(_y(share), f"{share:.0%}") for share in (0.0, 0.5, 1.0)]
    strokes, dots = _polylines(heights, step, "success")
    return Chart("rate", "Success rate", (), strokes, dots, levels, x_labels)


def _latency_chart(statistics: Sequence[PaymentStatistics], step: float, x_labels: Sequence[AxisLabel]) -> Chart:
    last = len(LATENCY_BUCKETS) - 1

    def heights(share: float) -> list[float | None]:
        found = (each.quantile(share) for each in statistics)
        return [None if each is None else LATENCY_BUCKETS.index(each) / last for each in found]

    levels = [AxisLabel(_y(LATENCY_BUCKETS.index(s) / last), format_latency(s)) for s in (1, 10, 60, 900, 0)]
    half, half_dots = _polylines(heights(0.5), step, "half")
    most, most_dots = _polylines(heights(0.95), step, "most")
    title = "Time to a result: half of them, and 95 %"
    return Chart("latency", title, (), (*half, *most), (*half_dots, *most_dots), levels, x_labels)


def _polylines(
    heights: Sequence[float | None], step: float, css_class: str
) -> tuple[list[Polyline], list[tuple[float, float, str]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for index, height in enumerate(heights):
        if height is None:
            runs.append([])
        else:
            runs[-1].append((round(MARGIN_LEFT + (index + 0.5) * step, 1), _y(height)))
    strokes = [Polyline(css_class, " ".join(f"{x:g},{y:g}" for x, y in run)) for run in runs if len(run) > 1]
    return strokes, [(x, y, css_class) for run in runs for x, y in run]


def _bar(x: float, y: float, width: float, height: float, css_class: str) -> Bar:
    return Bar(round(x, 1), round(y, 1), round(width, 1), round(height, 1), css_class)


def _height(share: float) -> float:
    return share * (HEIGHT - MARGIN_BOTTOM - MARGIN_TOP)


def _y(share: float) -> float:
    return round(HEIGHT - MARGIN_BOTTOM - _height(share), 1)


def _round_up_scale(number: int) -> int:
    """Round up to one or two digits followed by zeros, for a readable scale."""
    scale = 1
    while number > 10 * scale:
        scale *= 10
    return max(2, -(-number // scale) * scale)


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
