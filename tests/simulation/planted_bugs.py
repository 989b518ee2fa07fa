"""Looks for the first simulated world in which a judge finds each of the bugs that are planted into
the shell.

python -m tests.simulation.planted_bugs                      find each, within 500 seeds
python -m tests.simulation.planted_bugs lost_wake_up         find one

Those of reversals are looked for in the worlds whose staff ask for much money back.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from tests.simulation.bugs import (
    books,
    callbacks,
    commits,
    providers,
    receipts,
    reversals,
    schedule,
    storage,
)
from tests.simulation.play import Variant, play
from tests.simulation.reversal_worlds import SMALL, Scale, play_reversals
from tests.simulation.world.plan import FaultKind

SEEDS_MAX: Final = 500
PAYMENTS: Final = 24

Plant: TypeAlias = Callable[[], AbstractContextManager[object]]

PLANTED: Final[Mapping[str, Plant]] = MappingProxyType(
    {
        plant.__name__: plant
        for plant in (
            commits.answered_before_the_commit,
            commits.acted_on_before_the_commit,
            commits.lost_wake_up,
            commits.unknown_outcome_taken_for_success,
            commits.commit_without_conditions,
            commits.commit_in_doubt_forgotten,
            commits.horizon_that_does_not_wait,
            commits.submission_in_doubt_dropped,
            callbacks.drain_drops_callbacks,
            callbacks.claim_without_a_fence,
            callbacks.expired_lease_renewed,
            callbacks.half_claimed_channels_trusted,
            callbacks.callback_sent_twice,
            callbacks.outcome_recorded_before_it_is_known,
            callbacks.sent_without_looking_again,
            callbacks.breaker_of_each_process,
            callbacks.breaker_that_stays_closed,
            providers.unreachable_taken_for_failure,
            providers.retry_doubles_a_submission,
            providers.lost_answer_taken_for_a_lost_request,
            providers.submitted_without_a_record,
            providers.forged_notification_trusted,
            schedule.expiry_by_the_wall_clock,
            schedule.submission_forgotten,
            schedule.due_payments_never_woken,
            schedule.drain_takes_polls,
            schedule.work_of_the_dead_left,
            receipts.receipt_not_claimed_by_staff,
            receipts.deposit_booked_without_its_claim,
            storage.intent_not_deleted,
            storage.conclusion_outside_of_its_commit,
            storage.reference_written_after_its_payment,
            storage.stale_row_cached,
            storage.rollback_taken_for_a_commit,
            storage.mark_kept_at_a_restart,
            storage.horizon_not_kept,
            storage.breaker_not_read,
            storage.evidence_not_stored,
            storage.hold_not_stored,
            books.look_up_answered_from_memory,
            books.stage_left_out_of_the_journal,
            books.row_left_out_of_a_page,
            reversals.reversals_not_marked_after_a_restore,
            reversals.reversal_sent_twice,
            reversals.sent_reversal_not_asked_after,
            reversals.what_was_asked_back_left_all,
            reversals.answers_without_their_questions,
        )
    }
)
"""Every bug, by name."""


@frozen
class Finding:
    """Is a world in which a judge is known to find a bug."""

    seed: int
    judge: str
    only: FaultKind | None = None
    """The one kind of fault of that world, which meets each payment; None: those that the seed
    decides."""
    scale: Scale | None = None
    """How much happens in it, if its staff ask for much money back."""


FINDINGS: Final[Mapping[str, Finding]] = MappingProxyType(
    {
        "due_payments_never_woken": Finding(0, "every_payment_ends"),
        "lost_wake_up": Finding(0, "every_payment_ends", FaultKind.STORE_STALLS),
        "acted_on_before_the_commit": Finding(0, "money_is_asked_for_once"),
        "drain_drops_callbacks": Finding(
            0, "each_end_is_called_back_once", FaultKind.GATEWAY_RESTARTED
        ),
        "answered_before_the_commit": Finding(8, "no_answered_create_is_lost"),
        "commit_in_doubt_forgotten": Finding(116, "every_payment_ends_once_nothing_is_wrong"),
        "submitted_without_a_record": Finding(84, "a_submission_on_record_is_begun"),
        "horizon_that_does_not_wait": Finding(
            2, "records_list_each_payment_once", FaultKind.STORE_STALLS
        ),
        "work_of_the_dead_left": Finding(
            0, "every_payment_ends_once_nothing_is_wrong", FaultKind.GATEWAY_KILLED
        ),
        "submission_in_doubt_dropped": Finding(74, "a_submission_on_record_is_begun"),
        "deposit_booked_without_its_claim": Finding(17, "a_receipt_is_one_success"),
        "receipt_not_claimed_by_staff": Finding(11, "a_receipt_is_one_success"),
        "intent_not_deleted": Finding(0, "each_end_is_called_back_once"),
        "conclusion_outside_of_its_commit": Finding(0, "each_end_is_called_back_once"),
        "reference_written_after_its_payment": Finding(0, "nothing_is_left"),
        "rollback_taken_for_a_commit": Finding(8, "no_answered_create_is_lost"),
        "mark_kept_at_a_restart": Finding(19, "each_end_is_called_back_once"),
        "breaker_not_read": Finding(0, "the_store_holds_what_was_decided"),
        "evidence_not_stored": Finding(0, "the_store_holds_what_was_decided"),
        "hold_not_stored": Finding(28, "nothing_is_submitted_on_hold"),
        "reversals_not_marked_after_a_restore": Finding(1, "money_goes_back_once", scale=SMALL),
        "answers_without_their_questions": Finding(
            0, "a_report_counts_for_what_it_answers", scale=SMALL
        ),
        "what_was_asked_back_left_all": Finding(
            0, "nothing_is_asked_back_that_is_not_left", scale=SMALL
        ),
        "reversal_sent_twice": Finding(1, "money_goes_back_once", scale=SMALL),
        "sent_reversal_not_asked_after": Finding(1, "money_goes_back_once", scale=SMALL),
    }
)
"""For rare bugs, a world of `PAYMENTS` payments that shows each, so that it can be tested without a
search."""


@frozen
class Found:
    """Is a world in which a bug was found."""

    seed: int
    violations: tuple[str, ...]

    @property
    def judges(self) -> set[str]:
        """Return the names of those that have found it."""
        return {each.partition(":")[0] for each in self.violations}


def find(
    plant: Plant,
    seeds: Iterable[int],
    *,
    payments: int = PAYMENTS,
    only: FaultKind | None = None,
    scale: Scale | None = None,
) -> Found | None:
    """Return the first world of these seeds in which a judge finds a violation; None when none
    does. What the log tells does not count: users would not see it."""
    for seed in seeds:
        with plant():  # Anew, as some bugs count what they do.
            if scale is None:
                violations = play(Variant(seed, payments=payments, only=only)).violations
            else:
                violations = play_reversals(seed, scale).violations
        seen = tuple(each for each in violations if not each.startswith("no_part_has_a_fault"))
        if seen:
            return Found(seed, seen)
    return None


def main() -> int:
    """Find the bugs that are named, or all; return 1 when one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted_bugs")
    parser.add_argument("bugs", nargs="*", default=list(PLANTED))
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    missed = 0
    for name in arguments.bugs:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        known = FINDINGS.get(name, Finding(0, ""))
        found = find(PLANTED[name], seeds, only=known.only, scale=known.scale)
        missed += found is None
        what = "not found" if found is None else f"seed {found.seed}: {found.violations[0]}"
        print(f"{name}: {what}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
