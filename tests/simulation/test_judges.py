"""Judges allow for what no gateway can know."""

from __future__ import annotations

from mmo_trio.testing.world_faults import FaultPeriod
from mmo_trio.testing.world_plan import FaultKind
from tests.simulation.judges import store_clock_error_max_s


def test_each_standby_that_has_taken_over_may_have_another_clock() -> None:
    """In a world of four failovers the store was 0.28 s behind, and a payment was dated at the end of a list."""
    periods = [FaultPeriod(FaultKind.STORE_FAILS_OVER, "", at_s) for at_s in (5_445.0, 5_496.0, 62_384.0)]
    assert store_clock_error_max_s(periods, 100.0) == 0.0
    assert store_clock_error_max_s(periods, 54_032.0) == 3.0


def test_other_faults_leave_the_clock_of_the_store_right() -> None:
    assert store_clock_error_max_s([FaultPeriod(FaultKind.STORE_FULL, "", 0.0)], 100.0) == 0.0
