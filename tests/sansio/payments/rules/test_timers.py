"""The clock: expiry, closed pages, and questions to providers (clauses S3, W1)."""

from __future__ import annotations

import pytest

from mmo_sansio.messages.changes import IntentConcluded, TransactionAdvanced
from mmo_sansio.messages.intents import DeliverCallback, IntentKind, PollEnded, PollProvider
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MAX, POLL_INTERVAL_MIN, poll_interval
from mmo_sansio.testing import (
    REFERENCE,
    START,
    FakeProvider,
    ProviderScript,
    World,
    a_confirmation,
    a_transaction,
    a_wake,
    accepts,
    does_not_answer,
    ledger_with,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Operation, Progress, Source, Stage, Terms, Transaction

EXPIRES = later(START, Span(3 * DAY))
CLOSES = later(START, Span(30 * MINUTE))
PENDING = [each for each in Stage if not each.is_terminal]


def woken(before: Transaction, *, now: Instant) -> Decision:
    return decide(ledger_with(before), a_wake(), now=now)


def moved(before: Transaction, *, now: Instant) -> Progress:
    decision = woken(before, now=now)
    assert isinstance(decision.reply, Applied), decision.reply
    step = decision.changes[0]
    assert isinstance(step, TransactionAdvanced)
    assert step.after == decision.reply.transaction
    return step.after.progress


@pytest.mark.spec("S3", "S2", "E1", "K1")
@pytest.mark.parametrize("late", [0, 1, 40 * DAY], ids=["at", "just after", "long after"])
@pytest.mark.parametrize("stage", PENDING, ids=str)
def test_pending_for_three_days_expires(stage: Stage, late: Span) -> None:
    before = a_transaction(stage, polls=5, wake_at=EXPIRES)
    now = later(EXPIRES, late)
    assert moved(before, now=now) == Progress(
        stage=Stage.FAILED,
        version=before.progress.version + 1,
        wake_at=None,
        polls=5,
        provider_data=before.progress.provider_data,
        completed_at=now,
        completion_source=Source.EXPIRY,
        error_code=ErrorCode.TRANSACTION_EXPIRED,
        error_message=EXPLANATIONS[ErrorCode.TRANSACTION_EXPIRED].meaning,
        submitted_at=before.progress.submitted_at,
        sent_version=before.progress.sent_version,
    )
    asked = (PollEnded(REFERENCE, now),) if stage is Stage.SUBMITTING else ()
    assert woken(before, now=now).intents == (DeliverCallback(REFERENCE), *asked)


@pytest.mark.spec("S3")
@pytest.mark.parametrize("stage", PENDING, ids=str)
def test_nothing_expires_early(stage: Stage) -> None:
    before = a_transaction(stage, wake_at=EXPIRES - 1)
    progress = moved(before, now=earlier(EXPIRES, Span(1)))
    assert progress.error_code is not ErrorCode.TRANSACTION_EXPIRED


@pytest.mark.spec("S3")
@pytest.mark.parametrize("stage", PENDING, ids=str)
def test_waking_too_early_is_harmless(stage: Stage) -> None:
    before = a_transaction(stage)
    assert before.progress.wake_at is not None
    early = woken(before, now=earlier(before.progress.wake_at, Span(1)))
    assert early == Decision(Ignored("Nothing is due.", before))
    assert isinstance(woken(before, now=before.progress.wake_at).reply, Applied)


@pytest.mark.spec("S1")
@pytest.mark.parametrize("stage", [Stage.SUCCEEDED, Stage.FAILED], ids=str)
def test_what_has_ended_sleeps_for_ever(stage: Stage) -> None:
    before = a_transaction(stage)
    assert woken(before, now=EXPIRES) == Decision(Ignored("Nothing is due.", before))


def test_waking_what_is_unknown_is_harmless() -> None:
    assert decide(ledger_with(), a_wake(), now=EXPIRES) == Decision(Ignored("Nothing is due."))


@pytest.mark.spec("W1", "E1")
@pytest.mark.parametrize("stage", [Stage.AWAITING_CUSTOMER, Stage.CREATED], ids=str)
def test_a_page_whose_payment_was_never_sent_fails_when_it_closes(stage: Stage) -> None:
    before = a_transaction(stage, wake_at=CLOSES)
    progress = moved(before, now=CLOSES)
    assert progress.stage is Stage.FAILED
    assert progress.error_code is ErrorCode.USER_TIMEOUT
    assert progress.error_message == EXPLANATIONS[ErrorCode.USER_TIMEOUT].meaning
    assert progress.completion_source is Source.EXPIRY
    assert progress.completed_at == CLOSES
    assert woken(before, now=CLOSES).intents == (DeliverCallback(REFERENCE),)


def test_ending_before_submission_withdraws_the_wish_to_submit() -> None:
    decision = woken(a_transaction(), now=EXPIRES)
    assert IntentConcluded((REFERENCE, IntentKind.SUBMIT)) in decision.changes


@pytest.mark.spec("S6")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)
@pytest.mark.parametrize(
    ("polls", "wait"),
    [(0, 2), (1, 4), (2, 8), (10, 2048), (11, 3600), (12, 3600), (500, 3600)],
    ids=str,
)
def test_questions_come_at_growing_intervals(stage: Stage, polls: int, wait: int) -> None:
    now = later(START, MINUTE)
    before = a_transaction(stage, polls=polls, wake_at=now)
    progress = moved(before, now=now)
    assert (progress.stage, progress.polls) == (stage, polls + 1)
    assert progress.wake_at == now + wait * SECOND
    assert woken(before, now=now).intents == (PollProvider(REFERENCE),)


