"""Money back by staff: asked for once (S6), never more than was paid, and no late or contrary
result is lost (S5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, evolve

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Ignored, Reply, ReversalApplied
from mmo_sansio.messages.reversals import (
    DecideReversal,
    MarkReversalRestored,
    RequestReversal,
    ResolveReversal,
    ReversalAccepted,
    ReversalFailed,
    ReversalHinted,
    ReversalNeverReceived,
    ReversalSucceeded,
    ReversalUnreachable,
    ReversalWoke,
)
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.rules.reversals import QUESTIONS_AFTER_END_MAX, REQUESTS_MAX
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN
from mmo_sansio.providers.common.interface import ReversalReports
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    a_begin_submission,
    a_create_payment,
    succeeded,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, later
from mmo_sansio.values.model import Source, Stage
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, ReversalState, reversal_id

ID = reversal_id(REFERENCE, 1)
PAID = KES(150)
ASKED = RequestReversal(REFERENCE, "acme", None, "Paid twice.", "amina", needs_approval=False)


@define
class PaidPayment:
    """A gateway with a paid payment, and the time."""

    gateway: Gateway
    now: Instant = START

    def give(self, input_: Input) -> Reply:
        return self.gateway.receive(input_, now=self.now)

    def send(self, attempt: str = "one") -> Reply:
        """Let a worker find the reversal due."""
        self.now = later(self.now, Span(HOUR))
        return self.give(ReversalWoke(ID, attempt))

    @property
    def reversals(self) -> tuple[Reversal, ...]:
        return self.gateway.ledger.reversals_of(REFERENCE)

    @property
    def reversal(self) -> Reversal:
        return self.reversals[0]

    def has(self, state: ReversalState) -> bool:
        """Tell whether the reversal is in this state now."""
        return self.reversal.state is state

    @property
    def suspense(self) -> list[SuspenseReason]:
        return [each.reason for each in self.gateway.suspense]


def paid() -> PaidPayment:
    stage = PaidPayment(Gateway())
    for each in (a_create_payment(), a_begin_submission(), succeeded()):
        stage.give(each)
    return stage


def approved(**members: Any) -> PaidPayment:
    stage = paid()
    assert isinstance(stage.give(evolve(ASKED, **members)), ReversalApplied)
    return stage


def sent(**members: Any) -> PaidPayment:
    stage = approved(**members)
    reply = stage.send()
    assert isinstance(reply, ReversalApplied)
    assert reply.reversal.may_send("one")
    return stage


def sent_twice() -> PaidPayment:
    """Send again what the provider has never received, by its answer to a question."""
    stage = sent()
    stage.send("two")
    stage.give(ReversalReports(stage.reversal, "test").never_received())
    stage.send("three")
    assert stage.reversal.may_send("three")
    return stage


def why(reply: Reply) -> str:
    assert isinstance(reply, Ignored)
    return reply.reason


# --- what may be asked for


@pytest.mark.spec("S1", "S2")
def test_a_reversal_is_a_record_beside_its_payment_which_stays_as_it_is() -> None:
    stage = paid()
    payment = stage.gateway.transaction(REFERENCE)
    stage.give(ASKED)
    stage.send()
    stage.give(ReversalSucceeded(ID, "test", Source.POLL, "R-1"))
    assert stage.gateway.transaction(REFERENCE) == payment
    assert (stage.reversal.state, stage.reversal.amount) == (ReversalState.SUCCEEDED, PAID)
    assert (stage.reversal.source, stage.reversal.provider_reference) == (Source.POLL, "R-1")


@pytest.mark.spec("S2")
def test_only_a_payment_that_has_succeeded_is_reversed() -> None:
    stage = PaidPayment(Gateway())
    assert why(stage.give(ASKED)) == "There is no such payment."
    stage.give(a_create_payment())
    assert why(stage.give(ASKED)).startswith("Only a payment that has succeeded, or was paid after")
    assert why(paid().give(evolve(ASKED, brand="other"))) == "There is no such payment."


@pytest.mark.spec("S2", "M1")
def test_all_reversals_of_a_payment_together_are_at_most_what_was_paid() -> None:
    stage = approved(amount=KES(100))
    assert "at most 50.00 KES" in why(stage.give(evolve(ASKED, amount=KES(51))))
    assert isinstance(stage.give(evolve(ASKED, amount=KES(20))), ReversalApplied)
    assert isinstance(stage.give(ASKED), ReversalApplied)  # None: what is left.
    assert [each.amount for each in stage.reversals] == [KES(100), KES(20), KES(30)]
    assert why(stage.give(ASKED)) == "All that was paid has been asked back."


@pytest.mark.spec("S2")
def test_what_has_failed_may_be_asked_for_again() -> None:
    stage = sent()
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    assert isinstance(stage.give(ASKED), ReversalApplied)
    assert [each.id for each in stage.reversals] == [f"{REFERENCE}-1", f"{REFERENCE}-2"]


@pytest.mark.spec("M1")
@pytest.mark.parametrize("amount", [KES(0), KES(-1), KES(151)])
def test_an_amount_is_above_0_and_at_most_what_was_paid(amount: Any) -> None:
    assert "above 0" in why(paid().give(evolve(ASKED, amount=amount)))


def test_the_currency_is_that_of_the_payment() -> None:
    other = evolve(PAID, currency="UGX")
    assert why(paid().give(evolve(ASKED, amount=other))) == "The amount must be in KES."


def test_a_limit_counts_the_day_and_gives_back_what_has_failed() -> None:
    limited = evolve(ASKED, amount=KES(80), daily_max=KES(100))
    stage = paid()
    stage.give(limited)
    assert "would exceed 100.00 KES" in why(stage.give(evolve(limited, amount=KES(30))))
    assert isinstance(stage.give(evolve(limited, user="brian", amount=KES(30))), ReversalApplied)
    stage.give(DecideReversal(ID, "brian", is_approved=False, four_eyes=True))
    assert isinstance(stage.give(evolve(limited, amount=KES(30))), ReversalApplied)
    tomorrow = evolve(limited, amount=KES(90), user="brian")
    assert "would exceed" in why(stage.give(tomorrow))
    stage.now = later(stage.now, Span(DAY))
    assert isinstance(stage.give(tomorrow), ReversalApplied)


# --- who decides


def test_with_four_eyes_another_user_approves() -> None:
    stage = approved(needs_approval=True)
    assert (stage.reversal.state, stage.reversal.wake_at) == (ReversalState.REQUESTED, None)
    assert isinstance(stage.send(), Ignored), "nothing is sent that was not approved"
    own = DecideReversal(ID, "amina", is_approved=True, four_eyes=True)
    assert "another user" in why(stage.give(own))
    assert isinstance(stage.give(evolve(own, user="brian")), ReversalApplied)
    assert (stage.reversal.state, stage.reversal.approved_by) == (ReversalState.APPROVED, "brian")
    assert why(stage.give(evolve(own, user="brian"))) == "It is approved already."


def test_what_was_not_sent_can_be_taken_back_and_what_was_sent_cannot() -> None:
    refusal = DecideReversal(ID, "amina", is_approved=False, four_eyes=True, remark="A mistake.")
    stage = approved(needs_approval=True)
    stage.give(refusal)
    assert (stage.reversal.state, stage.reversal.ended_by) == (ReversalState.FAILED, "amina")
    assert "can't be taken back" in why(sent().give(refusal))


# --- sent once


@pytest.mark.spec("S6")
def test_it_is_on_record_as_sent_before_the_request_leaves_and_one_attempt_may_send() -> None:
    stage = sent()
    assert stage.has(ReversalState.SENT)
    assert isinstance(stage.give(ReversalWoke(ID, "two")), Ignored)
    again = stage.give(ReversalWoke(ID, "one"))
    assert isinstance(again, ReversalApplied), (
        "an attempt whose outcome was unknown learns that it is its own"
    )
    assert again.reversal.version == stage.reversal.version


@pytest.mark.spec("S6")
def test_after_a_crash_it_is_asked_after_and_not_sent_again() -> None:
    stage = sent()
    reply = stage.send("two")
    assert isinstance(reply, ReversalApplied)
    assert not reply.reversal.may_send("two")
    assert not reply.reversal.may_send("one")
    assert (stage.reversal.state, stage.reversal.polls, stage.reversal.submissions) == (
        ReversalState.UNKNOWN,
        1,
        1,
    )


@pytest.mark.spec("S6")
def test_only_the_providers_word_that_it_received_nothing_lets_it_be_sent_again() -> None:
    stage = sent()
    stage.give(ReversalUnreachable(ID, "test", "No answer."))
    assert stage.has(ReversalState.UNKNOWN)
    stage.send("two")
    stage.give(ReversalNeverReceived(ID, "test", version=stage.reversal.version))
    assert stage.has(ReversalState.APPROVED)
    reply = stage.send("three")
    assert isinstance(reply, ReversalApplied)
    assert reply.reversal.may_send("three")


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "told",
    [
        [ReversalUnreachable(ID, "test", "No answer.")],
        [ReversalUnreachable(ID, "test", "No answer.", poll_after=SECOND)],
        [ReversalUnreachable(ID, "test", "No answer."), ReversalHinted(ID, "test")],
        [MarkReversalRestored(ID, "amina")],
        [MarkReversalRestored(ID, "amina"), ReversalHinted(ID, "test")],
    ],
)
def test_while_the_request_may_be_in_flight_it_is_not_asked_after(told: list[Input]) -> None:
    """The answer could be recorded when the request has arrived, and let it be sent again."""
    stage = sent()
    for input_ in told:
        stage.give(input_)
    stage.now = later(stage.now, Span(29 * SECOND))
    assert isinstance(stage.give(ReversalWoke(ID, "two")), Ignored)
    stage.now = later(stage.now, SECOND)
    assert isinstance(stage.give(ReversalWoke(ID, "two")), ReversalApplied)


@pytest.mark.spec("S6")
def test_an_answer_to_an_old_question_lets_nothing_be_sent_again() -> None:
    stage = sent_twice()
    for old in range(1, stage.reversal.sent_version):
        assert isinstance(stage.give(ReversalNeverReceived(ID, "test", version=old)), Ignored)
    assert stage.has(ReversalState.SENT)


@pytest.mark.spec("S6")
def test_what_the_provider_has_accepted_is_never_sent_again() -> None:
    stage = sent()
    stage.give(ReversalAccepted(ID, "test", Source.POLL, "R-1"))
    assert isinstance(
        stage.give(ReversalNeverReceived(ID, "test", version=stage.reversal.version)), Ignored
    )
    assert stage.has(ReversalState.SENT)


@pytest.mark.spec("S6")
def test_an_acceptance_after_all_stops_a_second_request() -> None:
    stage = sent()
    stage.give(ReversalNeverReceived(ID, "test", version=stage.reversal.version))
    stage.give(ReversalAccepted(ID, "test", Source.WEBHOOK))
    reply = stage.send("two")
    assert isinstance(reply, ReversalApplied)
    assert not reply.reversal.may_send("two")


@pytest.mark.spec("S6")
def test_the_refusal_of_the_only_request_is_final() -> None:
    stage = sent()
    stage.give(ReversalReports(stage.reversal, "test").failed("It is too old."))
    assert (stage.reversal.state, stage.reversal.wake_at) == (ReversalState.FAILED, None)
    assert stage.reversal.remark == "It is too old."


@pytest.mark.spec("S6")
def test_the_refusal_of_a_second_request_is_asked_about_as_the_first_may_have_arrived() -> None:
    stage = sent_twice()
    refusal = ReversalReports(stage.reversal, "test").failed("It was reversed before.")
    stage.give(refusal)
    assert stage.has(ReversalState.UNKNOWN)
    stage.send("four")
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    assert stage.has(ReversalState.FAILED), "the answer to a question counts"


@pytest.mark.spec("S6")
def test_a_refused_second_request_ends_where_the_provider_knows_nothing_of_either() -> None:
    """A provider that keeps no refused ids would else be sent one request after the other."""
    stage = sent_twice()
    stage.give(ReversalReports(stage.reversal, "test").failed("Too small."))
    stage.send("four")
    stage.give(ReversalNeverReceived(ID, "test", version=stage.reversal.version))
    assert stage.has(ReversalState.FAILED)
    assert (stage.reversal.submissions, stage.reversal.remark) == (2, "Too small.")


@pytest.mark.spec("S6")
def test_the_refusal_of_a_second_request_is_final_where_the_first_has_not_left() -> None:
    stage = sent()
    stage.give(ReversalNeverReceived(ID, "test", version=stage.reversal.version))
    stage.send("two")
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    assert stage.has(ReversalState.FAILED)


@pytest.mark.spec("S6")
def test_a_refusal_that_is_recorded_late_is_asked_about_as_one_in_time() -> None:
    """The store was away, so the next question is on record before the refusal is."""
    stage = sent_twice()
    refusal = ReversalReports(stage.reversal, "test").failed("It was reversed before.")
    stage.send("four")
    stage.give(refusal)
    assert stage.has(ReversalState.UNKNOWN)
    assert stage.reversal.wake_at is not None


@pytest.mark.spec("S6")
def test_the_refusal_of_an_earlier_request_says_nothing_of_the_latest() -> None:
    stage = sent()
    old = ReversalReports(stage.reversal, "test")
    stage.send("two")
    stage.give(ReversalReports(stage.reversal, "test").never_received())
    stage.send("three")
    for report in (old.failed("No."), old.unreachable("Reset."), old.never_received()):
        assert isinstance(stage.give(report), Ignored)
    assert stage.has(ReversalState.SENT)
    assert stage.reversal.may_send("three")


@pytest.mark.spec("S6")
def test_an_old_cannot_tell_ends_no_question_that_was_planned_since() -> None:
    stage = sent()
    stage.send("two")
    cannot_tell = ReversalReports(stage.reversal, "test").cannot_tell()
    stage.give(ReversalAccepted(ID, "test", Source.WEBHOOK, "R-1", poll_after=SECOND))
    planned = stage.reversal.wake_at
    assert isinstance(stage.give(cannot_tell), Ignored)
    assert planned == stage.reversal.wake_at == later(stage.now, SECOND)


@pytest.mark.spec("S6")
def test_what_answers_an_earlier_request_postpones_no_question() -> None:
    stage = sent()
    old = ReversalReports(stage.reversal, "test").accepted()
    stage.send("two")
    stage.give(ReversalReports(stage.reversal, "test").never_received())
    stage.send("three")
    planned = stage.reversal.wake_at
    stage.give(evolve(old, poll_after=HOUR))
    assert (stage.reversal.is_accepted, stage.reversal.wake_at) == (True, planned)


@pytest.mark.spec("S5", "S6")
def test_a_hint_asks_at_once_and_accepts_nothing() -> None:
    stage = sent()
    assert isinstance(stage.give(ReversalHinted(ID, "test")), Ignored), "it may be in flight"
    stage.give(ReversalReports(stage.reversal, "test").unreachable("Reset."))
    stage.now = later(stage.now, Span(HOUR))
    stage.give(ReversalWoke(ID, "two"))
    stage.give(ReversalHinted(ID, "test"))
    assert stage.reversal.wake_at == later(stage.now, POLL_INTERVAL_MIN)
    assert isinstance(stage.give(ReversalHinted(ID, "test")), Ignored), "a flood asks once"
    assert isinstance(stage.give(ReversalHinted(ID, "other")), Ignored)
    assert not stage.reversal.is_accepted


@pytest.mark.spec("S6")
def test_a_hint_keeps_nothing_from_being_sent_that_never_arrived() -> None:
    stage = sent()
    stage.send("two")
    stage.give(ReversalHinted(ID, "test"))
    stage.send("three")
    stage.give(ReversalReports(stage.reversal, "test").never_received())
    assert isinstance(stage.give(ReversalHinted(ID, "test")), Ignored)
    stage.send("four")
    assert stage.reversal.may_send("four")


@pytest.mark.spec("S6")
def test_what_never_arrives_is_sent_five_times_and_then_needs_a_person() -> None:
    stage = sent()
    for attempt in range(20):
        stage.send(f"question {attempt}")
        stage.give(ReversalReports(stage.reversal, "test").never_received())
        stage.send(f"request {attempt}")
    assert stage.reversal.submissions == REQUESTS_MAX
    assert (stage.reversal.state, stage.reversal.wake_at) == (ReversalState.UNKNOWN, None)
    assert stage.reversal.needs_person(stage.now)


@pytest.mark.spec("S6")
def test_what_certainly_did_not_leave_is_sent_as_often_as_it_takes() -> None:
    stage = sent()
    for attempt in range(20):
        stage.give(ReversalReports(stage.reversal, "test").never_received())
        stage.send(f"request {attempt}")
    assert stage.reversal.submissions == 21


@pytest.mark.spec("S6")
@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("needs_approval", [True, False])
def test_what_could_not_be_sent_for_a_day_needs_a_person(
    is_refused: bool, needs_approval: bool
) -> None:
    """Its provider is closed, or refuses each request as nothing that it has received."""
    stage = approved(needs_approval=needs_approval)
    if needs_approval:
        stage.now = later(stage.now, DAY)
        assert not stage.reversal.needs_person(stage.now)
        stage.give(DecideReversal(ID, "brian", is_approved=True, four_eyes=True))
    approved_at = stage.now

    for attempt in range(20 * is_refused):
        stage.send(f"request {attempt}")
        stage.give(ReversalReports(stage.reversal, "test").never_received())
    assert stage.has(ReversalState.APPROVED)
    assert not stage.reversal.needs_person(later(approved_at, Span(DAY - 1)))
    assert stage.reversal.needs_person(later(approved_at, DAY))
    withdrawal = DecideReversal(ID, "amina", is_approved=False, four_eyes=True)
    assert isinstance(stage.give(withdrawal), ReversalApplied)
    assert not stage.reversal.needs_person(later(approved_at, DAY))


@pytest.mark.spec("S6")
def test_what_has_no_result_for_a_day_needs_a_person() -> None:
    stage = sent()
    stage.give(ReversalReports(stage.reversal, "test").accepted("R-1"))
    assert not stage.reversal.needs_person(later(stage.now, Span(DAY - 1)))
    assert stage.reversal.needs_person(later(stage.now, DAY))
    stage.give(ReversalSucceeded(ID, "test", Source.POLL, "R-1"))
    assert not stage.reversal.needs_person(later(stage.now, DAY))


@pytest.mark.spec("S6")
def test_where_no_question_can_tell_a_notification_or_staff_end_it() -> None:
    stage = sent()
    stage.give(ReversalReports(stage.reversal, "test").cannot_tell())
    assert (stage.reversal.state, stage.reversal.wake_at) == (ReversalState.UNKNOWN, None)
    stage.now = later(stage.now, Span(MINUTE))
    by_hand = ResolveReversal(ID, "amina", succeeded=True, evidence="A line of the statement.")
    stage.give(by_hand)
    assert (stage.reversal.state, stage.reversal.source) == (ReversalState.SUCCEEDED, Source.MANUAL)


@pytest.mark.spec("S6")
def test_staff_end_nothing_that_may_be_arriving_just_now() -> None:
    stage = sent()
    by_hand = ResolveReversal(ID, "amina", succeeded=False, evidence="A statement.")
    assert "half a minute" in why(stage.give(by_hand))
    stage.now = later(stage.now, Span(MINUTE))
    assert isinstance(stage.give(by_hand), ReversalApplied)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("needs_approval", [True, False])
def test_in_a_restored_store_it_may_have_been_sent_so_it_is_asked_after_and_never_sent(
    needs_approval: bool,
) -> None:
    stage = approved(needs_approval=needs_approval)
    stage.give(MarkReversalRestored(ID, "amina"))
    reply = stage.send("two")
    assert isinstance(reply, ReversalApplied)
    assert not reply.reversal.may_send("two")
    assert isinstance(
        stage.give(DecideReversal(ID, "brian", is_approved=True, four_eyes=True)), Ignored
    )
    stage.give(ReversalNeverReceived(ID, "test", version=stage.reversal.version))
    assert stage.has(ReversalState.FAILED), "staff ask for a new one"
    assert isinstance(stage.give(MarkReversalRestored(ID, "amina")), Ignored)


# --- results


@pytest.mark.spec("S5")
def test_a_second_result_that_agrees_changes_nothing() -> None:
    stage = sent()
    for source in (Source.POLL, Source.WEBHOOK, Source.POLL):
        stage.give(ReversalSucceeded(ID, "test", source, "R-1", PAID))
    assert stage.suspense == []


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "late",
    [
        ReversalFailed(ID, "test", Source.WEBHOOK, "No."),
        ReversalSucceeded(ID, "test", Source.WEBHOOK, "R-2"),
        ReversalSucceeded(ID, "test", Source.WEBHOOK, "R-1", KES(1)),
    ],
)
def test_a_result_that_contradicts_a_success_waits_for_staff(late: Input) -> None:
    stage = sent()
    stage.give(ReversalSucceeded(ID, "test", Source.POLL, "R-1"))
    stage.give(late)
    assert stage.suspense == [SuspenseReason.CONFLICTING_RESULT]
    assert stage.has(ReversalState.SUCCEEDED)


@pytest.mark.spec("S5", "S6")
def test_money_that_came_back_after_all_is_not_asked_for_again() -> None:
    stage = sent()
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    for _ in range(2):
        stage.give(ReversalSucceeded(ID, "test", Source.WEBHOOK, "R-1"))
    assert stage.suspense == [SuspenseReason.CONFLICTING_RESULT]
    assert stage.has(ReversalState.MOVED_AFTER_ALL)
    assert why(stage.give(ASKED)) == "All that was paid has been asked back."


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize("told", [ReversalSucceeded(ID, "test", Source.POLL, "R-1"), None])
def test_a_notification_after_a_failure_is_asked_about_until_it_is_answered(
    told: Input | None,
) -> None:
    stage = sent()
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    for _ in range(2):
        stage.give(ReversalHinted(ID, "test"))
    assert stage.reversal.wake_at == later(stage.now, POLL_INTERVAL_MIN)
    for attempt in ("two", "three"):
        reply = stage.send(attempt)
        assert isinstance(reply, ReversalApplied)
        assert not reply.reversal.may_send(attempt)
        stage.give(ReversalUnreachable(ID, "test", "No answer."))
        assert stage.has(ReversalState.FAILED)
    stage.give(told or ReversalReports(stage.reversal, "test").failed("No."))
    assert stage.has(ReversalState.MOVED_AFTER_ALL if told else ReversalState.FAILED)
    assert isinstance(stage.send("four"), Ignored)


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "stale",
    [
        lambda asked: asked.never_received(),
        lambda asked: asked.cannot_tell(),
        lambda asked: asked.failed("No."),
    ],
)
def test_a_stale_answer_ends_no_asking_that_a_notification_has_caused(
    stale: Callable[[ReversalReports], Input],
) -> None:
    stage = sent()
    stage.send("two")
    asked = ReversalReports(stage.reversal, "test")
    stage.give(evolve(BY_HAND, succeeded=False))
    stage.give(ReversalHinted(ID, "test"))
    stage.give(stale(asked))
    assert stage.reversal.wake_at == later(stage.now, POLL_INTERVAL_MIN)
    stage.send("three")
    stage.give(stale(ReversalReports(stage.reversal, "test")))
    assert stage.reversal.wake_at is None, "the latest question has its answer"


@pytest.mark.spec("S5")
def test_a_stale_acceptance_of_what_staff_have_failed_is_asked_about() -> None:
    stage = sent()
    stage.send("two")
    asked = ReversalReports(stage.reversal, "test")
    stage.give(evolve(BY_HAND, succeeded=False))
    stage.give(asked.accepted())
    assert stage.reversal.wake_at == later(stage.now, POLL_INTERVAL_MIN)


@pytest.mark.spec("S5")
@pytest.mark.parametrize("is_pending", [True, False])
def test_what_has_ended_is_asked_about_for_some_days_after_each_notification(
    is_pending: bool,
) -> None:
    stage = sent()
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    for round_ in range(2):
        stage.give(ReversalHinted(ID, "test"))
        began_at, questions = stage.now, 0
        while (due := stage.reversal.wake_at) is not None:
            stage.now = due
            stage.give(ReversalWoke(ID, f"{round_}, {questions}"))
            about = ReversalReports(stage.reversal, "test")
            stage.give(about.accepted() if is_pending else about.unreachable("No answer."))
            questions += 1
        assert questions == QUESTIONS_AFTER_END_MAX
        assert 2 < (stage.now - began_at) / DAY < 4
    assert stage.has(ReversalState.FAILED)


@pytest.mark.spec("S5")
def test_a_notification_after_a_success_or_about_what_was_never_sent_asks_nothing() -> None:
    done, refused = sent(), approved()
    done.give(ReversalSucceeded(ID, "test", Source.POLL, "R-1"))
    refused.give(DecideReversal(ID, "brian", is_approved=False, four_eyes=True))
    for stage in (done, refused):
        assert isinstance(stage.give(ReversalAccepted(ID, "test", Source.WEBHOOK)), Ignored)
        assert isinstance(stage.give(ReversalHinted(ID, "test")), Ignored)
        assert stage.reversal.wake_at is None


@pytest.mark.spec("S5")
def test_another_amount_than_was_asked_for_counts_and_is_shown_to_staff() -> None:
    stage = sent()
    stage.give(ReversalSucceeded(ID, "test", Source.POLL, "R-1", KES(149)))
    assert (stage.reversal.amount, stage.suspense) == (KES(149), [SuspenseReason.SETTLED_LESS])


@pytest.mark.spec("S5")
def test_a_result_that_fits_nothing_waits_for_staff() -> None:
    unsent, other = approved(), sent()
    unsent.give(ReversalSucceeded(ID, "test", Source.WEBHOOK))
    unsent.give(ReversalSucceeded("NONE-1", "test", Source.WEBHOOK))
    assert unsent.suspense == [SuspenseReason.UNKNOWN_TRANSACTION] * 2
    other.give(ReversalSucceeded(ID, "another", Source.WEBHOOK))
    other.give(ReversalSucceeded(ID, "test", Source.WEBHOOK, amount=evolve(PAID, currency="UGX")))
    assert other.suspense == [SuspenseReason.WRONG_PROVIDER, SuspenseReason.WRONG_CURRENCY]
    assert (unsent.reversal.state, other.reversal.state) == (
        ReversalState.APPROVED,
        ReversalState.SENT,
    )


def test_each_step_is_a_line_of_the_payments_journal() -> None:
    stage = sent()
    stage.give(ReversalSucceeded(ID, "test", Source.POLL))
    lines = [each for each in stage.gateway.journal if "Reversal" in each.input_name]
    assert [(each.actor, each.stage_before, each.stage_after) for each in lines] == [
        ("user:amina", None, "approved"),
        ("clock", "approved", "sent"),
        ("provider:test", "sent", "succeeded"),
    ]
    assert {each.gateway_reference for each in lines} == {REFERENCE}
    assert stage.gateway.transaction(REFERENCE).progress.stage is Stage.SUCCEEDED


def test_questions_come_ever_more_seldom() -> None:
    stage = sent()
    waits = []
    for each in range(14):
        due = stage.reversal.wake_at
        assert due is not None
        waits.append(due - stage.now)
        stage.now = due
        stage.give(ReversalWoke(ID, f"poll {each}"))
        stage.give(ReversalUnreachable(ID, "test", "No answer."))
    assert (waits[0], waits[1], waits[-1]) == (30 * SECOND, 4 * SECOND, HOUR)


@pytest.mark.spec("S6")
def test_a_request_that_names_its_number_asks_once_however_often_it_comes() -> None:
    stage = paid()
    assert isinstance(stage.give(evolve(ASKED, amount=KES(50), number=1)), ReversalApplied)
    assert why(stage.give(evolve(ASKED, amount=KES(50), number=1))).startswith(
        "Money of this payment was asked back"
    )
    assert [each.amount for each in stage.reversals] == [KES(50)]
    assert isinstance(stage.give(evolve(ASKED, amount=KES(50), number=2)), ReversalApplied)


# --- never more than was paid


def moved_after_all(stage: PaidPayment, amount: Money | None = None) -> None:
    """Let the provider report that the first reversal has moved its money, though it had failed."""
    stage.give(ReversalSucceeded(ID, "test", Source.WEBHOOK, "R-1", amount))
    assert stage.has(ReversalState.MOVED_AFTER_ALL)


def failed_then_asked_again(**members: Any) -> PaidPayment:
    stage = sent()
    stage.give(ReversalFailed(ID, "test", Source.WEBHOOK, "No."))
    assert isinstance(stage.give(evolve(ASKED, **members)), ReversalApplied)
    return stage


NEXT = reversal_id(REFERENCE, 2)


@pytest.mark.spec("S2", "S6")
def test_what_no_longer_fits_is_not_approved_and_names_what_has_taken_its_place() -> None:
    stage = failed_then_asked_again(needs_approval=True)
    moved_after_all(stage)
    approval = DecideReversal(NEXT, "brian", is_approved=True, four_eyes=True)
    said = f"{ID} has taken its place: only 0.00 KES of 150.00 KES is left."
    assert why(stage.give(approval)) == said
    second = stage.reversals[1]
    assert (second.state, second.remark) == (ReversalState.FAILED, said)
    assert (second.source, second.submissions) == (None, 0)


@pytest.mark.spec("S2", "S6")
def test_what_no_longer_fits_is_not_sent() -> None:
    stage = failed_then_asked_again()
    moved_after_all(stage)
    stage.now = later(stage.now, Span(HOUR))
    assert ID in why(stage.give(ReversalWoke(NEXT, "two")))
    assert (stage.reversals[1].state, stage.reversals[1].submissions) == (ReversalState.FAILED, 0)


@pytest.mark.spec("S2", "S6")
def test_an_attempt_that_was_recorded_sends_nothing_that_no_longer_fits() -> None:
    stage = failed_then_asked_again()
    stage.now = later(stage.now, Span(HOUR))
    assert isinstance(stage.give(ReversalWoke(NEXT, "two")), ReversalApplied)
    moved_after_all(stage)
    assert isinstance(stage.give(ReversalWoke(NEXT, "two")), Ignored)


@pytest.mark.spec("S2", "S6")
def test_what_never_arrived_is_not_sent_again_where_others_took_its_place() -> None:
    stage = failed_then_asked_again()
    for attempt in ("two", "three"):
        stage.now = later(stage.now, Span(HOUR))
        stage.give(ReversalWoke(NEXT, attempt))
    stage.give(ReversalNeverReceived(NEXT, "test", version=stage.reversals[1].version))
    moved_after_all(stage)
    stage.now = later(stage.now, Span(HOUR))
    assert isinstance(stage.give(ReversalWoke(NEXT, "four")), Ignored)
    assert stage.reversals[1].state is ReversalState.FAILED


@pytest.mark.spec("S2")
def test_what_moved_more_than_was_asked_for_leaves_less_for_others() -> None:
    stage = sent(amount=KES(50))
    stage.give(evolve(ASKED, amount=KES(100)))
    stage.give(ReversalSucceeded(ID, "test", Source.WEBHOOK, "R-1", KES(150)))
    stage.now = later(stage.now, Span(HOUR))
    assert isinstance(stage.give(ReversalWoke(NEXT, "two")), Ignored)
    assert stage.reversals[1].state is ReversalState.FAILED


@pytest.mark.spec("S2")
def test_what_moved_after_all_counts_with_the_amount_that_the_provider_reports() -> None:
    stage = sent(amount=KES(50))
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    moved_after_all(stage, KES(60))
    assert stage.reversal.amount == KES(60)
    assert "at most 90.00 KES" in why(stage.give(evolve(ASKED, amount=KES(91))))


@pytest.mark.spec("S2")
def test_what_moved_after_all_counts_against_the_limit_of_its_day() -> None:
    limited = evolve(ASKED, daily_max=PAID)
    stage = sent(daily_max=PAID)
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    moved_after_all(stage)
    counter = stage.gateway.ledger.usage["acme", "reversals amina KES"]
    assert counter.amount == PAID.minor
    other = a_create_payment(gateway_reference="01K9ZZZZZZZZZZZZZZZZZZZZZ2", merchant_reference="B")
    for input_ in (other, a_begin_submission(other.gateway_reference)):
        stage.give(input_)
    stage.give(succeeded(other.gateway_reference))
    refused = evolve(limited, payment=other.gateway_reference)
    assert "would exceed 150.00 KES" in why(stage.give(refused))


def test_the_limit_of_a_day_counts_what_was_moved() -> None:
    stage = sent(amount=KES(50), daily_max=KES(100))
    stage.give(ReversalSucceeded(ID, "test", Source.POLL, "R-1", KES(40)))
    assert stage.gateway.ledger.usage["acme", "reversals amina KES"].amount == KES(40).minor


# --- a wrong end is put right


BY_HAND = ResolveReversal(ID, "brian", succeeded=True, evidence="A line of the statement.")


@pytest.mark.spec("S5")
def test_staff_show_that_a_failed_reversal_has_moved_its_money() -> None:
    stage = sent()
    stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    assert isinstance(stage.give(evolve(BY_HAND, provider_reference="R-1")), ReversalApplied)
    assert stage.has(ReversalState.MOVED_AFTER_ALL)
    assert (stage.reversal.ended_by, stage.reversal.source) == ("brian", Source.MANUAL)
    assert why(stage.give(ASKED)) == "All that was paid has been asked back."
    stage.give(ReversalSucceeded(ID, "test", Source.WEBHOOK, "R-1"))
    assert stage.suspense == [], "the provider agrees"


@pytest.mark.spec("S5")
@pytest.mark.parametrize("has_failed", [True, False])
def test_staff_put_an_end_by_hand_right(has_failed: bool) -> None:
    stage = sent()
    stage.now = later(stage.now, Span(MINUTE))
    stage.give(evolve(BY_HAND, succeeded=not has_failed))
    assert "already" in why(stage.give(evolve(BY_HAND, succeeded=not has_failed)))
    assert isinstance(stage.give(evolve(BY_HAND, succeeded=has_failed)), ReversalApplied)
    assert stage.has(ReversalState.MOVED_AFTER_ALL if has_failed else ReversalState.FAILED)
    assert isinstance(stage.give(evolve(BY_HAND, succeeded=not has_failed)), ReversalApplied)


@pytest.mark.spec("S5")
def test_that_the_provider_has_moved_money_is_not_denied_by_hand() -> None:
    stage = sent()
    stage.give(ReversalSucceeded(ID, "test", Source.POLL, "R-1"))
    assert "that stands" in why(stage.give(evolve(BY_HAND, succeeded=False)))


@pytest.mark.spec("S5")
@pytest.mark.parametrize("has_failed_before", [True, False])
@pytest.mark.parametrize(
    "told", [lambda about: about.failed("No."), lambda about: about.never_received()]
)
def test_a_notification_of_what_staff_have_ended_as_succeeded_is_asked_about(
    told: Callable[[ReversalReports], Input], has_failed_before: bool
) -> None:
    stage = sent()
    stage.now = later(stage.now, Span(MINUTE))
    if has_failed_before:
        stage.give(ReversalFailed(ID, "test", Source.POLL, "No."))
    stage.give(BY_HAND)
    stage.give(ReversalHinted(ID, "test"))
    assert stage.reversal.wake_at == later(stage.now, POLL_INTERVAL_MIN)
    reply = stage.send("two")
    assert isinstance(reply, ReversalApplied)
    assert not reply.reversal.may_send("two")
    stage.give(told(ReversalReports(stage.reversal, "test")))
    assert stage.suspense == [SuspenseReason.CONFLICTING_RESULT]
    assert stage.reversal.state.has_moved, "staff decide which is right"
    assert stage.reversal.wake_at is None
    assert isinstance(stage.give(evolve(BY_HAND, succeeded=False)), ReversalApplied)


@pytest.mark.spec("S5")
def test_a_question_that_is_planned_outlives_that_staff_put_the_end_right() -> None:
    stage = sent()
    stage.now = later(stage.now, Span(MINUTE))
    stage.give(evolve(BY_HAND, succeeded=False))
    stage.give(ReversalHinted(ID, "test"))
    planned = stage.reversal.wake_at
    stage.give(BY_HAND)
    assert (stage.reversal.state, stage.reversal.wake_at) == (
        ReversalState.MOVED_AFTER_ALL,
        planned,
    )


@pytest.mark.spec("S6")
def test_what_was_never_sent_has_no_end_to_put_right() -> None:
    stage = approved(needs_approval=True)
    assert "never sent" in why(stage.give(BY_HAND))
    stage.give(DecideReversal(ID, "brian", is_approved=False, four_eyes=True))
    assert "never sent" in why(stage.give(BY_HAND))
