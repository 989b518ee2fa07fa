"""The health of providers and merchants at a glance: rules that are the same for every page."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen

from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_trio.console.charts import PaymentStatistics, format_rate

ENDED_MIN = 10
"""Fewer payments than this say nothing about a rate."""
FAILING_RATE = 0.5
"""Below this success rate something is broken."""
WEAK_RATE = 0.8
"""Below this success rate somebody should look."""


class HealthLevel(StrEnum):
    """Says how something does; the worst is the last."""

    QUIET = "quiet"
    """Nothing happened."""
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
    breaker_text: str = "breaker open",
    failed_callbacks: int = 0,
) -> Health:
    """Judge a provider or merchant. `stopped` says in words why nothing more is sent, when staff has stopped it."""
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
        level, text = HealthLevel.WEAK, f"{failed_callbacks:,} callbacks failed"
    elif not (known.created or known.ended):
        level, text = HealthLevel.QUIET, "no payments"
    else:
        level, text = HealthLevel.WELL, "well"
    return Health(key, title, level, text, known.created, format_rate(known.success_rate))


def worst_first(found: Iterable[Health]) -> list[Health]:
    """Return what fails before what is weak and what does well, the busiest first."""
    order = [HealthLevel.FAILING, HealthLevel.WEAK, HealthLevel.WELL, HealthLevel.QUIET]
    return sorted(found, key=lambda each: (order.index(each.level), -each.created, each.title))
