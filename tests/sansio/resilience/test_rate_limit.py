"""A provider's rate limit: a handful at once, then evenly."""

from __future__ import annotations

from mmo_sansio.resilience.rate_limit import BURST_WINDOW, RateLimit
from mmo_sansio.values.clock import MINUTE, SECOND, MonotonicInstant


def test_requests_come_evenly_after_a_first_handful() -> None:
    pace = RateLimit(60)
    assert [pace.reserve(MonotonicInstant(MINUTE)) for _ in range(8)] == [0] * 6 + [SECOND, 2 * SECOND]


def test_a_look_takes_no_turn() -> None:
    pace = RateLimit(1)
    assert pace.reserve(MonotonicInstant(0)) == 0
    assert pace.delay(MonotonicInstant(0)) == pace.delay(MonotonicInstant(0)) == MINUTE - BURST_WINDOW
    assert pace.delay(MonotonicInstant(MINUTE)) == 0
