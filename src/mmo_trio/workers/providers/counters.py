"""What is counted of the work with providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from attrs import Factory, define, frozen

from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
)
from mmo_trio.system.latency import EXTERNAL_BUCKETS_S, LatencyHistogram

REPORT_LABELS: Mapping[type[ProviderReport], str] = MappingProxyType(
    {
        ProviderAccepted: "accepted",
        ProviderSucceeded: "succeeded",
        ProviderFailed: "failed",
        ProviderUnreachable: "unreachable",
        ProviderNeverReceived: "never_received",
        ProviderCannotTell: "cannot_tell",
    }
)
"""What figures call the kinds of reports."""
UNREACHABLE_LABEL = REPORT_LABELS[ProviderUnreachable]


@define(eq=False)
class ProviderCounts:
    """What was done with one provider so far."""

    submissions: int = 0
    polls: int = 0
    reports: Counter[str] = Factory(Counter)
    """What conversations came to, by the kind of the report."""
    exchange_durations: LatencyHistogram = Factory(lambda: LatencyHistogram(EXTERNAL_BUCKETS_S))
    """How long answers took, and what came instead of one."""
    failed_exchanges: int = 0
    """Requests without a usable answer, those that never left included."""


@frozen
class ProviderStatistics:
    """What a provider worker is doing, and has done."""

    active: int
    """Conversations under way."""
    waiting: int
    submissions: int
    """Submissions that were let go out."""
    polls: int
    unreachable: int
    """Conversations without a usable answer."""
    dropped_polls: int
    """Questions for which there was no room; they are asked at their next time."""
    by_provider: Mapping[str, ProviderCounts]
