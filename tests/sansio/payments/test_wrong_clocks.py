"""A wall clock that is wrong changes what is recorded, and nothing that is decided (S3)."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest
from attrs import evolve, fields
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmo_sansio.messages.changes import (
    CallbackRecorded,
    Change,
    JournalEntry,
    QrRecorded,
    SuspenseRecorded,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.inputs import (
    CorrectTimes,
    ProviderFailed,
    ProviderSucceeded,
    TransactionWoke,
)
from mmo_sansio.messages.replies import Accepted, Applied, Ignored, Reply
from mmo_sansio.payments import misdated
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.misdated import is_misdated
from mmo_sansio.resilience.clock_guard import ClockGuard, ClockRecord
from mmo_sansio.testing import (
    REFERENCE,
    START,
    FakeProvider,
    World,
    a_deposit,
    a_transaction,
    does_not_answer,
    ledger_with,
    numbered_reference,
    succeeds,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Moment, MonotonicInstant, Span, earlier, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    DepositClaim,
    DepositTrust,
    Evidence,
    Order,
    Page,
    Progress,
    Source,
    Stage,
    Transaction,
)
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_sansio.values.reversals import Reversal, ReversalState
from tests.sansio.payments.test_decide_properties import Stamped, histories
from tests.support.reversals import a_reversal

TIMEOUT = 3 * clock.DAY

spans = st.integers(1, 2 * clock.DAY)
steps = st.one_of(st.just(0), st.integers(-9 * clock.DAY, 9 * clock.DAY))


@pytest.mark.spec("S3")
@given(st.lists(st.tuples(spans, steps, st.booleans()), min_size=1, max_size=8), st.booleans())
@example([(1, -262_800_000_001, True)], False)
@settings(max_examples=60, deadline=None)
def test_every_payment_stays_pending_for_three_true_days_and_an_hour_at_most(
    history: list[tuple[int, int, bool]], is_silent: bool
) -> None:
    """Whatever the wall clock does. Each entry: how much true time passes, how the wall clock steps
    then, and whether the process is killed and started again on the same machine. The boot clock
    counts true time."""
    provider = FakeProvider(on_poll=(does_not_answer,)) if is_silent else FakeProvider()
    world = World(provider)
    true, wall = MonotonicInstant(7), START
    guard = ClockGuard(wall=wall, monotonic=true)
    created: dict[str, MonotonicInstant] = {}
    ended: dict[str, int] = {}
    for number, (passes, step, restarts) in enumerate([*history, (4 * clock.DAY, 0, False)]):
        world.create(numbered_reference(number), merchant_reference=f"order-{number}")
        created[numbered_reference(number)] = true
        true, wall = later(true, Span(passes)), later(wall, Span(passes + step))
        until = later(Instant(true), guard.time_ahead)
        while (
            world.now < until
        ):  # A world settles within so many steps, whatever the number of payments.
            world.advance(Span(min(6 * clock.HOUR, until - world.now)))
        for (
            line
        ) in world.gateway.journal:  # A payment's own completedAt is never before its createdAt.
            if line.gateway_reference is not None and line.stage_after in (
                Stage.SUCCEEDED,
                Stage.FAILED,
            ):
                ended.setdefault(line.gateway_reference, line.at - guard.utc_ahead)
        if restarts:
            record = ClockRecord("boot", true, world.now, later(Instant(true), guard.utc_ahead))
            guard = ClockGuard(wall=wall, monotonic=true)
            guard.continue_from(record, boot_id="boot", monotonic=true)
            world.crash()
        guard.observe(wall=wall, monotonic=true)
        world.utc_offset = guard.utc_offset
    for reference in [numbered_reference(number) for number in range(len(history))]:
        assert TIMEOUT <= ended[reference] - created[reference] <= TIMEOUT + clock.HOUR


@pytest.mark.spec("S3", "C12")
@given(histories(), steps)
@settings(max_examples=100, deadline=None)
def test_wall_time_decides_nothing(history: list[Stamped], offset: int) -> None:
    true, wrong = Ledger(), Ledger()
    for each, now in history:
        expected = decide(true, each, now=now)
        decision = decide(wrong, each, now=now, utc=later(now, Span(offset)))
        true.apply(expected.changes, expected.intents)
        wrong.apply(decision.changes, decision.intents)
        assert _redated(decision, Span(offset)) == expected


def _redated(decision: Decision, by: Span) -> Decision:
    """Return the decision as it would be with wall time this much earlier."""
    return evolve(
        decision,
        reply=_redated_reply(decision.reply, by),
        changes=tuple(_redated_change(each, by) for each in decision.changes),
    )


def _redated_reply(reply: Reply, by: Span) -> Reply:
    match reply:
        case Accepted(order):
            return evolve(reply, order=_redated_order(order, by))
        case Applied(transaction) | Ignored(_, Transaction() as transaction):
            return evolve(reply, transaction=_redated_transaction(transaction, by))
        case _:
            return reply


def _redated_change(change: Change, by: Span) -> Change:
    match change:
        case TransactionCreated(transaction):
            return TransactionCreated(_redated_transaction(transaction, by))
        case TransactionAdvanced(before, after):
            return TransactionAdvanced(
                _redated_transaction(before, by), _redated_transaction(after, by)
            )
        case JournalEntry() | CallbackRecorded() | QrRecorded() | SuspenseRecorded():
            return evolve(change, at=earlier(change.at, by))
        case _:
            return change


def _redated_order(order: Order, by: Span) -> Order:
    assert order.utc_offset == by
    assert order.created_at == order.to_utc(order.accepted_at)
    return evolve(order, created_at=earlier(order.created_at, by), utc_offset=Span(0))


def _redated_transaction(transaction: Transaction, by: Span) -> Transaction:
    completed_at = transaction.progress.completed_at
    progress = evolve(
        transaction.progress,
        completed_at=None if completed_at is None else earlier(completed_at, by),
    )
    return Transaction(_redated_order(transaction.order, by), progress)


NOW = Moment(later(START, clock.HOUR), later(START, clock.HOUR))
AHEAD = Span(4 * clock.DAY)


def corrected(world: World, *, now: Moment = NOW) -> Transaction:
    reply = world.gateway.receive(CorrectTimes(REFERENCE, "ada"), now=now.time, utc=now.utc)
    assert isinstance(reply, Applied)
    return reply.transaction


def test_a_payment_of_a_wrong_clock_gets_the_time_at_which_it_was_really_taken() -> None:
    right, wrong = (
        World(FakeProvider(on_poll=(succeeds,))),
        World(FakeProvider(on_poll=(succeeds,))),
    )
    wrong.utc_offset = AHEAD
    for world in (right, wrong):
        world.create()
        world.run()
    assert wrong.transaction().order.created_at - right.transaction().order.created_at == AHEAD
    assert is_misdated(wrong.transaction(), now=NOW)
    after = corrected(wrong)
    assert after == evolve(
        right.transaction(),
        progress=evolve(right.transaction().progress, version=after.progress.version),
    )
    assert not is_misdated(after, now=NOW)


def test_a_payment_stamped_in_the_future_ends_three_days_after_its_correction() -> None:
    world = World(now=later(START, AHEAD))
    world.create()
    world.settle()
    after = corrected(world)
    assert after.progress.stage is Stage.AWAITING_RESULT
    assert after.order.created_at == after.order.accepted_at == NOW.utc
    assert after.order.expires_at == NOW.time + TIMEOUT
    assert after.progress.wake_at is not None
    assert NOW.time < after.progress.wake_at <= NOW.time + clock.HOUR


DATED = (Order, Page, Progress, Evidence, OpenUrl, EnterCode, Reversal, DepositClaim)


@pytest.mark.spec("S3")
@pytest.mark.parametrize("kind", DATED, ids=lambda kind: kind.__name__)
def test_every_time_of_a_payment_a_reversal_and_a_claim_is_one_that_is_corrected(
    kind: type,
) -> None:
    hints = get_type_hints(kind)
    dated = {
        member.name
        for member in fields(kind)
        if not _types_in(hints[member.name]).isdisjoint({Instant, *DATED})
    }
    own, wall = misdated.OWN_TIMES[kind], misdated.WALL_TIMES.get(kind, ())
    assert dated == {*own, *wall}
    assert len(own) + len(wall) == len(dated)


def _types_in(annotation: Any) -> set[Any]:
    """Return a type and all that it holds, such as of `tuple[Instant, ...]`."""
    return {annotation}.union(*(_types_in(part) for part in get_args(annotation)))


def test_each_own_time_is_shifted() -> None:
    progress = evolve(
        a_transaction(Stage.AWAITING_RESULT).progress,
        wake_at=START,
        submitted_at=START,
        denied_since=START,
        receipt_awaited_since=START,
        answered=(START, START),
        evidence=Evidence("R1", "0", reported_at=START),
        payer_action=EnterCode(ends_at=START),
    )
    after, earlier_by_a_day = misdated.shifted(progress, Span(clock.DAY)), earlier(START, clock.DAY)
    assert (after.wake_at, after.submitted_at, after.denied_since) == (earlier_by_a_day,) * 3
    assert after.receipt_awaited_since == earlier_by_a_day
    assert after.answered == (earlier_by_a_day, earlier_by_a_day)
    assert after.evidence is not None
    assert after.evidence.reported_at == earlier_by_a_day


@pytest.mark.spec("S3")
def test_a_payment_that_waits_for_its_receipt_waits_no_longer_for_a_wrong_clock() -> None:
    ahead = later(START, AHEAD)
    before = a_transaction(
        Stage.AWAITING_RESULT, receipt_awaited_since=ahead, wake_at=later(ahead, clock.MINUTE)
    )
    order = evolve(before.order, created_at=ahead)
    wrong = evolve(before, order=order)
    decision = decide(ledger_with(wrong), CorrectTimes(REFERENCE, "ada"), now=NOW.time)
    (change,) = [each for each in decision.changes if isinstance(each, TransactionAdvanced)]
    assert change.after.progress.receipt_awaited_since == NOW.time
    assert change.after.progress.wake_at == later(NOW.time, clock.MINUTE)


PAST = later(START, clock.MINUTE)


@pytest.mark.spec("S3", "S6")
@pytest.mark.parametrize(
    "wrong",
    [
        {"asked_at": later(START, AHEAD), "due_since": later(START, AHEAD)},
        {"sent_at": later(START, AHEAD), "wake_at": later(START, Span(AHEAD + clock.MINUTE))},
        {"due_since": PAST, "sent_at": PAST, "wake_at": later(START, AHEAD)},
        {
            "state": ReversalState.FAILED,
            "ended_at": later(START, AHEAD),
            "wake_at": later(START, AHEAD),
        },
    ],
    ids=["asked for", "sent", "asked about", "ended"],
)
def test_a_reversal_of_a_right_payment_that_a_wrong_clock_has_dated_goes_on_soon(
    wrong: dict[str, Any],
) -> None:
    payment = a_transaction(Stage.SUCCEEDED)
    reversals = (
        a_reversal(payment, wake_at=PAST),
        a_reversal(payment, **{"number": 2, "wake_at": PAST, **wrong}),
        a_reversal(payment, **{"number": 3, "wake_at": PAST, **wrong}),
    )
    ledger = ledger_with(payment)
    ledger.reversals[REFERENCE] = reversals
    decision = decide(ledger, CorrectTimes(REFERENCE, "ada"), now=NOW.time)
    ledger.apply(decision.changes)
    first, *corrected = ledger.reversals[REFERENCE]
    assert first == reversals[0]
    for before, after in zip(reversals[1:], corrected, strict=True):
        assert after.version == before.version + 1
        assert (after.state, after.amount) == (before.state, before.amount)
        for name in misdated.WALL_TIMES[Reversal]:
            assert getattr(after, name) is None or getattr(after, name) <= NOW.utc
        for past in (after.due_since, after.sent_at):
            assert past is None or past <= NOW.time
        assert after.wake_at is not None
        assert after.wake_at <= later(NOW.time, clock.HOUR)
        assert not misdated.is_reversal_misdated(after, now=NOW)
    again = decide(ledger, CorrectTimes(REFERENCE, "ada"), now=NOW.time)
    assert again == Decision(Ignored("Its times are right.", payment))


@pytest.mark.spec("S3", "S4")
def test_a_claim_of_a_deposit_that_a_wrong_clock_has_dated_is_asked_about_soon() -> None:
    gateway, ahead = Gateway(), later(START, AHEAD)
    notified = a_deposit(provider_reference="RCPT1", trust=DepositTrust.UNCONFIRMED, payment=None)
    gateway.receive(notified, now=ahead)
    (claim,) = gateway.ledger.claims.values()
    key = (claim.provider, claim.receipt)
    for _ in range(2):
        gateway.receive(CorrectTimes(claim.gateway_reference, "ada", key), now=NOW.time)
    (corrected,) = gateway.ledger.claims.values()
    by = Span(ahead - NOW.time)
    assert claim.wake_at is not None
    assert corrected == evolve(
        claim,
        version=claim.version + 1,
        received_at=NOW.time,
        expires_at=earlier(claim.expires_at, by),
        wake_at=earlier(claim.wake_at, by),
    )


def test_times_that_are_right_are_not_corrected() -> None:
    before = a_transaction(Stage.AWAITING_RESULT)
    reply = decide(ledger_with(before), CorrectTimes(REFERENCE, "ada"), now=START)
    assert reply == Decision(Ignored("Its times are right.", before))
    assert decide(ledger_with(), CorrectTimes(REFERENCE, "ada"), now=START) == Decision(
        Ignored("There is no such transaction.")
    )


@pytest.mark.spec("T2", "S3")
@pytest.mark.parametrize(
    "end",
    [
        ProviderSucceeded(REFERENCE, "sandbox", Source.WEBHOOK, "P1"),
        ProviderFailed(REFERENCE, "sandbox", Source.WEBHOOK, ErrorCode.USER_CANCELLED),
        TransactionWoke(REFERENCE),
    ],
    ids=lambda end: type(end).__name__,
)
def test_a_payment_that_a_clock_ahead_has_dated_completes_at_its_creation_at_the_earliest(
    end: ProviderSucceeded | ProviderFailed | TransactionWoke,
) -> None:
    payment = a_transaction(Stage.AWAITING_RESULT)
    now = later(START, Span(TIMEOUT + clock.HOUR))
    if not isinstance(end, TransactionWoke):
        end = evolve(end, provider=payment.order.provider)
    decision = decide(
        ledger_with(payment), end, now=now, utc=earlier(payment.order.created_at, clock.HOUR)
    )
    (advanced,) = [each.after for each in decision.changes if isinstance(each, TransactionAdvanced)]
    assert advanced.progress.stage.is_terminal
    assert advanced.progress.completed_at == payment.order.created_at
