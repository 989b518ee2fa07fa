"""Judges find bugs that are planted into the shell, here those that a few small worlds show."""

from __future__ import annotations

import pytest

from tests.simulation.planted_bugs import FINDINGS, PLANTED, Finding, find
from tests.simulation.play import Variant, play
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

SEEDS = 12
CALM_SEEDS = (7, 9)
"""Seeds without a fault."""
CALM_PAYMENTS = 15


SLOW = frozenset(
    {
        *(
            "commit_in_doubt_forgotten",
            "conclusion_outside_of_its_commit",
            "due_payments_never_woken",
            "lost_wake_up",
        ),
        *("mark_kept_at_a_restart", "reference_written_after_its_payment", "work_of_the_dead_left"),
        *("what_was_asked_back_left_all", "reversal_sent_twice"),
        *("sent_reversal_not_asked_after",),
    }
)
"""What quick effort leaves out: each takes half a minute of a processor."""
QUICK_FINDINGS = {name: finding for name, finding in FINDINGS.items() if name not in SLOW}
CALM = [
    ("callback_sent_twice", "each_end_is_called_back_once"),
    ("look_up_answered_from_memory", "an_end_never_changes"),
    ("stage_left_out_of_the_journal", "the_journal_explains_each_stage"),
    ("row_left_out_of_a_page", "records_list_each_payment_once"),
]
CALM_AND_SLOW = ("submission_forgotten", "an_undisturbed_payment_succeeds_soon")
"""Bugs, and the judges that find them where nothing else is wrong."""


@pytest.mark.parametrize(("name", "finding"), by_effort(QUICK_FINDINGS, FINDINGS).items())
def test_a_bug_is_found_in_the_world_that_is_known_to_show_it(name: str, finding: Finding) -> None:
    found = find(PLANTED[name], [finding.seed], only=finding.only, scale=finding.scale)
    assert found is not None
    assert finding.judge in found.judges


@pytest.mark.parametrize(
    "name",
    ["retry_doubles_a_submission", *by_effort([], ["unreachable_taken_for_failure"])],
)
def test_a_bug_is_found_in_worlds_with_faults(name: str) -> None:
    assert find(PLANTED[name], range(SEEDS)) is not None


@pytest.mark.parametrize(("name", "judge"), by_effort(CALM, [*CALM, CALM_AND_SLOW]))
def test_a_judge_finds_a_bug_where_nothing_else_is_wrong(name: str, judge: str) -> None:
    found = find(PLANTED[name], CALM_SEEDS, payments=CALM_PAYMENTS)
    assert found is not None
    assert judge in found.judges


def test_a_calm_world_is_right_without_a_bug() -> None:
    assert [play(Variant(seed, payments=CALM_PAYMENTS)).violations for seed in CALM_SEEDS] == [
        (),
        (),
    ]
