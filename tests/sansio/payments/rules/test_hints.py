"""Hints: what a notification that nobody has signed is good for (clauses S5, S6)."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded, TransactionAdvanced
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN
from mmo_sansio.testing.builders import (
    REFERENCE,
    START,
    a_begin_submission,
    a_transaction,
    a_wake,
    accepted,
    failed,
    hinted,
    ledger_with,
    never_received,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import MINUTE, SECOND, Span, later
from mmo_sansio.values.model import Evidence, Source, Stage, Transaction


def decided(before: Transaction, given: Input) -> Decision:
    return decide(ledger_with(before), given, now=START)


def after(decision: Decision) -> Transaction:
    (step,) = [each for each in decision.changes if isinstance(each, TransactionAdvanced)]
    return step.after


@pytest.mark.spec("S5")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT])
def test_what_a_hint_told_is_kept_for_the_adapter(stage: Stage) -> None:
    before = a_transaction(stage, wake_at=START + MINUTE, polls=1)
    decision = decided(before, hinted(content="receipt 1"))
    assert decision.intents == (PollProvider(REFERENCE),)
    assert after(decision).progress.hint == "receipt 1"


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("stage", "wake_at", "polls"),
    [(Stage.SUBMITTING, START + MINUTE, 0), (Stage.AWAITING_RESULT, START + SECOND, 1)],
)
def test_it_is_kept_even_when_nobody_is_asked_because_of_it(
    stage: Stage, wake_at: int, polls: int
) -> None:
    before = a_transaction(stage, wake_at=wake_at, polls=polls)
    decision = decided(before, hinted(content="receipt 1"))
    assert decision.intents == ()
    now = after(decision)
    assert (now.progress.hint, now.progress.wake_at) == ("receipt 1", wake_at)
    assert decided(now, hinted(content="receipt 1")).changes == ()


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "given", [accepted(poll_after=MINUTE), unreachable(poll_after=MINUTE)], ids=["taken", "lost"]
)
def test_what_was_told_while_the_submission_was_open_is_asked_about_soon(given: Input) -> None:
    before = a_transaction(Stage.SUBMITTING, wake_at=START + MINUTE)
    told = after(decided(before, hinted(content="receipt 1")))
    assert after(decided(told, given)).progress.wake_at == START + POLL_INTERVAL_MIN
    assert after(decided(before, given)).progress.wake_at == START + MINUTE
    asked = evolve(told, progress=evolve(told.progress, polls=1))
    assert after(decided(asked, given)).progress.wake_at == START + MINUTE


@pytest.mark.spec("S5")
def test_an_empty_hint_forgets_nothing() -> None:
    before = a_transaction(Stage.AWAITING_RESULT, wake_at=START + MINUTE, hint="receipt 1")
    assert after(decided(before, hinted())).progress.hint == "receipt 1"


@pytest.mark.spec("S6")
def test_a_submission_forgets_no_hint() -> None:
    before = a_transaction(Stage.CREATED, hint="receipt 1")
    assert after(decided(before, a_begin_submission())).progress.hint == "receipt 1"


@pytest.mark.spec("S6")
def test_an_answer_apart_from_its_question_counts_for_the_submission_that_it_is_about() -> None:
    before = a_transaction(Stage.SUBMITTING, submitted_at=START - MINUTE, version=9, sent_version=6)
    for version in (6, 7, 9):
        given = never_received(version=version)
        assert after(decided(before, given)).progress.stage is Stage.CREATED
    assert decided(before, never_received(version=5)).changes == ()


@pytest.mark.spec("S5")
def test_hints_are_gathered_and_the_latest_is_kept_when_they_become_too_much() -> None:
    before = a_transaction(Stage.AWAITING_RESULT, wake_at=START + MINUTE, hint="receipt 1")
    assert after(decided(before, hinted(content="id 2"))).progress.hint == "receipt 1\nid 2"
    assert after(decided(before, hinted(content="x" * 1_995))).progress.hint == "x" * 1_995


@pytest.mark.spec("S5")
def test_a_hint_about_a_payment_that_has_expired_goes_with_the_question() -> None:
    before = a_transaction(Stage.FAILED, completion_source=Source.EXPIRY)
    decision = decided(before, hinted(content="id 1"))
    assert (decision.changes, decision.intents) == ((), (PollEnded(REFERENCE, START, "id 1"),))


@pytest.mark.spec("S3", "S5")
@pytest.mark.parametrize("ago", [0, SECOND], ids=["about to expire", "expired, not woken yet"])
def test_a_hint_just_before_the_end_of_a_payment_polls_as_nothing_else_will(ago: int) -> None:
    expires_at = later(START, Span(SECOND - 2 * ago))
    before = a_transaction(Stage.AWAITING_RESULT, polls=9, wake_at=expires_at)
    before = evolve(before, order=evolve(before.order, expires_at=expires_at))
    decision = decided(before, hinted(content="receipt 1"))
    assert decision.intents == (PollProvider(REFERENCE),)
    assert after(decision).progress.wake_at == expires_at


@pytest.mark.spec("S5")
def test_a_receipt_of_a_payment_that_has_failed_is_kept_and_asked_about() -> None:
    before = a_transaction(Stage.FAILED, completion_source=Source.EXPIRY)
    decision = decided(before, hinted(evidence=Evidence("RECEIPT1", "0")))
    assert decision.reply == Applied(before)
    assert decision.intents == (PollEnded(REFERENCE, START),)
    (entry,) = [each for each in decision.changes if isinstance(each, SuspenseRecorded)]
    assert (entry.reason, "RECEIPT1" in entry.content) == (SuspenseReason.LATE_RESULT, True)


SAYS_PAID = hinted(content="it was paid", says_paid=True)


def unproved(decision: Decision) -> list[str]:
    """The texts of the entries by which staff learn that a failed payment was called paid."""
    entries = [each for each in decision.changes if isinstance(each, SuspenseRecorded)]
    assert {each.reason for each in entries} <= {SuspenseReason.UNPROVED_SUCCESS}
    told = [json.loads(each.content) for each in entries]
    assert all((each["result"], each["confirmed"]) == ("success", False) for each in told)
    assert all(each["providerReference"] is each["amount"] is None for each in told)
    return [each["told"] for each in told]


@pytest.mark.spec("S3", "S5")
@pytest.mark.parametrize("end", ["told as failed", "expired"])
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT])
def test_a_payment_that_fails_although_it_was_called_paid_is_left_to_staff(
    stage: Stage, end: str
) -> None:
    before = a_transaction(stage, polls=1, wake_at=START + MINUTE)
    told = after(decided(before, SAYS_PAID))
    told = after(decided(told, hinted(content="it has failed")))
    ends_at = told.order.expires_at if end == "expired" else START
    told = evolve(told, progress=evolve(told.progress, wake_at=ends_at))
    ended = decide(ledger_with(told), a_wake() if end == "expired" else failed(), now=ends_at)
    assert after(ended).progress.stage is Stage.FAILED
    assert unproved(ended) == ["it was paid\nit has failed"]


@pytest.mark.spec("S5")
def test_what_was_called_paid_by_nobody_leaves_no_entry() -> None:
    before = a_transaction(Stage.AWAITING_RESULT, wake_at=START + MINUTE)
    told = after(decided(before, hinted(content="it has failed")))
    assert unproved(decided(told, failed())) == []
    told = after(decided(before, SAYS_PAID))
    assert unproved(decided(told, succeeded())) == []


@pytest.mark.spec("S5")
@pytest.mark.parametrize("source", [Source.EXPIRY, Source.POLL, Source.WEBHOOK, Source.MANUAL])
def test_a_failed_payment_that_is_called_paid_is_asked_about_and_left_to_staff(
    source: Source,
) -> None:
    before = a_transaction(Stage.FAILED, completion_source=source)
    decision = decided(before, SAYS_PAID)
    assert decision.intents == (PollEnded(REFERENCE, START, "it was paid"),)
    assert unproved(decision) == ["it was paid"]


@pytest.mark.spec("S5")
def test_a_receipt_that_was_reported_has_the_entry_of_its_own() -> None:
    before = a_transaction(Stage.AWAITING_RESULT, wake_at=START + MINUTE)
    told = after(decided(before, evolve(SAYS_PAID, evidence=Evidence("RECEIPT1", "0"))))
    told = evolve(told, progress=evolve(told.progress, wake_at=told.order.expires_at))
    ended = decide(ledger_with(told), a_wake(), now=told.order.expires_at)
    (entry,) = [each for each in ended.changes if isinstance(each, SuspenseRecorded)]
    assert entry.reason is SuspenseReason.UNCONFIRMED_RECEIPT
