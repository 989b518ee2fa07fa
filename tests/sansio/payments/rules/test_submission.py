"""Between sending and knowing (clause S6), and the payer's confirmation (W1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.messages.changes import (
    IntentConcluded,
    JournalEntry,
    SuspenseReason,
    SuspenseRecorded,
    TransactionAdvanced,
)
from mmo_sansio.messages.inputs import BeginSubmission, Input, MarkRestored, WithheldReason
from mmo_sansio.messages.intents import DeliverCallback, IntentKind, PollEnded, SubmitToProvider
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.answers import answers_ended_poll
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.rules.timers import FINAL_POLL_BEFORE_EXPIRY
from mmo_sansio.testing import (
    PROVIDER_TITLE,
    REFERENCE,
    START,
    a_begin_submission,
    a_confirmation,
    a_stop,
    a_transaction,
    a_wake,
    accepted,
    failed,
    hinted,
    ledger_with,
    never_received,
    unreachable,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, earlier, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Evidence, Progress, ProviderData, Source, Stage, Transaction

NOW = later(START, Span(5 * SECOND))
EXPIRES = later(START, Span(3 * DAY))
DATA = ProviderData("test", PROVIDER_TITLE)
WITHDRAWN = IntentConcluded((REFERENCE, IntentKind.SUBMIT))


def decided(before: Transaction | None, given: Input, *, now: Instant = NOW) -> Decision:
    return decide(ledger_with() if before is None else ledger_with(before), given, now=now)


def moved(before: Transaction, given: Input, *, now: Instant = NOW) -> Progress:
    decision = decided(before, given, now=now)
    assert isinstance(decision.reply, Applied), decision.reply
    step = decision.changes[0]
    assert isinstance(step, TransactionAdvanced)
    assert step.after == decision.reply.transaction
    return step.after.progress


def why_ignored(before: Transaction | None, given: Input, *, now: Instant = NOW) -> str:
    decision = decided(before, given, now=now)
    assert decision.changes == ()
    assert decision.intents == ()
    assert isinstance(decision.reply, Ignored)
    return decision.reply.reason


@pytest.mark.spec("S6", "T3")
def test_a_submission_is_on_record_before_the_request_leaves() -> None:
    decision = decided(a_transaction(polls=7), a_begin_submission())
    step, withdrawn, line = decision.changes
    assert isinstance(step, TransactionAdvanced)
    assert withdrawn == WITHDRAWN
    assert isinstance(line, JournalEntry)
    assert decision.intents == ()
    assert step.after.progress == Progress(
        Stage.SUBMITTING,
        2,
        later(NOW, SUBMISSION_TIMEOUT),
        polls=0,
        provider_data=DATA,
        submitted_at=NOW,
        submissions=1,
        sent_version=2,
    )


@pytest.mark.spec("S6")
def test_a_submission_begins_once() -> None:
    assert decided(a_transaction(Stage.SUBMITTING), a_begin_submission()) == Decision(
        Ignored("The payment was submitted before or has ended.", a_transaction(Stage.SUBMITTING))
    )
    assert (
        why_ignored(None, a_begin_submission()) == "The payment was submitted before or has ended."
    )


@pytest.mark.spec("S3", "S6")
def test_nothing_is_submitted_from_the_moment_of_expiry() -> None:
    before = a_transaction()
    for now in (EXPIRES, EXPIRES + 1):
        over = Decision(Ignored("Its time is over.", before))
        assert decided(before, a_begin_submission(), now=Instant(now)) == over


@pytest.mark.spec("S3", "S6")
def test_nothing_is_submitted_that_would_expire_in_flight() -> None:
    last = earlier(EXPIRES, SUBMISSION_TIMEOUT)
    assert moved(a_transaction(), a_begin_submission(), now=last).wake_at == EXPIRES
    withheld = moved(a_transaction(), a_begin_submission(), now=later(last, Span(1)))
    assert (withheld.stage, withheld.error_code) == (Stage.FAILED, ErrorCode.PROVIDER_UNAVAILABLE)
    assert (withheld.completion_source, withheld.submissions) == (Source.EXPIRY, 0)


ENDED_WITHOUT_A_WORD = [
    a_transaction(Stage.FAILED, completion_source=Source.EXPIRY),
    a_transaction(Stage.FAILED, completion_source=Source.MANUAL),
    a_transaction(Stage.SUCCEEDED, completion_source=Source.MANUAL),
]


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize(
    "before", ENDED_WITHOUT_A_WORD, ids=["expired", "failed by hand", "success by hand"]
)
def test_an_acceptance_after_the_end_keeps_the_operators_id_and_asks_once(
    before: Transaction,
) -> None:
    decision = decided(before, accepted(provider_reference="ws_CO_1", poll_after=MINUTE))
    noted, _ = decision.changes
    assert isinstance(noted, SuspenseRecorded)
    assert (noted.reason, noted.gateway_reference) == (SuspenseReason.LATE_RESULT, REFERENCE)
    assert json.loads(noted.content) == {
        "result": "accepted",
        "source": "poll",
        "providerReference": "ws_CO_1",
    }
    assert decision.intents == (PollEnded(REFERENCE, NOW, provider_reference="ws_CO_1"),)
    answer = accepted(
        provider_reference="ws_CO_1"
    )  # Of a payment that has ended it names no next poll.
    assert decided(before, answer) == Decision(
        Ignored("No such payment waits for this provider.", before)
    )


@pytest.mark.spec("S5")
def test_an_acceptance_after_the_operators_own_result_says_nothing() -> None:
    for stage in (Stage.SUCCEEDED, Stage.FAILED):
        given = accepted(provider_reference="ws_CO_1", poll_after=MINUTE)
        assert (
            why_ignored(a_transaction(stage), given) == "No such payment waits for this provider."
        )
    never_sent = a_transaction(Stage.FAILED, completion_source=Source.EXPIRY, provider_data=None)
    assert why_ignored(never_sent, given) == "No such payment waits for this provider."


@pytest.mark.spec("S6")
def test_patience_with_a_submission() -> None:
    assert SUBMISSION_TIMEOUT == 30 * SECOND


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("ask_after", "wait"),
    [(None, 2 * SECOND), (MINUTE, MINUTE), (9 * DAY, EXPIRES - FINAL_POLL_BEFORE_EXPIRY - NOW)],
    ids=["usual", "its own", "beyond the last question"],
)
def test_an_accepted_payment_is_asked_for_in_time(ask_after: int | None, wait: Span) -> None:
    before = a_transaction(Stage.SUBMITTING, polls=3)
    given = accepted(provider_reference="PROV-1", poll_after=ask_after)
    assert moved(before, given) == Progress(
        Stage.AWAITING_RESULT,
        3,
        later(NOW, wait),
        polls=3,
        provider_reference="PROV-1",
        provider_data=DATA,
        submitted_at=START,
        sent_version=2,
    )
    assert decided(before, given).intents == ()


WAITING = a_transaction(
    Stage.AWAITING_RESULT, provider_reference="PROV-1", wake_at=NOW + HOUR, polls=4
)


def test_still_pending_changes_nothing() -> None:
    assert why_ignored(WAITING, accepted()) == "Still pending."
    assert why_ignored(WAITING, accepted(provider_reference="PROV-1")) == "Still pending."
    assert decided(WAITING, accepted()).reply == Ignored("Still pending.", WAITING)


def test_a_new_provider_reference_is_put_on_record() -> None:
    progress = moved(WAITING, accepted(provider_reference="PROV-2"))
    assert progress.provider_reference == "PROV-2"
    assert (progress.stage, progress.wake_at, progress.polls) == (
        Stage.AWAITING_RESULT,
        NOW + HOUR,
        4,
    )


def test_a_provider_may_ask_for_another_moment() -> None:
    progress = moved(WAITING, accepted(poll_after=3 * HOUR))
    assert progress.wake_at == NOW + 3 * HOUR
    assert progress.provider_reference == "PROV-1"


@pytest.mark.spec("S6")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)
@pytest.mark.parametrize(
    ("polls", "due_in", "wait"),
    [(0, HOUR, 2 * SECOND), (3, HOUR, 16 * SECOND), (11, 2 * HOUR, HOUR), (3, SECOND, SECOND)],
    ids=["first", "fourth", "longest", "sooner already"],
)
def test_an_unknown_outcome_is_asked_for_soon(
    stage: Stage, polls: int, due_in: int, wait: int
) -> None:
    before = a_transaction(stage, polls=polls, wake_at=NOW + due_in)
    progress = moved(before, unreachable())
    assert (progress.stage, progress.wake_at, progress.polls) == (stage, NOW + wait, polls)
    assert decided(before, unreachable()).intents == ()


@pytest.mark.spec("S6")
def test_what_was_never_received_is_submitted_again() -> None:
    before = a_transaction(Stage.SUBMITTING, polls=2, version=6)
    decision = decided(before, never_received(version=6))
    assert decision.intents == (SubmitToProvider(REFERENCE),)
    step, line = decision.changes
    assert isinstance(step, TransactionAdvanced)
    assert isinstance(line, JournalEntry)
    assert line.at == NOW
    assert step.after.progress == Progress(
        Stage.CREATED,
        7,
        EXPIRES,
        polls=2,
        provider_data=DATA,
        submitted_at=START,
        sent_version=2,
    )


@pytest.mark.spec("S6")
@pytest.mark.parametrize("version", [1, 4])
def test_an_answer_to_an_old_question_does_not_undo_a_submission(version: int) -> None:
    before = a_transaction(Stage.SUBMITTING, version=6, sent_version=5)
    why = why_ignored(before, never_received(version=version))
    assert why == "The payment was submitted again since the provider was polled."
    assert decided(before, never_received(version=version)).reply == Ignored(why, before)


@pytest.mark.spec("S6")
def test_a_creation_in_doubt_is_submitted_although_its_payment_was_polled_earlier() -> None:
    """The store, which did not tell whether the creation is durable, let no report in for half a
    minute."""
    before = a_transaction(Stage.SUBMITTING, version=2, polls=1, sent_version=1)
    assert decided(before, never_received(version=1)).intents == (SubmitToProvider(REFERENCE),)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("stage", [each for each in Stage if each is not Stage.SUBMITTING], ids=str)
def test_never_received_means_nothing_elsewhere(stage: Stage) -> None:
    before = a_transaction(stage)
    why = why_ignored(before, never_received(version=before.progress.version))
    assert why == "No such payment waits for this provider."


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "given",
    [accepted(), unreachable(), never_received(version=1)],
    ids=["accepted", "lost", "never"],
)
def test_what_was_not_submitted_is_not_moved_by_reports(given: Input) -> None:
    assert why_ignored(a_transaction(), given) == "No such payment waits for this provider."


@pytest.mark.spec("W1")
def test_a_confirmed_page_wants_to_be_submitted() -> None:
    before = a_transaction(Stage.AWAITING_CUSTOMER)
    decision = decided(before, a_confirmation())
    assert decision.intents == (SubmitToProvider(REFERENCE),)
    assert moved(before, a_confirmation()) == Progress(
        Stage.CREATED, 2, later(START, Span(30 * MINUTE))
    )
    assert WITHDRAWN not in decision.changes


@pytest.mark.spec("W1")
def test_a_page_closes() -> None:
    before = a_transaction(Stage.AWAITING_CUSTOMER)
    closes = later(START, Span(30 * MINUTE))
    assert moved(before, a_confirmation(), now=earlier(closes, Span(1))).stage is Stage.CREATED
    for now in (closes, closes + 1):
        assert decided(before, a_confirmation(), now=Instant(now)) == Decision(
            Ignored("The page has closed.", before)
        )


@pytest.mark.spec("W1")
def test_a_second_press_does_nothing() -> None:
    page = a_transaction(Stage.AWAITING_CUSTOMER).order.page
    before = a_transaction(Stage.CREATED, page=page)
    assert decided(before, a_confirmation()) == Decision(
        Ignored("The payment was confirmed before or has ended.", before)
    )


@pytest.mark.spec("W1")
@pytest.mark.parametrize("before", [None, a_transaction()], ids=["unknown", "direct"])
def test_without_a_page_there_is_nothing_to_confirm(before: Transaction | None) -> None:
    assert decided(before, a_confirmation()) == Decision(
        Ignored("There is no hosted page for this reference.")
    )


@pytest.mark.spec("S6")
def test_since_when_an_accepted_payment_is_not_found_counts_from_the_first_such_answer() -> None:
    before = a_transaction(Stage.AWAITING_RESULT)
    assert moved(before, unreachable()).denied_since is None
    assert moved(before, unreachable(denies_payment=True)).denied_since == NOW
    known = a_transaction(Stage.AWAITING_RESULT, denied_since=START)
    assert moved(known, unreachable(denies_payment=True)).denied_since == START
    assert moved(known, unreachable()).denied_since == START
    assert moved(known, accepted()).denied_since is None
    assert moved(known, accepted(poll_after=HOUR)).denied_since is None


DOUBTFUL = Evidence("MP1", "TS")
"""What an answer says of a success of which something else can't be used."""


