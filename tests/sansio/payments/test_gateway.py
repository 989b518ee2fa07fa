"""The front door: a whole gateway in memory, and the world around it that tests drive."""

from __future__ import annotations

import pytest

from mmo_sansio.messages.intents import DeliverCallback, SubmitToProvider
from mmo_sansio.messages.replies import Accepted, Applied, Ignored, Rejected
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import (
    REFERENCE,
    START,
    UNUSED_REFERENCE,
    DidNotSettle,
    FakeProvider,
    World,
    a_begin_submission,
    a_create_payment,
    accepted,
    callback_concluded,
    never_receives,
    numbered_reference,
    succeeded,
    succeeds,
)
from mmo_sansio.values.clock import DAY, MINUTE, SECOND, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Stage, Status


def test_a_payment_by_hand() -> None:
    gateway = Gateway()
    assert isinstance(gateway.receive(a_create_payment(), now=START), Accepted)
    assert gateway.take_intents() == (SubmitToProvider(REFERENCE),)
    assert isinstance(gateway.receive(a_begin_submission(), now=later(START, Span(1))), Applied)
    assert isinstance(gateway.receive(accepted(), now=later(START, Span(2))), Applied)
    assert gateway.transaction(REFERENCE).status is Status.PENDING
    assert isinstance(gateway.receive(succeeded(), now=later(START, Span(3))), Applied)
    assert gateway.transaction(REFERENCE).status is Status.SUCCESS
    assert gateway.take_intents() == (DeliverCallback(REFERENCE),)
    assert gateway.next_wake() is None
    assert isinstance(gateway.receive(callback_concluded(), now=later(START, Span(4))), Applied)
    assert [each.gateway_reference for each in gateway.callbacks] == [REFERENCE]
    assert len(gateway.journal) == 5
    assert gateway.suspense == []
    assert gateway.ledger.intents == {}


def test_an_intent_is_handed_out_once() -> None:
    gateway = Gateway()
    gateway.receive(a_create_payment(), now=START)
    assert len(gateway.take_intents()) == 1
    assert gateway.take_intents() == ()


def test_a_refusal_is_a_reply() -> None:
    gateway = Gateway()
    assert isinstance(gateway.receive(a_create_payment(method="nope"), now=START), Rejected)
    assert gateway.take_intents() == ()
    assert gateway.journal == []


def test_an_unknown_reference_raises_key_error() -> None:
    with pytest.raises(KeyError):
        Gateway().transaction(UNUSED_REFERENCE)


@pytest.mark.spec("S5")
def test_what_cannot_be_applied_is_in_the_suspense_book() -> None:
    gateway = Gateway()
    assert isinstance(gateway.receive(succeeded(UNUSED_REFERENCE), now=START), Ignored)
    assert [each.gateway_reference for each in gateway.suspense] == [UNUSED_REFERENCE]
    assert gateway.callbacks == []


def test_next_wake_is_the_earliest() -> None:
    gateway = Gateway()
    assert gateway.next_wake() is None
    web = Operation.WEB_PAYIN
    gateway.receive(a_create_payment(numbered_reference(1), merchant_reference="1"), now=START)
    assert gateway.next_wake() == START + 3 * DAY
    given = a_create_payment(numbered_reference(2), merchant_reference="2", operation=web)
    gateway.receive(given, now=START)
    assert gateway.next_wake() == START + 30 * MINUTE


@pytest.mark.spec("S3")
def test_wake_lets_happen_what_is_due_the_earliest_first() -> None:
    gateway = Gateway()
    for number in (3, 1, 2):
        given = a_create_payment(numbered_reference(number), merchant_reference=str(number))
        gateway.receive(given, now=later(START, Span(number)))
    gateway.take_intents()
    gateway.wake(now=later(later(START, Span(3 * DAY)), Span(2)))
    assert gateway.take_intents() == (
        DeliverCallback(numbered_reference(1)),
        DeliverCallback(numbered_reference(2)),
    )
    assert gateway.transaction(numbered_reference(3)).progress.stage is Stage.CREATED
    gateway.wake(now=later(later(START, Span(3 * DAY)), Span(2)))
    assert gateway.take_intents() == ()


def test_the_world_finishes_a_payment() -> None:
    world = World(FakeProvider(on_poll=(succeeds,)))
    world.create()
    world.run()
    assert world.transaction().status is Status.SUCCESS
    assert world.provider.submissions == [REFERENCE]
    assert world.provider.polls == [(START + 2 * SECOND, REFERENCE)]
    assert [each.reference for each in world.callbacks] == [REFERENCE]


def test_the_world_lets_time_pass() -> None:
    world = World()
    world.create()
    world.advance(MINUTE)
    assert world.now == START + MINUTE
    asked = [(at - START) // SECOND for at, _ in world.provider.polls]
    assert asked == [2, 4, 8, 16, 32]


def test_the_world_gives_up_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmo_sansio.testing.world.STEPS_MAX", 2)
    world = World(FakeProvider(on_submit=(never_receives,)))
    world.create()
    with pytest.raises(DidNotSettle, match="intents are left"):
        world.settle()


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("operation", "submissions"), [(Operation.DIRECT_PAYIN, 5), (Operation.DIRECT_PAYOUT, 180)]
)
def test_what_is_never_received_is_given_up_in_a_world(
    operation: Operation, submissions: int
) -> None:
    world = World(FakeProvider(on_submit=(never_receives,)))
    world.create(operation=operation)
    world.run()
    progress = world.transaction().progress
    assert (progress.stage, progress.error_code) == (Stage.FAILED, ErrorCode.PROVIDER_UNAVAILABLE)
    assert len(world.provider.submissions) == submissions


def test_the_world_plays_the_past_without_workers() -> None:
    world = World().with_history(a_create_payment(), a_begin_submission(), accepted())
    world.settle()
    assert world.transaction().progress.stage is Stage.AWAITING_RESULT
    assert world.provider.submissions == []
    assert world.now == START + 3
