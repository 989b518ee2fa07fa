"""A provider's rate limit: a handful at once, then evenly."""

from __future__ import annotations

from mmo_sansio.resilience.rate_limit import BURST, Pace
from mmo_sansio.values.clock import MINUTE, SECOND


def test_requests_come_evenly_after_a_first_handful() -> None:
    pace = Pace(60)
    assert [pace.take(MINUTE) for _ in range(8)] == [0] * 6 + [SECOND, 2 * SECOND]


def test_a_look_takes_no_turn() -> None:
    pace = Pace(1)
    assert pace.take(0) == 0
    assert pace.wait(0) == pace.wait(0) == MINUTE - BURST
    assert pace.wait(MINUTE) == 0