@pytest.mark.spec("S5", "S6")
def test_a_success_that_cannot_be_used_as_it_is_is_kept_and_told_to_a_person_after_an_hour() -> (
    None
):
    gateway = Gateway()
    gateway.ledger = ledger_with(a_transaction(Stage.AWAITING_RESULT, wake_at=NOW))
    gateway.receive(unreachable(evidence=DOUBTFUL), now=NOW)
    kept = gateway.transaction(REFERENCE).progress.evidence
    assert kept is not None
    assert (kept.receipt, kept.settles, kept.is_denied) == ("MP1", False, True)
    gateway.receive(failed(), now=NOW)
    assert gateway.transaction(REFERENCE).progress.stage is Stage.AWAITING_RESULT
    assert gateway.suspense == []
    gateway.receive(unreachable(evidence=DOUBTFUL), now=later(NOW, HOUR))
    (entry,) = gateway.suspense
    assert entry.reason is SuspenseReason.UNCONFIRMED_RECEIPT
    assert json.loads(entry.content)["providerReference"] == "MP1"


@pytest.mark.spec("S5")
def test_a_success_that_cannot_be_used_of_a_payment_that_has_failed_is_told_to_a_person() -> None:
    for stage, entries in ((Stage.FAILED, 1), (Stage.SUCCEEDED, 0)):
        decision = decided(a_transaction(stage), unreachable(evidence=DOUBTFUL))
        told = [each for each in decision.changes if isinstance(each, SuspenseRecorded)]
        assert len(told) == entries
    assert answers_ended_poll(unreachable(evidence=DOUBTFUL), "hint")


