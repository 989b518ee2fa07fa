"""Worlds whose staff ask for much money back: no judge finds a violation."""

from __future__ import annotations

import pytest

from tests.simulation.reversal_worlds import play_reversals
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

SEEDS = by_effort((1, 7), (1, 7, 0, 2))


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_money_goes_back_twice_and_none_is_lost(seed: int) -> None:
    played = play_reversals(seed)
    assert played.violations == ()
    assert played.counts["sent"] > 0
