"""Computes what a batch adds to the counts of payments: a pure function, with few rows however large the batch is."""

from __future__ import annotations

from bisect import bisect_left
from typing import TypeAlias

from mmo_sansio.values.clock import SECOND, Instant, Span, elapsed
from mmo_sansio.values.model import Status
from mmo_trio.storage.interface.admin_types import COUNT_SPANS, LATENCY_BOUNDS_S
from mmo_trio.storage.shared.net_effect import NetEffect

FineKey: TypeAlias = tuple[Instant, str, str, str, str, int]
"""The beginning of the shortest span, brand, method, provider, status and class of latency."""

CountKey: TypeAlias = tuple[Span, Instant, str, str, str, str, int]
"""Span, its beginning, brand, method, provider, status and class of latency."""


def batch_counts(effect: NetEffect) -> dict[FineKey, int]:
    """Count new payments by when they were created, and those that end by when they end, in the shortest spans."""
    advanced = (after for _, after in effect.advanced.values())
    created = effect.created.values()
    ended = [each for each in (*advanced, *created) if each.progress.stage.is_terminal]
    shortest = COUNT_SPANS[0]
    fine: dict[FineKey, int] = {}
    for each in created:
        order = each.order
        began_at = Instant(order.created_at - order.created_at % shortest)
        key = (began_at, order.brand, order.method, order.provider, Status.PENDING.value, 0)
        fine[key] = fine.get(key, 0) + 1
    for each in ended:
        order, ended_at = each.order, each.progress.completed_at
        assert ended_at is not None
        latency_s = latency_class(elapsed(order.created_at, ended_at))
        began_at = Instant(ended_at - ended_at % shortest)
        key = (began_at, order.brand, order.method, order.provider, each.status.value, latency_s)
        fine[key] = fine.get(key, 0) + 1
    return fine


def sum_by_span(fine: dict[FineKey, int]) -> dict[CountKey, int]:
    """Add up counts of the shortest spans in spans of each length."""
    counts: dict[CountKey, int] = {}
    for (began_at, brand, method, provider, status, latency_s), count in fine.items():
        for span in COUNT_SPANS:
            key = (span, Instant(began_at - began_at % span), brand, method, provider, status, latency_s)
            counts[key] = counts.get(key, 0) + count
    return counts


def latency_class(latency: Span) -> int:
    """Return the upper bound in seconds of the class that a latency falls into; 0 beyond the last."""
    index = bisect_left(LATENCY_BOUNDS_S, latency / SECOND)
    return LATENCY_BOUNDS_S[index] if index < len(LATENCY_BOUNDS_S) else 0