@pytest.mark.spec("S3", "S5")
def test_one_of_which_only_questions_tell_is_asked_after_its_expiry_until_it_has_a_result() -> None:
    told_when_asked = accepted(is_told_when_asked=True)
    assert moved(WAITING, told_when_asked).is_told_when_asked
    known = evolve(WAITING, progress=evolve(WAITING.progress, is_told_when_asked=True))
    assert moved(known, accepted(provider_reference="PROV-2")).is_told_when_asked
    assert answers_ended_poll(accepted(), None)
    assert not answers_ended_poll(told_when_asked, None)
    assert answers_ended_poll(failed(), None)


def test_submissions_are_counted() -> None:
    first = decide(ledger_with(a_transaction()), a_begin_submission(), now=START)
    assert isinstance(first.reply, Applied)
    assert not first.reply.transaction.progress.is_resubmission
    before = a_transaction(
        provider_data=ProviderData("test", "Test Money"), submissions=1, version=3
    )
    again = decide(ledger_with(before), a_begin_submission(), now=START)
    assert isinstance(again.reply, Applied)
    assert again.reply.transaction.progress.is_resubmission


@pytest.mark.spec("S6")
@pytest.mark.parametrize("polls", [0, 1])
@pytest.mark.parametrize("is_own_answer", [True, False])
def test_a_submission_that_certainly_never_left_counts_for_nothing(
    polls: int, is_own_answer: bool
) -> None:
    """Only a poll can have denied one that may have arrived."""
    before = a_transaction(Stage.SUBMITTING, submissions=1, polls=polls, version=3)
    sent_back = decided(before, never_received(version=2 if is_own_answer else 3)).reply
    assert isinstance(sent_back, Applied)
    again = moved(sent_back.transaction, a_begin_submission())
    assert (again.is_resubmission, again.submissions) == (not is_own_answer, 2)


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize("polls", [0, 1])
@pytest.mark.parametrize(
    "told", [hinted(content="id 1"), hinted(content="id 1", evidence=Evidence("RECEIPT1", "0"))]
)
def test_nothing_is_sent_again_that_a_notification_has_named(told: Input, polls: int) -> None:
    """The provider's "never received" left before the notification came, and speaks of this
    submission."""
    before = a_transaction(Stage.SUBMITTING, polls=polls, wake_at=later(NOW, HOUR))
    hint = decided(before, told).reply
    assert isinstance(hint, Applied)
    version = hint.transaction.progress.version
    for denied in (never_received(version=version), never_received(version=2)):
        decision = decided(hint.transaction, denied)
        assert isinstance(decision.reply, Applied)
        progress = decision.reply.transaction.progress
        assert (progress.stage, progress.hint, decision.intents) == (Stage.SUBMITTING, "id 1", ())
        assert progress.wake_at is not None
        assert NOW < progress.wake_at <= later(NOW, HOUR)


