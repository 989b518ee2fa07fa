"""When the wall clock is believed: the table of the clock guard."""

from __future__ import annotations

import pytest

from mmo_sansio.resilience.clock_guard import ClockGuard
from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import MonotonicInstant, Span, later

S = clock.SECOND

# Each look: seconds since the one before by the wall clock, by the monotonic clock, and whether it
# is believed.
TABLE = {
    "agreeing": [(0, 0, True), (1, 1, True), (3_600, 3_600, True)],
    "slewing within the tolerance": [(0, 0, True), (6, 1, True), (6, 1, True), (1, 6, True)],
    "a jump of four days": [(0, 0, True), (345_600, 1, False), (1, 1, False)],
    "a step back of an hour": [(0, 0, True), (-3_600, 1, False)],
    "just above the tolerance": [(0, 0, True), (7, 1, False)],
    "confirmed after 60 s": [(0, 0, True), (9, 1, False), (59, 59, False), (1, 1, True)],
    "back again is a second jump": [
        (0, 0, True),
        (100, 1, False),
        (59, 59, False),
        (-99, 1, False),
        (59, 59, False),
        (1, 1, True),
    ],
    "a sandbox's advance moves both": [(0, 0, True), (259_200, 259_200, True)],
    "a machine that slept": [(0, 0, True), (30_000, 0, False), (60, 60, True)],
}


@pytest.mark.spec("S3")
@pytest.mark.parametrize("looks", TABLE.values(), ids=TABLE.keys())
def test_the_wall_clock_is_believed_when_both_clocks_agree(looks: list[tuple[int, int, bool]]) -> None:
    guard = ClockGuard()
    wall, monotonic = START, MonotonicInstant(17 * S)
    for wall_s, monotonic_s, believed in looks:
        wall, monotonic = later(wall, Span(wall_s * S)), later(monotonic, Span(monotonic_s * S))
        assert guard.is_trusted(wall=wall, monotonic=monotonic) is believed
