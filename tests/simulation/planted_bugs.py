"""Names, for each judge of simulated worlds, the bugs that are planted to see that it finds them,
and for each bug a world in which it is found.

python -m tests.simulation.planted_bugs                      find each in its world
python -m tests.simulation.planted_bugs lost_wake_up --seeds 80
                                                             look for other worlds that show it
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Final, TypeAlias, assert_never

from attrs import evolve, frozen

from tests.simulation.bugs import (
    books,
    callbacks,
    commits,
    providers,
    receipts,
    restores,
    reversals,
    schedule,
    storage,
)
from tests.simulation.play import Variant, play
from tests.simulation.restored_worlds import play_restored
from tests.simulation.reversal_worlds import SMALL, Scale, play_reversals
from tests.simulation.world.plan import FaultKind

PAYMENTS: Final = 12
CALM_SEED: Final = 15
"""One without a fault where so many payments are made."""
ANSWERS_LOST: Final = (FaultKind.OPERATOR_LOSES_ANSWERS, FaultKind.NOTIFICATIONS_LOST)
"""What leaves the outcome of some payments to polls."""
FEW_REVERSALS: Final = Scale(payments=16, visits=16, aimed_max=4)

Plant: TypeAlias = Callable[[], AbstractContextManager[object]]


class WorldKind(Enum):
    """Says what happens in a world besides payments and faults."""

    ORDINARY = "ordinary"
    RESTORED = "a backup is restored"
    REVERSALS = "staff ask for much money back, and a backup is restored"


@frozen
class Finding:
    """Is a world in which judges find a bug."""

    plant: Plant
    judges: tuple[str, ...]
    """Those to which it is proof that they see: others may find it as well."""
    seed: int = CALM_SEED
    payments: int = PAYMENTS
    """How many are made in an ordinary world."""
    only: tuple[FaultKind, ...] = ()
    """The kinds of faults of an ordinary world, which meet each payment; empty: those that the seed
    decides."""
    kind: WorldKind = WorldKind.ORDINARY
    scale: Scale = SMALL
    """How much happens in a world of reversals."""
    is_slow: bool = False
    """Whether only full effort plays it, as it takes more than some 3 s of a processor."""

    @property
    def name(self) -> str:
        """Return the name of the bug."""
        return str(getattr(self.plant, "__name__", ""))

    def violations(self) -> Sequence[str]:
        """Play the world with the bug in it, and return every violation."""
        with self.plant():  # Anew, as some bugs count what they do.
            match self.kind:
                case WorldKind.ORDINARY:
                    variant = Variant(self.seed, payments=self.payments, only=self.only)
                    return play(variant).violations
                case WorldKind.RESTORED:
                    return play_restored(self.seed)[2]
                case WorldKind.REVERSALS:
                    return play_reversals(self.seed, self.scale).violations
                case _:
                    assert_never(self.kind)


FINDINGS: Final[Sequence[Finding]] = (
    # Commits: what was answered or begun is durable.
    Finding(
        commits.answered_before_the_commit,
        ("no_answered_create_is_lost",),
        62,
        only=(FaultKind.STORE_REFUSES,),
    ),
    Finding(commits.acted_on_before_the_commit, ("a_submission_on_record_is_begun",)),
    Finding(commits.lost_wake_up, ("an_undisturbed_payment_succeeds_soon",)),
    Finding(storage.reference_not_stored, ("the_store_holds_what_was_decided",)),
    Finding(storage.intent_not_deleted, ("nothing_is_left",)),
    # Money: asked for once, and counted as the operators count it.
    Finding(
        providers.lost_answer_taken_for_a_lost_request,
        ("money_is_asked_for_once",),
        0,
        only=(FaultKind.OPERATOR_LOSES_ANSWERS,),
    ),
    Finding(
        providers.retry_doubles_a_submission,
        ("money_is_asked_for_once",),
        0,
        only=ANSWERS_LOST,
    ),
    Finding(
        providers.unreachable_taken_for_failure,
        ("the_operators_book_equals_ours",),
        0,
        only=ANSWERS_LOST,
    ),
    Finding(receipts.receipt_not_claimed_by_staff, ("a_receipt_is_one_success",), 11, 24),
    Finding(
        receipts.evidence_not_looked_at,
        ("staff_end_payments_once_and_on_evidence",),
        7,
        24,
        only=(FaultKind.STAFF_RESOLVE, *ANSWERS_LOST),
        is_slow=True,
    ),
    Finding(
        storage.hold_not_stored,
        ("nothing_is_submitted_on_hold",),
        0,
        only=(FaultKind.BRAND_HELD,),
        is_slow=True,
    ),
    # Time: what is due happens, and in time.
    Finding(
        schedule.expiry_after_a_minute,
        ("every_payment_ends",),
        0,
        only=ANSWERS_LOST,
    ),
    Finding(
        schedule.polls_dropped,
        (
            "a_counted_poll_is_made",
            "an_ended_payment_is_polled",
            "an_expired_payment_was_asked_about",
            "every_payment_ends_once_nothing_is_wrong",
        ),
        0,
        only=ANSWERS_LOST,
        is_slow=True,
    ),
    # Callbacks: one for each end, through one process, and one breaker.
    Finding(callbacks.callback_sent_twice, ("each_end_is_called_back_once",)),
    Finding(
        callbacks.outcome_recorded_before_it_is_known,
        ("each_end_is_called_back_once",),
        0,
        8,
        only=(FaultKind.RECEIVER_DOWN,),
    ),
    Finding(
        callbacks.channel_of_every_process,
        ("callbacks_go_through_one_process", "only_the_owner_calls_back"),
        62,
        24,
        only=(FaultKind.RECEIVER_HANGS,),
    ),
    Finding(
        callbacks.breaker_that_stays_closed,
        ("one_breaker_holds_over_all_processes",),
        130,
        24,
        only=(FaultKind.RECEIVER_DOWN,),
    ),
    # What merchants and staff read.
    Finding(books.look_up_answered_from_memory, ("an_end_never_changes",), 6),
    Finding(books.stage_left_out_of_the_journal, ("the_journal_explains_each_stage",)),
    Finding(books.row_left_out_of_a_page, ("records_list_each_payment_once",)),
    Finding(books.error_in_a_round, ("no_part_has_a_fault",)),
    # Backups that are restored.
    Finding(
        restores.gap_left,
        ("a_reference_is_one_payment",),
        1,
        kind=WorldKind.RESTORED,
        is_slow=True,
    ),
    Finding(
        storage.reference_not_stored,
        ("lost_payments_stay_used",),
        1,
        kind=WorldKind.RESTORED,
        is_slow=True,
    ),
    Finding(
        restores.restore_not_recognised,
        ("a_restored_store_is_recognised",),
        37,
        kind=WorldKind.RESTORED,
        is_slow=True,
    ),
    Finding(
        restores.brands_never_released,
        ("every_brand_is_released",),
        4,
        kind=WorldKind.RESTORED,
        is_slow=True,
    ),
    Finding(
        schedule.due_payments_never_woken,
        ("what_was_restored_ends",),
        1,
        kind=WorldKind.RESTORED,
        is_slow=True,
    ),
    Finding(
        books.success_told_as_failure,
        ("nothing_paid_is_told_failed", "no_end_changes"),
        4,
        kind=WorldKind.RESTORED,
    ),
    Finding(
        restores.leaked_key_left,
        ("no_retired_key_works",),
        1,
        kind=WorldKind.RESTORED,
        is_slow=True,
    ),
    # Money that staff ask back.
    Finding(
        reversals.reversal_sent_twice,
        ("money_goes_back_once",),
        1,
        kind=WorldKind.REVERSALS,
        scale=FEW_REVERSALS,
        is_slow=True,
    ),
    Finding(
        reversals.what_was_asked_back_left_all,
        ("nothing_is_asked_back_that_is_not_left", "no_more_goes_back_than_was_paid"),
        0,
        kind=WorldKind.REVERSALS,
        is_slow=True,
    ),
    Finding(
        reversals.lost_reversal_taken_for_failure,
        ("what_has_gone_back_is_on_record",),
        1,
        kind=WorldKind.REVERSALS,
        is_slow=True,
    ),
    Finding(
        reversals.answers_without_their_questions,
        ("a_report_counts_for_what_it_answers",),
        0,
        kind=WorldKind.REVERSALS,
        scale=FEW_REVERSALS,
        is_slow=True,
    ),
)
"""For each judge one bug that it finds, or a few that are of different kinds."""


def judges_that_find(violations: Iterable[str]) -> set[str]:
    """Return the names of the judges that have found these."""
    return {violation.partition(":")[0] for violation in violations}


def find(finding: Finding, seeds: Iterable[int]) -> tuple[int, Sequence[str]] | None:
    """Return the first of these seeds in whose world all these judges find the bug, and what was
    found; None when there is none."""
    for seed in seeds:
        violations = evolve(finding, seed=seed).violations()
        if judges_that_find(violations) >= set(finding.judges):
            return seed, violations
    return None


def main() -> int:
    """Find the bugs that are named, or all; return 1 when one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted_bugs")
    parser.add_argument("bugs", nargs="*", help="their names; none: all")
    parser.add_argument("--seeds", type=int, help="look through so many instead of its own")
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()

    missed = 0
    for finding in FINDINGS:
        if arguments.bugs and finding.name not in arguments.bugs:
            continue
        seeds: Iterable[int] = [finding.seed]
        if arguments.seeds:
            seeds = range(arguments.first, arguments.first + arguments.seeds)
        found = find(finding, seeds)
        missed += found is None
        what = "not found" if found is None else f"seed {found[0]}: {found[1][0]}"
        print(f"{finding.name}: {what}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