@pytest.mark.parametrize("given", [a_begin_submission(), a_stop()], ids=["begin", "stop"])
def test_a_payment_of_a_brand_on_hold_fails_before_it_is_submitted(given: Input) -> None:
    before = a_transaction()
    ledger = ledger_with(before)
    ledger.held_brands = frozenset({"acme"})
    decision = decide(ledger, given, now=NOW)
    step, withdrawn, _ = decision.changes
    assert isinstance(step, TransactionAdvanced)
    assert withdrawn == WITHDRAWN
    after = step.after.progress
    assert (after.stage, after.error_code) == (Stage.FAILED, ErrorCode.PAYMENT_STOPPED)
    assert (after.completed_at, after.completion_source, after.provider_data) == (
        NOW,
        Source.MANUAL,
        None,
    )
    assert decision.intents == (DeliverCallback(REFERENCE),)


def test_another_brand_is_not_on_hold() -> None:
    ledger = ledger_with(a_transaction())
    ledger.held_brands = frozenset({"duka"})
    reply = decide(ledger, a_begin_submission(), now=NOW).reply
    assert isinstance(reply, Applied)
    assert reply.transaction.progress.stage is Stage.SUBMITTING


@pytest.mark.parametrize(
    "stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT, Stage.SUCCEEDED, Stage.FAILED]
)
def test_a_hold_leaves_what_was_submitted(stage: Stage) -> None:
    assert why_ignored(a_transaction(stage), a_stop())
    assert why_ignored(None, a_stop())


