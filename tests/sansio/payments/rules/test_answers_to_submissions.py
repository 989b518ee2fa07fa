"""What a report says of a payment that was submitted again since (S6): what answers the earlier
submission counts for that alone."""

from __future__ import annotations

from typing import Final

import pytest

from mmo_sansio.messages.changes import TransactionAdvanced
from mmo_sansio.messages.inputs import Input, MarkRestored
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    a_begin_submission,
    a_deposit,
    a_transaction,
    accepted,
    cannot_tell,
    failed,
    hinted,
    ledger_with,
    never_received,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, later
from mmo_sansio.values.model import DepositTrust, Evidence, Progress, Source, Stage, Transaction

SENT_FIRST: Final = 2
SENT_AGAIN: Final = 5
"""The versions at which the submissions were recorded."""
POLLED: Final = 7
NOW: Final = later(START, MINUTE)
DUE: Final = later(NOW, MINUTE)


def progress_after(stage: Stage, input_: Input, *, wake_at: Instant = DUE) -> Progress:
    """Return what became of a payment that was submitted twice and polled."""
    before = a_transaction(
        stage, version=POLLED, sent_version=SENT_AGAIN, polls=1, submissions=2, wake_at=wake_at
    )
    return moved(before, input_)


def moved(before: Transaction, input_: Input) -> Progress:
    decision = decide(ledger_with(before), input_, now=NOW)
    moves = [each.after for each in decision.changes if isinstance(each, TransactionAdvanced)]
    assert isinstance(decision.reply, Ignored) is not bool(moves)
    return moves[0].progress if moves else before.progress


def is_unmoved(stage: Stage, input_: Input) -> bool:
    return progress_after(stage, input_).version == POLLED


PENDING = pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)


@PENDING
@pytest.mark.spec("S2", "S6")
def test_a_refused_submission_does_not_fail_the_one_that_follows_it(stage: Stage) -> None:
    for old in (SENT_FIRST, SENT_AGAIN - 1):
        assert is_unmoved(stage, failed(version=old))
    for version in (SENT_AGAIN + 1, POLLED, None):
        assert progress_after(stage, failed(version=version)).stage is Stage.FAILED


@PENDING
@pytest.mark.spec("S2", "S6")
def test_a_refused_further_submission_is_asked_about_as_an_earlier_one_may_have_arrived(
    stage: Stage,
) -> None:
    refused = progress_after(stage, failed(version=SENT_AGAIN))
    assert refused.stage is stage
    assert refused.wake_at == later(NOW, POLL_INTERVAL_MIN)
    before = Transaction(a_transaction(stage).order, refused)
    for told in (succeeded(version=refused.version), succeeded(version=SENT_FIRST)):
        assert moved(before, told).stage is Stage.SUCCEEDED
    assert moved(before, failed(version=refused.version)).stage is Stage.FAILED


@pytest.mark.spec("S2", "S6")
def test_a_refused_further_submission_has_failed_once_no_earlier_one_is_found() -> None:
    refused = progress_after(Stage.SUBMITTING, failed(version=SENT_AGAIN))
    before = Transaction(a_transaction(Stage.SUBMITTING).order, refused)
    assert moved(before, never_received(version=POLLED)) is refused, "it was asked before"
    ended = moved(before, never_received(version=refused.version))
    told = failed(version=SENT_AGAIN)
    assert (ended.stage, ended.error_code, ended.completion_source) == (
        Stage.FAILED,
        told.error_code,
        Source.POLL,
    )
    assert ended.provider_data is not None
    assert ended.provider_data.error_code == told.native_code


@pytest.mark.spec("S2", "S6")
def test_the_refusal_of_the_only_submission_that_may_have_arrived_ends_the_payment() -> None:
    before = a_transaction(
        Stage.SUBMITTING, version=POLLED, sent_version=SENT_AGAIN, submissions=2, unsent=1
    )
    assert moved(before, failed(version=SENT_AGAIN)).stage is Stage.FAILED


@PENDING
@pytest.mark.spec("S2", "S6")
def test_money_that_an_earlier_submission_has_moved_is_moved(stage: Stage) -> None:
    for version in (SENT_FIRST, SENT_AGAIN, POLLED, None):
        assert progress_after(stage, succeeded(version=version)).stage is Stage.SUCCEEDED


