"""Counts durations in plain integers, as measuring a request must cost next to nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

# Upper bounds for work of the gateway itself.
INTERNAL_BUCKETS_S: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)

# Upper bounds for calls to others; callbacks end at 15 s, conversations with providers at 20 s.
EXTERNAL_BUCKETS_S: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0)


class LatencyHistogram:
    """Counts durations in buckets of seconds."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, bounds: Sequence[float] = INTERNAL_BUCKETS_S) -> None:
        """`bounds`: increasing upper bounds in seconds; longer durations are counted after the
        last."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        # A bucket has what is not above its bound, as Prometheus's `le` says.
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_s += seconds

    @property
    def count(self) -> int:
        """Return the number of counted durations."""
        return sum(self.counts)

    def cumulative_buckets(self) -> list[tuple[str, float]]:
        """Return (upper bound, number of durations up to it) as Prometheus requires; the last bound
        is `+Inf`."""
        pairs, total = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            pairs.append((bound, float(total)))
        return pairs