def test_a_page_of_a_brand_on_hold_is_closed() -> None:
    progress = moved(a_transaction(Stage.AWAITING_CUSTOMER), a_stop())
    assert (progress.stage, progress.error_code) == (Stage.FAILED, ErrorCode.PAYMENT_STOPPED)


@pytest.mark.spec("E1", "S2")
@pytest.mark.parametrize(
    ("reason", "source"),
    [(WithheldReason.PROVIDER_CLOSED, Source.MANUAL), (WithheldReason.TOO_LATE, Source.EXPIRY)],
)
def test_what_the_gateway_does_not_send_fails_without_a_word_of_the_provider(
    reason: WithheldReason, source: Source
) -> None:
    decision = decided(a_transaction(), BeginSubmission(REFERENCE, reason))
    step, withdrawn, entry = decision.changes
    assert isinstance(step, TransactionAdvanced)
    assert isinstance(entry, JournalEntry)
    assert withdrawn == WITHDRAWN
    after = step.after.progress
    assert (after.stage, after.error_code) == (Stage.FAILED, ErrorCode.PROVIDER_UNAVAILABLE)
    assert (after.completion_source, after.submissions, after.provider_data) == (source, 0, None)
    assert (entry.actor, json.loads(entry.detail)) == ("gateway", {"withheld": reason})
    assert decision.intents == (DeliverCallback(REFERENCE),)


