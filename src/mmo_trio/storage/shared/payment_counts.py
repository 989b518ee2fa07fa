"""What a batch adds to the counts of payments: pure, and few rows however large the batch."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from mmo_sansio.values.clock import SECOND, Instant, Span, elapsed
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin_types import COUNT_SPANS, LATENCY_BOUNDS_S
from mmo_trio.storage.shared.net_effect import NetEffect

CountKey: TypeAlias = tuple[Span, Instant, str, str, str, str, int]
"""Span, where it begins, brand, method, provider, status and class of latency."""


def batch_counts(effect: NetEffect) -> Counter[CountKey]:
    """New payments are counted where they were created, and those that end where they end."""
    ended = (now for _, now in effect.advanced.values() if now.progress.stage.is_terminal)
    begun = effect.created.values()
    return count_by_span(
        begun, (*ended, *(each for each in begun if each.progress.stage.is_terminal))
    )


def count_by_span(
    created: Iterable[Transaction], ended: Iterable[Transaction]
) -> Counter[CountKey]:
    """Both, for every length of time."""
    shortest = COUNT_SPANS[0]
    fine: Counter[tuple[Instant, str, str, str, str, int]] = Counter()
    for each in created:
        order = each.order
        began_at = Instant(order.created_at - order.created_at % shortest)
        fine[began_at, order.brand, order.method, order.provider, Status.PENDING.value, 0] += 1
    for each in ended:
        order, ended_at = each.order, each.progress.completed_at
        assert ended_at is not None
        took = latency_class(elapsed(order.created_at, ended_at))
        began_at = Instant(ended_at - ended_at % shortest)
        fine[began_at, order.brand, order.method, order.provider, each.status.value, took] += 1
    figures: Counter[CountKey] = Counter()
    for (at, *kind), times in fine.items():
        for span in COUNT_SPANS:
            figures[(span, at - at % span, *kind)] += times  # type: ignore[index]
    return figures


def latency_class(latency: Span) -> int:
    """The upper bound in seconds of the class that it falls into; 0 beyond the last."""
    place = bisect_left(LATENCY_BOUNDS_S, latency / SECOND)
    return LATENCY_BOUNDS_S[place] if place < len(LATENCY_BOUNDS_S) else 0
