"""What went back at each operator is what the gateway's reversals say, to the unit, whatever is
lost, late, altered, killed or restored. A world is its seed."""

from __future__ import annotations

from collections import Counter

import pytest

from mmo_sansio.values.reversals import ReversalState
from tests.support.effort import by_effort
from tests.support.reversal_world import OPERATIONS, ReversalWorld, check

WORLDS = by_effort(10, 40)
HAPPENS = (
    *(
        "AnswerInstead",
        "EndWith",
        "LoseAnswer",
        "LoseRequest",
        "asked after",
        "killed between record and request",
    ),
    *(
        "killed between sending and knowing",
        "late",
        "not connected",
        "requested",
        "asked for",
        "succeeded",
    ),
)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.spec("S5", "S6")
def test_no_money_goes_back_twice_and_none_is_lost(name: str) -> None:
    happened = Counter[str]()
    for seed in range(WORLDS):
        world = ReversalWorld(name, seed)
        world.play()
        check(world)
        happened += world.tally + Counter(each.state.value for each in world.reversals)
    assert [each for each in HAPPENS if not happened[each]] == []
    if name == "mtn":  # It can always be asked.
        assert happened[ReversalState.UNKNOWN.value] == happened[ReversalState.SENT.value] == 0