RESTORED = MarkRestored(REFERENCE, "ada")


@pytest.mark.spec("S6", "C6")
@pytest.mark.parametrize("stage", [Stage.CREATED, Stage.AWAITING_CUSTOMER])
def test_what_was_not_sent_in_the_backup_may_have_been_sent_since(stage: Stage) -> None:
    was = a_transaction(stage)
    marked = moved(was, RESTORED)
    assert (marked.stage, marked.provider_data, marked.submitted_at) == (
        Stage.SUBMITTING,
        DATA,
        NOW,
    )
    assert marked.wake_at is not None
    assert marked.wake_at < later(NOW, Span(MINUTE)), "it is asked about soon"
    assert (WITHDRAWN in decided(was, RESTORED).changes) == (stage is Stage.CREATED)
    after = Transaction(was.order, marked)
    assert why_ignored(after, a_begin_submission())
    assert why_ignored(after, a_confirmation())
    assert why_ignored(after, a_stop()), "nor is it told as failed, as its brand is on hold"
    assert why_ignored(after, RESTORED)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "stage", [Stage.CREATED, Stage.AWAITING_CUSTOMER, Stage.SUBMITTING, Stage.AWAITING_RESULT]
)
def test_a_payment_of_a_restored_store_is_never_sent_again(stage: Stage) -> None:
    marked = moved(a_transaction(stage), RESTORED)
    after = Transaction(a_transaction(stage).order, marked)
    decision = decided(after, never_received(version=marked.version))
    assert decision.intents == ()
    if isinstance(decision.reply, Applied):
        assert decision.reply.transaction.progress.stage is Stage.SUBMITTING, (
            "it is asked about again"
        )


@pytest.mark.spec("S3", "S5")
def test_a_payment_that_has_expired_since_the_backup_is_asked_about_once_more() -> None:
    now = later(EXPIRES, Span(DAY))
    marked = moved(a_transaction(Stage.CREATED), RESTORED, now=now)
    expired = decided(Transaction(a_transaction(Stage.CREATED).order, marked), a_wake(), now=now)
    assert PollEnded(REFERENCE, now) in expired.intents


@pytest.mark.spec("S1")
@pytest.mark.parametrize("stage", [Stage.SUCCEEDED, Stage.FAILED])
def test_what_had_ended_in_the_backup_stays_as_it_ended(stage: Stage) -> None:
    assert why_ignored(a_transaction(stage), RESTORED)


@pytest.mark.spec("S6")
def test_the_repetition_of_an_attempt_is_answered_like_the_attempt_and_changes_nothing() -> None:
    before = a_transaction(Stage.CREATED)
    attempt = BeginSubmission(REFERENCE, attempt="a")
    begun = decided(before, attempt)
    assert isinstance(begun.reply, Applied)
    recorded = begun.reply.transaction
    again = decided(recorded, attempt, now=later(START, HOUR))
    assert (again.reply, again.changes, again.intents) == (Applied(recorded), (), ())


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("repeated", "members"),
    [
        (BeginSubmission(REFERENCE, attempt="b"), {"attempt": "a"}),
        (BeginSubmission(REFERENCE), {}),
        (BeginSubmission(REFERENCE, attempt="a"), {"attempt": "a", "is_restored": True}),
    ],
    ids=["another process", "without a name", "restored since"],
)
def test_no_other_attempt_may_send_what_is_on_record_as_submitted(
    repeated: BeginSubmission, members: dict[str, Any]
) -> None:
    assert isinstance(decided(a_transaction(Stage.SUBMITTING, **members), repeated).reply, Ignored)
