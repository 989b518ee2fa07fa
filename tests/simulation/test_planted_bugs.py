"""Judges can find: each has a planted bug that it finds in a world that is known to show it."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.simulation import bugs
from tests.simulation.judges import JUDGES
from tests.simulation.planted_bugs import (
    CALM_SEED,
    FINDINGS,
    PAYMENTS,
    Finding,
    judges_that_find,
)
from tests.simulation.play import Variant, play
from tests.simulation.restored_worlds import HOLDING, HOLDING_WITH_LOST, OF_RESTORES
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

WITHOUT_A_BUG = {
    "what_is_paid_unasked_is_in_the_books",
    "what_is_paid_beside_a_prompt_is_its_payers",
    "what_is_told_as_failed_was_not_paid",
    "what_was_forged_is_no_money",
    "the_merchants_accounts_have_moved_by_that",
    "an_open_payment_stands_before_staff",
}
"""Judges of worlds of one operator, whose bugs are planted by `test_operator_worlds.py`, if at
all."""
QUICK = [finding for finding in FINDINGS if not finding.is_slow]


@pytest.mark.parametrize("finding", by_effort(QUICK, FINDINGS), ids=lambda finding: finding.name)
def test_a_judge_finds_a_bug_that_is_planted_for_it(finding: Finding) -> None:
    assert judges_that_find(finding.violations()) >= set(finding.judges)


def test_every_judge_has_a_planted_bug() -> None:
    judges = {judge.__name__ for judge in (*JUDGES, *HOLDING, *HOLDING_WITH_LOST, *OF_RESTORES)}
    assert {name for finding in FINDINGS for name in finding.judges} == judges - WITHOUT_A_BUG


def test_every_planted_bug_is_played() -> None:
    named = {finding.plant for finding in FINDINGS}
    planted = {
        function
        for module in vars(bugs).values()
        if isinstance(module, ModuleType)
        for name, function in vars(module).items()
        if getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
    }
    assert planted == named


def test_a_calm_world_is_right_without_a_bug() -> None:
    assert play(Variant(CALM_SEED, payments=PAYMENTS)).violations == ()
