"""Worlds whose staff ask for much money back: no judge finds a violation, and one finds each
planted bug."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import reversals
from tests.simulation.planted_bugs import Plant
from tests.simulation.reversal_worlds import play_reversals
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

MANY = by_effort(2, None)
"""How many of each quick effort plays; None: all."""
SEEDS = (1, 7, 0, 2)[:MANY]
FOUND: tuple[tuple[Plant, int], ...] = (
    (reversals.reversals_not_marked_after_a_restore, 1),
    (reversals.reversal_sent_twice, 1),
    (reversals.sent_reversal_not_asked_after, 1),
)[:MANY]
"""Planted bugs, and a world that shows each."""


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_money_goes_back_twice_and_none_is_lost(seed: int) -> None:
    played = play_reversals(seed)
    assert played.violations == ()
    assert played.counts["sent"] > 0


@pytest.mark.parametrize(("plant", "seed"), FOUND)
def test_their_judge_finds_a_planted_bug(plant: Plant, seed: int) -> None:
    with plant():
        violations = play_reversals(seed).violations
    assert "money_goes_back_once" in {each.partition(":")[0] for each in violations}
