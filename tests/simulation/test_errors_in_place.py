"""Wherever the workers of a gateway meet an error of their own program, nothing is claimed, due or
undone at the end, and nothing was sent twice."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from mmo_trio.engine.engine import DecisionFailed
from mmo_trio.workers.providers.worker import TRIES_IN_PLACE
from tests.simulation.errors_in_place import PlantedErrors, play_with_errors
from tests.simulation.play import Variant
from tests.simulation.world.plan import FaultKind
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

PLACES_MIN = 35
"""The worlds have these at least; fewer mean that errors are not raised everywhere."""
ANSWERS_LOST = (FaultKind.OPERATOR_LOSES_ANSWERS, FaultKind.NOTIFICATIONS_LOST)
WORLDS = {
    "calm": Variant(15, payments=12),
    "answers lost": Variant(0, payments=12, only=ANSWERS_LOST),
}


@pytest.mark.spec("S3", "S6", "K3")
@pytest.mark.parametrize("variant", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize(
    ("make_error", "times"),
    [
        pytest.param(lambda: KeyError("planted"), 1, id="an exception of ours"),
        pytest.param(
            lambda: DecisionFailed("planted"), TRIES_IN_PLACE + 2, id="what cannot be decided"
        ),
    ],
)
@pytest.mark.parametrize("seed", range(by_effort(1, 5)))
def test_work_that_meets_an_error_ends_all_the_same(
    seed: int, make_error: Callable[[], Exception], times: int, variant: Variant
) -> None:
    errors = PlantedErrors(Random(seed), times, make_error)
    assert play_with_errors(variant, errors) == []
    assert len(errors.raised) >= PLACES_MIN, sorted(errors.raised)
