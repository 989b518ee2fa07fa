"""Counts the work with providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from attrs import Factory, define, frozen

from mmo_sansio.messages import inputs
from mmo_trio.system.latency import EXTERNAL_BUCKETS_S, LatencyHistogram

REPORT_LABELS: Mapping[type[inputs.ProviderReport], str] = MappingProxyType(
    {
        inputs.ProviderAccepted: "accepted",
        inputs.ProviderSucceeded: "succeeded",
        inputs.ProviderFailed: "failed",
        inputs.ProviderUnreachable: "unreachable",
        inputs.ProviderNeverReceived: "never_received",
        inputs.ProviderCannotTell: "cannot_tell",
    }
)
"""The label of each kind of report in the metrics."""


@define(eq=False)
class ProviderCounts:
    """Counts the work with one provider since the start."""

    submissions: int = 0
    polls: int = 0
    reports: Counter[str] = Factory(Counter)
    """Ended conversations by the label of their report."""
    exchange_durations: LatencyHistogram = Factory(lambda: LatencyHistogram(EXTERNAL_BUCKETS_S))
    """Durations of exchanges, including those without an answer."""
    failed_exchanges: int = 0
    """Requests without a usable answer, including those that were not sent."""


@frozen
class ProviderStatistics:
    """Reports the present and past work of a provider worker."""

    active: int
    """Active conversations."""
    waiting: int
    """Submissions and polls that wait, with those of payments that have ended."""
    submissions: int
    """Submissions that were started."""
    polls: int
    unreachable: int
    """Conversations without a usable answer."""
    dropped_polls: int
    """Polls without room in the queue; each payment is polled again at its next time."""
    by_provider: Mapping[str, ProviderCounts]
