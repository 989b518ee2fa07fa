"""Charts of volume, success rate and latency are computed from counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import Factory, define

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Status
from mmo_trio.design.chart_drawing import DrawnChart, Series, draw_bars, draw_lines
from mmo_trio.storage.interface.admin_types import LATENCY_BOUNDS_S, PaymentCount

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


def build_charts(statistics: Sequence[PaymentStatistics], labels: Sequence[str]) -> tuple[DrawnChart, ...]:
    """Return the charts of volume, success rate and latency."""
    succeeded = Series("succeeded", [each.succeeded for each in statistics], "c2")
    failed = Series("failed", [each.failed for each in statistics], "c3")
    rates = Series("success rate", [each.success_rate for each in statistics], "c2")
    half = Series("half ended in", [_latency_height(each.quantile(0.5)) for each in statistics], "c1")
    most = Series("95 % ended in", [_latency_height(each.quantile(0.95)) for each in statistics], "c4")
    top = float(len(LATENCY_BUCKETS) - 1)
    return (
        draw_bars("volume", "Payments that ended", labels, [succeeded, failed], lambda value: f"{value:,.0f}"),
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
