"""Histograms as plain counts, as Prometheus wants them."""

from __future__ import annotations

import pytest

from mmo_trio.system.latency import OUTSIDE_S, QUICK_S, Durations


def test_what_took_as_long_as_a_bound_counts_with_it() -> None:
    taken = Durations((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 1.0, 7.0):
        taken.add(seconds)
    assert taken.cumulative() == [("0.1", 2.0), ("1.0", 4.0), ("+Inf", 5.0)]
    assert taken.count == 5
    assert taken.total_s == pytest.approx(8.65)


@pytest.mark.parametrize("bounds", [QUICK_S, OUTSIDE_S])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))
