"""Histograms are plain counts in the form that Prometheus requires."""

from __future__ import annotations

import pytest

from mmo_trio.system.latency import EXTERNAL_BUCKETS_S, INTERNAL_BUCKETS_S, LatencyHistogram


def test_what_took_as_long_as_a_bound_counts_with_it() -> None:
    taken = LatencyHistogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 1.0, 7.0):
        taken.observe(seconds)
    assert taken.cumulative_buckets() == [("0.1", 2.0), ("1.0", 4.0), ("+Inf", 5.0)]
    assert taken.count == 5
    assert taken.total_s == pytest.approx(8.65)


@pytest.mark.parametrize("bounds", [INTERNAL_BUCKETS_S, EXTERNAL_BUCKETS_S])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))