@pytest.mark.spec("S3")
def test_the_next_wake_is_never_after_expiry() -> None:
    before = a_transaction(Stage.AWAITING_RESULT, polls=40, wake_at=EXPIRES - MINUTE)
    assert moved(before, now=earlier(EXPIRES, MINUTE)).wake_at == EXPIRES


def test_the_interval_doubles_from_two_seconds_to_an_hour() -> None:
    assert (POLL_INTERVAL_MIN, POLL_INTERVAL_MAX) == (2 * SECOND, HOUR)
    intervals = [poll_interval(polls) for polls in range(20)]
    assert intervals[:11] == [2 * SECOND * 2**polls for polls in range(11)]
    assert set(intervals[11:]) == {HOUR}
    assert poll_interval(10**9) == HOUR


@pytest.mark.spec("S3", "S6")
@pytest.mark.parametrize("script", [accepts, does_not_answer], ids=["pending", "silent"])
def test_the_last_question_comes_within_the_hour_before_expiry(script: ProviderScript) -> None:
    provider = FakeProvider(on_poll=(script,))
    world = World(provider)
    world.create()
    world.run()
    ended = world.transaction()
    assert ended.progress.error_code is ErrorCode.TRANSACTION_EXPIRED
    assert ended.progress.completed_at == ended.order.expires_at
    last = provider.polls[-1][0]
    assert ended.order.expires_at - HOUR <= last < ended.order.expires_at
    assert 80 < len(provider.polls) < 100


@pytest.mark.spec("S3")
def test_a_gateway_that_was_down_expires_what_is_due_once() -> None:
    world = World()
    world.create()
    world.settle()
    world.now = later(EXPIRES, DAY)
    for _ in range(3):
        world.gateway.wake(now=world.now)
    assert world.gateway.take_intents() == (
        DeliverCallback(REFERENCE),
        PollEnded(REFERENCE, world.now),
    )
    assert world.transaction().progress.error_code is ErrorCode.TRANSACTION_EXPIRED


@pytest.mark.spec("W1")
def test_a_page_that_lives_as_long_as_its_payment_ends_in_expiry() -> None:
    world = World()
    world.create(operation=Operation.WEB_PAYIN, terms=Terms(page_session=None))
    world.run()
    assert world.transaction().progress.error_code is ErrorCode.TRANSACTION_EXPIRED


@pytest.mark.spec("W1")
def test_a_confirmed_payment_outlives_its_page() -> None:
    world = World(FakeProvider(on_poll=(accepts,)))
    world.create(operation=Operation.WEB_PAYIN)
    world.receive(a_confirmation())
    world.advance(HOUR)
    assert world.transaction().progress.stage is Stage.AWAITING_RESULT


@pytest.mark.spec("S3", "S5", "S6")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)
def test_a_payment_that_expires_without_a_poll_that_was_due_is_polled_as_it_ends(
    stage: Stage,
) -> None:
    """A gateway that was down for days must learn which money has moved meanwhile; the result goes
    to the suspense book."""
    was_down = woken(a_transaction(stage, wake_at=earlier(EXPIRES, HOUR)), now=EXPIRES)
    assert was_down.intents == (DeliverCallback(REFERENCE), PollEnded(REFERENCE, EXPIRES))
    never_polled = woken(a_transaction(stage, wake_at=EXPIRES), now=EXPIRES)
    assert never_polled.intents == (DeliverCallback(REFERENCE), PollEnded(REFERENCE, EXPIRES))
    untold = a_transaction(stage, wake_at=EXPIRES, polls=1, is_told_when_asked=True)
    assert woken(untold, now=EXPIRES).intents == never_polled.intents
    never_sent = woken(a_transaction(Stage.CREATED, wake_at=earlier(EXPIRES, HOUR)), now=EXPIRES)
    assert never_sent.intents == (DeliverCallback(REFERENCE),)


@pytest.mark.spec("S3", "S5")
def test_a_payment_is_asked_about_after_its_end_where_its_provider_never_said_that_it_has_it() -> (
    None
):
    """It answered neither the submission nor any poll, and may process it when it is back; nobody
    knows whether it would notify of that."""
    accepted = woken(a_transaction(Stage.AWAITING_RESULT, wake_at=EXPIRES, polls=1), now=EXPIRES)
    assert accepted.intents == (DeliverCallback(REFERENCE),)
    unknown = woken(a_transaction(Stage.SUBMITTING, wake_at=EXPIRES, polls=80), now=EXPIRES)
    assert unknown.intents == (DeliverCallback(REFERENCE), PollEnded(REFERENCE, EXPIRES))
