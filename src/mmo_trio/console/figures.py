"""Computes the key figures of the overview, each compared with the period before."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from mmo_trio.console.charts import PaymentStatistics, format_rate

FAILED_CALLBACKS_READ_MAX = 1_000
"""Failed callbacks that are counted, the newest first."""


@frozen
class KeyFigure:
    """Describes a figure and its change."""

    title: str
    value: str
    change: str
    """The change against the period before, such as `+12 %`; empty when there is nothing to compare with."""
    is_good: bool | None
    """Whether the change is welcome; None when it is neither."""
    note: str = ""
    """What stands in place of a change."""
    endpoint: str | None = None
    """The page that lists what the figure counts."""


def sum_statistics(statistics: Sequence[PaymentStatistics]) -> PaymentStatistics:
    """Add up the statistics of several periods."""
    total = PaymentStatistics("")
    for each in statistics:
        total.created += each.created
        total.succeeded += each.succeeded
        total.failed += each.failed
        total.latencies.update(each.latencies)
    return total


def payment_figures(now: PaymentStatistics, before: PaymentStatistics) -> list[KeyFigure]:
    """Return the figures that the counts of payments give."""
    rate, rate_before = now.success_rate, before.success_rate
    points = None if rate is None or rate_before is None else round((rate - rate_before) * 100, 1)
    return [
        KeyFigure("Payments created", f"{now.created:,}", format_change(now.created, before.created), None),
        KeyFigure(
            "Success rate",
            format_rate(rate),
            "" if points is None else f"{points:+.1f} points",
            None if not points else points > 0,
        ),
    ]


def waiting_figure(
    title: str, count: int, before: int | None, endpoint: str, *, note: str = "", count_max: int | None = None
) -> KeyFigure:
    """Return the figure of what waits, of which less is better. A count of `count_max` stands for more as well."""
    is_capped = count_max is not None and count >= count_max
    value = f"{count:,}+" if is_capped else f"{count:,}"
    if before is None or is_capped:
        return KeyFigure(title, value, "", None, note, endpoint)
    is_good = None if count == before else count < before
    return KeyFigure(title, value, f"{count - before:+,}" if count != before else "no change", is_good, note, endpoint)


def format_change(now: int, before: int) -> str:
    """Return a change in per cent, `+12 %`; empty when there was nothing before."""
    if not before:
        return ""
    return f"{(now - before) / before * 100:+.0f} %" if now != before else "no change"
