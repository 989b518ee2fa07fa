"""What a payer does elsewhere (clauses W1, W2, S6): a code before or after the submission, a page
of the operator, and returns, which prove nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.messages.changes import JournalEntry, TransactionAdvanced
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import PollProvider, SubmitToProvider
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import (
    REFERENCE,
    START,
    a_begin_submission,
    a_confirmation,
    a_create_payment,
    a_return,
    a_transaction,
    a_wake,
    accepted,
    failed,
    ledger_with,
    never_received,
    succeeded,
)
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Operation, Page, Progress, Stage, Status, Transaction
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl

NOW = later(START, Span(5 * SECOND))
LONG = later(START, Span(20 * MINUTE))
PAGE = Page("token-of-the-page", later(START, Span(30 * MINUTE)))
URL = "https://pay.example/c/secret?x=1"
SENT_TO = OpenUrl(URL)
TOLD_HOW = EnterCode((("en", "Dial *144*4*6#."), ("fr", "Composez *144*4*6#.")))


def paged(stage: Stage, **progress: Any) -> Transaction:
    return a_transaction(stage, flow=Flow.WEB, page=PAGE, **progress)


def decided(before: Transaction, given: Input, *, now: Instant = NOW) -> Decision:
    return decide(ledger_with(before), given, now=now)


def moved(before: Transaction, given: Input, *, now: Instant = NOW) -> Progress:
    decision = decided(before, given, now=now)
    assert isinstance(decision.reply, Applied), decision.reply
    assert isinstance(decision.changes[0], TransactionAdvanced)
    return decision.changes[0].after.progress


def journal(decision: Decision) -> dict[str, Any]:
    line = decision.changes[-1]
    assert isinstance(line, JournalEntry)
    told: dict[str, Any] = json.loads(line.detail)
    return told


def a_gateway_in(*history: Input) -> Gateway:
    gateway = Gateway()
    created = a_create_payment(operation=Operation.WEB_PAYIN)
    for number, given in enumerate((created, a_confirmation(), a_begin_submission(), *history)):
        gateway.receive(given, now=later(START, Span(number)))
        gateway.take_intents()
    return gateway


@pytest.mark.spec("S1", "S6", "W1")
def test_a_code_is_asked_for_before_the_submission_and_the_payment_is_sent_with_it() -> None:
    gateway = a_gateway_in(never_received(version=3, payer_action=TOLD_HOW))
    asked = gateway.transaction(REFERENCE)
    assert asked.progress.stage is Stage.AWAITING_CUSTOMER
    assert asked.progress.payer_action == TOLD_HOW
    assert asked.status is Status.PENDING
    assert asked.progress.unsent == asked.progress.submissions == 1

    assert isinstance(gateway.receive(a_confirmation(), now=NOW), Ignored)
    gateway.receive(a_confirmation(code="123456"), now=NOW)
    assert gateway.take_intents() == (SubmitToProvider(REFERENCE),)
    reply = gateway.receive(a_begin_submission(), now=NOW)
    assert isinstance(reply, Applied)
    sent = reply.transaction.progress
    assert isinstance(sent.payer_action, EnterCode)
    assert sent.payer_action.code == "123456"
    assert not sent.is_resubmission
    gateway.receive(accepted(version=sent.version), now=NOW)
    assert gateway.transaction(REFERENCE).progress.payer_action is None


@pytest.mark.spec("W1")
def test_a_second_code_and_a_second_tab_do_nothing() -> None:
    gateway = a_gateway_in(never_received(version=3, payer_action=TOLD_HOW))
    gateway.receive(a_confirmation(code="111111"), now=NOW)
    gateway.take_intents()
    for given in (a_confirmation(code="222222"), a_confirmation()):
        assert isinstance(gateway.receive(given, now=NOW), Ignored)
    asked = gateway.transaction(REFERENCE).progress.payer_action
    assert isinstance(asked, EnterCode)
    assert asked.code == "111111"
    assert gateway.take_intents() == ()


@pytest.mark.spec("W1", "E1")
def test_without_a_code_the_payment_ends_with_its_page_or_with_the_time_for_the_code() -> None:
    ends_at = later(START, Span(10 * MINUTE))
    for asked, at in ((TOLD_HOW, PAGE.closes_at), (evolve(TOLD_HOW, ends_at=ends_at), ends_at)):
        before = paged(Stage.SUBMITTING, version=3, sent_version=3)
        waiting = moved(before, never_received(version=3, payer_action=asked))
        assert waiting.wake_at == at
        late = decided(Transaction(before.order, waiting), a_confirmation(code="123456"), now=at)
        assert isinstance(late.reply, Ignored)
        ended = moved(Transaction(before.order, waiting), a_wake(), now=at)
        assert ended.error_code is ErrorCode.USER_TIMEOUT
        assert ended.payer_action is None


@pytest.mark.spec("S6", "E1")
def test_a_payment_without_a_page_that_needs_a_code_fails_and_is_not_sent_for_ever() -> None:
    before = a_transaction(Stage.SUBMITTING)
    ended = moved(before, never_received(version=2, payer_action=TOLD_HOW))
    assert ended.error_code is ErrorCode.MERCHANT_MISCONFIGURED


@pytest.mark.spec("S6")
def test_an_old_answer_asks_for_no_code() -> None:
    before = paged(Stage.SUBMITTING, version=9, sent_version=9)
    report = never_received(version=3, payer_action=TOLD_HOW)
    assert isinstance(decided(before, report).reply, Ignored)


@pytest.mark.spec("S1", "W2")
def test_a_page_of_the_operator_is_kept_and_journaled_without_its_address() -> None:
    decision = decided(paged(Stage.SUBMITTING), accepted(payer_action=SENT_TO))
    assert isinstance(decision.reply, Applied)
    sent = decision.reply.transaction
    assert sent.progress.payer_action == SENT_TO
    assert sent.status is Status.PENDING
    assert journal(decision)["payerAction"] == "openUrl"
    assert journal(decision)["host"] == "pay.example"
    assert "secret" not in str(decision.changes[-1])
    assert "secret" not in repr(sent)
    again = decided(sent, accepted(payer_action=SENT_TO, poll_after=Span(MINUTE)))
    assert "payerAction" not in journal(again), "it is told once"


def test_a_code_is_in_no_journal_and_no_repr() -> None:
    before = paged(Stage.AWAITING_CUSTOMER, payer_action=TOLD_HOW)
    decision = decided(before, a_confirmation(code="987654"))
    assert "987654" not in str(decision.changes[-1])
    assert "987654" not in repr(decision)
    assert "987654" not in repr(a_confirmation(code="987654"))


def test_a_payment_without_a_page_sends_nobody_anywhere() -> None:
    before = a_transaction(Stage.SUBMITTING)
    assert moved(before, accepted(payer_action=SENT_TO)).payer_action is None


@pytest.mark.spec("W2", "S6")
def test_a_return_causes_a_question_and_ends_nothing() -> None:
    before = paged(Stage.AWAITING_RESULT, wake_at=LONG, payer_action=SENT_TO)
    decision = decided(before, a_return())
    assert isinstance(decision.reply, Applied)
    progress = decision.reply.transaction.progress
    assert progress.stage is Stage.AWAITING_RESULT
    assert progress.payer_action == evolve(SENT_TO, returned_at=NOW)
    assert decision.intents == (PollProvider(REFERENCE),)
    line = decision.changes[-1]
    assert isinstance(line, JournalEntry)
    assert (line.input_name, line.actor) == ("PayerReturned", "payer")


@pytest.mark.spec("W2", "S5")
def test_returns_cause_at_most_one_question_in_two_seconds() -> None:
    before = paged(Stage.AWAITING_RESULT, wake_at=LONG, payer_action=SENT_TO)
    ledger, questions = ledger_with(before), 0
    answer = accepted(payer_action=SENT_TO, poll_after=HOUR)
    for number in range(40):
        for given in (a_return(), answer):
            decision = decide(ledger, given, now=later(NOW, Span(number * SECOND // 10)))
            ledger.apply(decision.changes, decision.intents)
            questions += len(decision.intents)
    assert questions == 2


@pytest.mark.spec("W2")
@pytest.mark.parametrize("stage", list(Stage), ids=str)
def test_a_return_of_one_who_was_sent_nowhere_changes_nothing(stage: Stage) -> None:
    for asked in (None, TOLD_HOW):
        decision = decided(paged(stage, payer_action=asked), a_return())
        assert isinstance(decision.reply, Ignored)
        assert decision.changes == ()
        assert decision.intents == ()


def test_what_a_provider_repeats_takes_no_return_back_and_another_page_does() -> None:
    returned = evolve(SENT_TO, returned_at=START, needs_commit=True)
    before = paged(Stage.AWAITING_RESULT, payer_action=returned)
    soon = Span(MINUTE)
    kept = moved(before, accepted(payer_action=SENT_TO, poll_after=soon)).payer_action
    assert kept == evolve(SENT_TO, returned_at=START)
    assert moved(before, accepted(poll_after=soon)).payer_action == returned
    other = OpenUrl("https://pay.example/c/other")
    assert moved(before, accepted(payer_action=other, poll_after=soon)).payer_action == other


def test_the_provider_is_asked_when_the_time_on_its_page_is_over() -> None:
    ends_at = later(NOW, Span(MINUTE))
    report = accepted(payer_action=evolve(SENT_TO, ends_at=ends_at), poll_after=HOUR)
    assert moved(paged(Stage.SUBMITTING), report).wake_at == ends_at
    past = accepted(payer_action=evolve(SENT_TO, ends_at=NOW), poll_after=HOUR)
    assert moved(paged(Stage.SUBMITTING), past).wake_at == later(NOW, HOUR)


@pytest.mark.spec("S6")
def test_a_code_that_the_provider_asks_for_after_the_submission_is_told_to_it() -> None:
    asked = paged(Stage.AWAITING_RESULT, wake_at=LONG, version=4, payer_action=TOLD_HOW)
    assert not asked.progress.awaits_commit
    decision = decided(asked, a_confirmation(code="1234"), now=NOW)
    assert isinstance(decision.reply, Applied)
    given = decision.reply.transaction
    assert given.progress.awaits_commit
    assert decision.intents == (PollProvider(REFERENCE),)

    slow = accepted(version=4, payer_action=TOLD_HOW, poll_after=HOUR)
    assert moved(given, slow).awaits_commit, "it was asked for before the code was given"
    wrong = accepted(version=5, payer_action=TOLD_HOW, poll_after=HOUR)
    assert moved(given, wrong).payer_action == TOLD_HOW, "the code was wrong: another one"


@pytest.mark.spec("S6")
def test_only_a_return_to_a_payment_that_needs_it_is_told_to_the_provider() -> None:
    for needs_commit, returned_at in ((False, START), (True, None)):
        sent_to = evolve(SENT_TO, needs_commit=needs_commit, returned_at=returned_at)
        assert not paged(Stage.AWAITING_RESULT, payer_action=sent_to).progress.awaits_commit
    returned = evolve(SENT_TO, needs_commit=True, returned_at=START)
    assert paged(Stage.AWAITING_RESULT, payer_action=returned).progress.awaits_commit
    assert not paged(Stage.SUBMITTING, payer_action=returned).progress.awaits_commit


@pytest.mark.parametrize("given", [succeeded(), failed()], ids=["paid", "failed"])
def test_nothing_is_asked_of_the_payer_of_an_ended_payment(given: Input) -> None:
    before = paged(Stage.AWAITING_RESULT, payer_action=SENT_TO)
    assert moved(before, given).payer_action is None
