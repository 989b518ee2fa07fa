"""One attempt to call back, recorded once (clauses K1, K3, K5)."""

from __future__ import annotations

import pytest

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, IntentConcluded, JournalEntry
from mmo_sansio.messages.intents import (
    DeliverCallback,
    IntentKind,
    SubmitToProvider,
    durable_intent,
)
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.testing import (
    REFERENCE,
    START,
    UNUSED_REFERENCE,
    FakeProvider,
    World,
    a_create_payment,
    a_transaction,
    an_attempt,
    callback_concluded,
    fails,
    ledger_with,
    numbered_reference,
    succeeded,
    succeeds,
)
from mmo_sansio.values.clock import Span, later
from mmo_sansio.values.model import Stage

KEY = (REFERENCE, IntentKind.CALLBACK)


@pytest.mark.spec("K3", "K5")
@pytest.mark.parametrize("outcome", DeliveryOutcome, ids=str)
@pytest.mark.parametrize("stage", [Stage.SUCCEEDED, Stage.FAILED], ids=str)
def test_whatever_became_of_it_is_recorded(stage: Stage, outcome: DeliveryOutcome) -> None:
    before = a_transaction(stage)
    decision = decide(ledger_with(before), callback_concluded(outcome=outcome), now=START)
    recorded, done, line = decision.changes
    assert recorded == CallbackRecorded(REFERENCE, "acme", an_attempt(outcome), START)
    assert done == IntentConcluded(KEY)
    assert isinstance(line, JournalEntry)
    assert decision.reply == Applied(before)
    assert decision.intents == ()


@pytest.mark.spec("K3")
def test_it_is_recorded_once() -> None:
    ledger = ledger_with(a_transaction(Stage.SUCCEEDED))
    ledger.apply(decide(ledger, callback_concluded(), now=START).changes)
    again = decide(
        ledger, callback_concluded(outcome=DeliveryOutcome.TIMEOUT), now=later(START, Span(1))
    )
    ignored = Ignored("No callback is waiting for its outcome.", ledger.transactions[REFERENCE])
    assert again == Decision(ignored)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("stage", [each for each in Stage if not each.is_terminal], ids=str)
def test_no_callback_waits_while_pending(stage: Stage) -> None:
    decision = decide(ledger_with(a_transaction(stage)), callback_concluded(), now=START)
    assert isinstance(decision.reply, Ignored)
    assert decision.changes == ()


def test_an_outcome_for_what_is_unknown_is_ignored() -> None:
    decision = decide(ledger_with(), callback_concluded(UNUSED_REFERENCE), now=START)
    assert decision == Decision(Ignored("No callback is waiting for its outcome."))


@pytest.mark.spec("K3")
@pytest.mark.parametrize("outcome", DeliveryOutcome, ids=str)
def test_there_is_one_attempt_whatever_its_outcome(outcome: DeliveryOutcome) -> None:
    world = World(FakeProvider(on_submit=(succeeds,)), callback_outcome=outcome)
    world.create()
    world.run()
    world.receive(succeeded())
    world.settle()
    assert len(world.callbacks) == 1
    assert [each.attempt.outcome for each in world.gateway.callbacks] == [outcome]
    assert world.callbacks[0] == world.transaction()


@pytest.mark.spec("K3")
def test_only_a_crash_between_sending_and_recording_sends_again() -> None:
    world = World(FakeProvider(on_submit=(fails,)))
    world.create()
    world.step()
    world.callbacks.append(world.transaction())  # It was sent, and then the process died.
    world.crash()
    world.settle()
    assert len(world.callbacks) == 2
    assert len(world.gateway.callbacks) == 1
    world.crash()
    world.settle()
    assert len(world.callbacks) == 2


def test_a_kept_intent_is_known_by_kind_and_reference() -> None:
    assert durable_intent(IntentKind.SUBMIT, REFERENCE) == SubmitToProvider(REFERENCE)
    assert durable_intent(IntentKind.CALLBACK, REFERENCE) == DeliverCallback(REFERENCE)


def test_one_callback_does_not_conclude_another() -> None:
    world = World(FakeProvider(on_submit=(succeeds,)))
    for number in (1, 2):
        world.receive(a_create_payment(numbered_reference(number), merchant_reference=str(number)))
    world.step()
    world.step()
    world.receive(callback_concluded(numbered_reference(1)))
    assert [key for key in world.gateway.ledger.intents if key[1] is IntentKind.CALLBACK] == [
        (numbered_reference(2), IntentKind.CALLBACK)
    ]