@PENDING
@pytest.mark.spec("S6")
def test_a_lost_answer_to_an_earlier_submission_postpones_no_poll(stage: Stage) -> None:
    assert is_unmoved(stage, unreachable(version=SENT_FIRST, poll_after=HOUR))
    told = progress_after(stage, unreachable(version=POLLED, poll_after=HOUR))
    assert told.wake_at == later(NOW, HOUR)


@pytest.mark.spec("S6")
def test_an_acceptance_of_an_earlier_submission_counts_and_postpones_no_poll() -> None:
    old = progress_after(Stage.SUBMITTING, accepted(version=SENT_FIRST, poll_after=HOUR))
    assert (old.stage, old.wake_at) == (Stage.AWAITING_RESULT, DUE)
    new = progress_after(Stage.SUBMITTING, accepted(version=POLLED, poll_after=HOUR))
    assert new.wake_at == later(NOW, HOUR)


@pytest.mark.spec("S6")
def test_never_received_counts_for_the_submission_that_it_is_about() -> None:
    for version in (SENT_AGAIN, SENT_AGAIN + 1, POLLED):
        told = progress_after(Stage.SUBMITTING, never_received(version=version))
        assert (told.stage, told.unsent) == (Stage.CREATED, int(version == SENT_AGAIN))
    assert is_unmoved(Stage.SUBMITTING, never_received(version=SENT_AGAIN - 1))


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "learnt",
    [
        accepted(version=SENT_AGAIN),
        accepted(version=SENT_FIRST),
        accepted(version=None),
        hinted(content="paid"),
        hinted(evidence=Evidence("RECEIPT1", "0"), version=SENT_FIRST),
        MarkRestored(REFERENCE, "amina"),
        succeeded(version=SENT_AGAIN, lacks_receipt=True),
        failed(version=SENT_AGAIN),
        a_deposit(payment=REFERENCE, trust=DepositTrust.CONFIRMED, amount=KES(150)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_learnt_while_never_received_is_under_way_counts_for_more(learnt: Input) -> None:
    """Whether the request itself or a question is answered so, and however late."""
    before = a_transaction(
        Stage.SUBMITTING, version=POLLED, sent_version=SENT_AGAIN, polls=1, submissions=2
    )
    for version in (SENT_AGAIN, POLLED):
        ledger = ledger_with(before)
        ledger.apply(decide(ledger, learnt, now=NOW).changes)
        decision = decide(ledger, never_received(version=version), now=NOW)
        assert not decision.intents
        ledger.apply(decision.changes)
        assert ledger.transactions[REFERENCE].progress.stage is not Stage.CREATED


@PENDING
@pytest.mark.spec("S6")
def test_cannot_tell_counts_as_an_answer_to_the_latest_poll_alone(stage: Stage) -> None:
    for version in (SENT_FIRST, SENT_AGAIN, POLLED - 1):
        assert is_unmoved(stage, cannot_tell(version=version))
    assert progress_after(stage, cannot_tell(version=POLLED)).wake_at != DUE


@PENDING
@pytest.mark.spec("S5", "S6")
def test_what_was_told_of_an_earlier_submission_is_a_reason_to_poll_and_is_not_kept(
    stage: Stage,
) -> None:
    """A refusal that is kept would fail the payment when the next poll finds nothing."""
    old = progress_after(stage, hinted(content="refused", version=SENT_FIRST))
    assert old.hint is None
    assert old.wake_at is not None
    assert old.wake_at < DUE
    assert progress_after(stage, hinted(content="refused", version=SENT_AGAIN)).hint == "refused"


@PENDING
@pytest.mark.spec("S5", "S6")
def test_a_receipt_of_an_earlier_submission_is_evidence(stage: Stage) -> None:
    receipt = Evidence("RECEIPT1", "0")
    told = progress_after(stage, hinted(evidence=receipt, version=SENT_FIRST))
    assert told.evidence is not None


@pytest.mark.spec("S6")
def test_each_submission_is_known_by_the_version_at_which_it_was_recorded() -> None:
    first = decide(ledger_with(a_transaction()), a_begin_submission(), now=START)
    (move,) = [each for each in first.changes if isinstance(each, TransactionAdvanced)]
    assert move.after.progress.sent_version == move.after.progress.version == SENT_FIRST
