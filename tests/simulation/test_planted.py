"""Judges find bugs that are planted into the shell, in worlds in which nothing else is wrong."""

from __future__ import annotations

import pytest

from tests.simulation.planted import BUGS
from tests.simulation.play import Variant, play

CALM_SEEDS = (7, 9)
"""Seeds without a fault."""
FOUND_IN_CALM = {
    "sends_a_callback_twice": "each_end_is_called_back_once",
    "forgets_a_submission": "an_undisturbed_payment_succeeds_soon",
    "answers_look_ups_from_memory": "an_end_never_changes",
    "leaves_stages_out_of_the_journal": "the_journal_explains_each_stage",
    "leaves_a_row_out_of_a_page": "records_list_each_payment_once",
}
"""The judge that finds each of these bugs."""


@pytest.mark.parametrize("name", FOUND_IN_CALM)
def test_a_planted_bug_is_found(name: str) -> None:
    (bug,) = (each for each in BUGS if each.name == name)
    with bug.plant():
        played = [play(Variant(seed, payments=15)) for seed in CALM_SEEDS]
    assert FOUND_IN_CALM[name] in {found.partition(":")[0] for each in played for found in each.violations}


def test_a_calm_world_is_right_without_a_bug() -> None:
    assert [play(Variant(seed, payments=15)).violations for seed in CALM_SEEDS] == [(), ()]
