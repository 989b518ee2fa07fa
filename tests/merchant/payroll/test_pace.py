"""The requests of a pay-roll keep a pace, and are held back and slower after an answer 429."""

from __future__ import annotations

import pytest

from mmo_merchant.payroll.payment_run import HOLD_MAX_S, SLOWER, Pace


def test_requests_have_an_interval_and_none_is_saved_up() -> None:
    pace = Pace(0.5)
    assert [pace.take_turn(10.0), pace.take_turn(10.0), pace.take_turn(10.1)] == pytest.approx(
        [0.0, 0.5, 0.9]
    )
    assert [pace.take_turn(20.0), pace.take_turn(20.0)] == pytest.approx([0.0, 0.5])


@pytest.mark.spec("P4")
def test_a_429_holds_all_requests_and_slows_them_down() -> None:
    pace = Pace(0.5)
    for retry_after_s in (3.0, 2.0):
        pace.hold(10.0, retry_after_s)
    assert pace.interval_s == pytest.approx(0.5 * SLOWER**2)
    assert [pace.take_turn(11.0), pace.take_turn(11.0)] == pytest.approx(
        [2.0, 2.0 + pace.interval_s]
    )
    pace.hold(20.0, 3_600.0)
    assert pace.take_turn(20.0) == HOLD_MAX_S
