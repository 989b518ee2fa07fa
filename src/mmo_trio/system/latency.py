"""How long things took, as plain counts: what is measured on the path of a request must cost next to nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

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
"""Upper bounds for what the gateway does by itself."""

EXTERNAL_BUCKETS_S: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0)
"""Upper bounds for what others answer; callbacks end at 15 s, conversations with providers at 20 s."""


class LatencyHistogram:
    """A histogram of seconds."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, bounds: Sequence[float] = INTERNAL_BUCKETS_S) -> None:
        """`bounds`: upper bounds in seconds, rising; what is longer than the last is counted, too."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_s += seconds

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.counts)

    def cumulative_buckets(self) -> list[tuple[str, float]]:
        """(upper bound, how many took at most that long), as Prometheus wants a histogram; the last is `+Inf`."""
        pairs, so_far = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            so_far += count
            pairs.append((bound, float(so_far)))
        return pairs
