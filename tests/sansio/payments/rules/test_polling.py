"""Hints and silence: an unsigned notification only makes us ask, and where nobody can be asked a
person decides."""

from __future__ import annotations

import pytest

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded, TransactionAdvanced
from mmo_sansio.messages.inputs import EndedPollConcluded, Input, ProviderAccepted, ProviderReport
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.testing import (
    REFERENCE,
    START,
    FakeProvider,
    World,
    a_transaction,
    accepted,
    accepts,
    cannot_tell,
    does_not_answer,
    hinted,
    ledger_with,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, later
from mmo_sansio.values.model import Source, Stage, Status, Transaction

NOW = later(START, MINUTE)
EXPIRES = START + 3 * DAY
ASK = (PollEnded(REFERENCE, NOW),)


def decided(before: Transaction | None, given: Input, *, now: Instant = NOW) -> Decision:
    return decide(ledger_with() if before is None else ledger_with(before), given, now=now)


def moved(decision: Decision) -> Transaction:
    step = decision.changes[0]
    assert isinstance(step, TransactionAdvanced)
    return step.after


def kept_as(decision: Decision) -> SuspenseReason:
    noted = decision.changes[0]
    assert isinstance(noted, SuspenseRecorded)
    assert decision.intents == ()
    return noted.reason


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)
def test_a_hint_makes_us_ask_at_once_and_again_if_that_is_lost(stage: Stage) -> None:
    before = a_transaction(stage, polls=3, wake_at=NOW + HOUR)
    decision = decided(before, hinted())
    assert decision.intents == (PollProvider(REFERENCE),)
    assert moved(decision).progress.stage is stage
    assert moved(decision).progress.wake_at == NOW + 2 * SECOND


@pytest.mark.spec("S6")
def test_a_flood_of_hints_asks_once() -> None:
    before = moved(decided(a_transaction(Stage.AWAITING_RESULT, wake_at=NOW + HOUR), hinted()))
    assert decided(before, hinted(), now=later(NOW, Span(1))).intents == ()


@pytest.mark.spec("S6")
def test_a_hint_asks_nothing_while_the_submission_may_be_under_way() -> None:
    before = a_transaction(Stage.SUBMITTING)
    assert decided(before, hinted(), now=later(START, SECOND)).intents == ()


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("stage", "source", "intents"),
    [
        (Stage.FAILED, Source.EXPIRY, ASK),
        (Stage.FAILED, Source.POLL, ASK),
        (Stage.FAILED, Source.MANUAL, ASK),
        (Stage.SUCCEEDED, Source.MANUAL, ASK),
        (Stage.SUCCEEDED, Source.POLL, ()),
    ],
)
def test_a_late_hint_asks_unless_the_provider_has_told_its_success(
    stage: Stage, source: Source, intents: tuple[PollEnded, ...]
) -> None:
    before = a_transaction(stage, completion_source=source)
    decision = decided(before, hinted())
    assert decision.intents == intents
    assert decision.changes == ()


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("hint", "provider_reference", "is_whole"),
    [
        ("PENDING\nPAID", "R1", True),
        ("PENDING\nPAID\nAGAIN", "R1", True),
        ("PENDING", "R1", False),
        ("PENDING\nPAID", "R0", False),
        (None, None, False),
    ],
)
@pytest.mark.parametrize("is_unanswered", [False, True])
def test_what_has_come_since_a_question_is_not_concluded_with_it(
    hint: str | None, provider_reference: str | None, is_whole: bool, is_unanswered: bool
) -> None:
    """Another process may have got it, and may have died since."""
    ledger = ledger_with(a_transaction(Stage.FAILED, completion_source=Source.EXPIRY))
    known = PollEnded(REFERENCE, START, "PENDING\nPAID", "R1")
    ledger.apply((), (known,))
    asked = EndedPollConcluded(REFERENCE, is_unanswered, hint, provider_reference)
    decision = decide(ledger, asked, now=NOW)
    assert decision.intents == (() if is_whole else (known,))
    assert bool(decision.changes) is is_whole


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("before", "provider", "reason"),
    [
        (None, "test", SuspenseReason.UNKNOWN_TRANSACTION),
        (a_transaction(Stage.AWAITING_RESULT), "other", SuspenseReason.WRONG_PROVIDER),
        (a_transaction(Stage.AWAITING_CUSTOMER), "test", SuspenseReason.UNKNOWN_TRANSACTION),
    ],
    ids=["unknown", "another provider's", "never sent"],
)
def test_a_hint_about_nothing_of_ours_is_kept(
    before: Transaction | None, provider: str, reason: SuspenseReason
) -> None:
    assert kept_as(decided(before, hinted(provider=provider))) is reason


@pytest.mark.spec("S6")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)
def test_who_cannot_be_asked_is_not_asked_again(stage: Stage) -> None:
    before = a_transaction(stage, polls=1)
    version = before.progress.version
    after = moved(decided(before, cannot_tell(version=version)))
    assert (after.progress.stage, after.progress.wake_at) == (stage, EXPIRES)
    assert isinstance(decided(after, cannot_tell(version=version + 1)).reply, Ignored)
    assert isinstance(decided(before, cannot_tell(provider="other")).reply, Ignored)


@pytest.mark.spec("S6")
def test_a_poll_that_did_not_know_what_the_submission_returned_does_not_end_polling() -> None:
    """The answer to the submission is recorded while the poll is under way; the provider can be
    polled from then on."""
    asked = a_transaction(Stage.SUBMITTING, polls=1)
    known = moved(decided(asked, accepted(provider_reference="ws_CO_1")))
    late = cannot_tell(version=asked.progress.version)
    assert isinstance(decided(known, late).reply, Ignored)
    assert known.progress.wake_at != EXPIRES
    assert moved(decided(asked, late)).progress.wake_at == EXPIRES


def tells_nothing(transaction: Transaction) -> ProviderReport:
    return cannot_tell(transaction.reference, version=transaction.progress.version)


@pytest.mark.spec("S3", "S6")
def test_a_submission_without_an_answer_to_one_who_cannot_be_asked_is_never_sent_again() -> None:
    world = World(FakeProvider(on_submit=(does_not_answer,), on_poll=(tells_nothing,)))
    world.create()
    world.run()
    assert world.provider.submissions == [REFERENCE]
    assert len(world.provider.polls) == 2, "at once, and once more as it expires"
    assert world.transaction().status is Status.FAILED
    assert world.transaction().progress.completion_source is Source.EXPIRY


@pytest.mark.spec("S3", "S6")
@pytest.mark.parametrize("pace", [SECOND, HOUR, 7 * HOUR, 50 * HOUR, 9 * DAY], ids=str)
def test_each_payment_is_asked_about_within_the_hour_before_it_expires(pace: Span) -> None:
    def waits(transaction: Transaction) -> ProviderReport:
        about = transaction.reference, transaction.order.provider
        return ProviderAccepted(*about, Source.POLL, poll_after=Span(max(pace, 20 * MINUTE)))

    world = World(FakeProvider(on_submit=(accepts,), on_poll=(waits,)))
    world.create()
    world.run()
    last, _ = world.provider.polls[-1]
    assert EXPIRES - HOUR <= last < EXPIRES
