"""An answer that came to an address of its own question counts once."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.messages.inputs import ProviderAnswer
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decide import ANSWERED_MAX
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import (
    REFERENCE,
    START,
    a_transaction,
    accepted,
    failed,
    ledger_with,
    never_received,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import SECOND, Span, later
from mmo_sansio.values.model import Stage, Status

FIRST: dict[str, ProviderAnswer] = {
    "still pending": accepted(),
    "no use": unreachable(),
    "never received": never_received(version=2),
    "another provider's": accepted(provider="other"),
}
SECOND_ONES: dict[str, ProviderAnswer] = {"success": succeeded(), "failure": failed()}


def gateway_with(stage: Stage) -> Gateway:
    gateway = Gateway()
    gateway.ledger = ledger_with(a_transaction(stage))
    return gateway


def asked(answer: ProviderAnswer, at: int) -> ProviderAnswer:
    return evolve(answer, asked_at=later(START, Span(at * SECOND)))


@pytest.mark.spec("S5")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT])
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("second", SECOND_ONES)
def test_whoever_reads_the_address_after_the_answer_can_say_nothing_there(
    stage: Stage, first: str, second: str
) -> None:
    gateway = gateway_with(stage)
    gateway.receive(asked(FIRST[first], 1), now=START)
    assert isinstance(gateway.receive(asked(SECOND_ONES[second], 1), now=START), Ignored)
    assert gateway.transaction(REFERENCE).status is Status.PENDING
    gateway.receive(asked(SECOND_ONES[second], 2), now=START)
    assert gateway.transaction(REFERENCE).status is not Status.PENDING


@pytest.mark.spec("S5")
def test_answers_may_come_in_another_order_and_few_are_remembered() -> None:
    gateway = gateway_with(Stage.AWAITING_RESULT)
    for at in (3, 2, *range(4, 2 + ANSWERED_MAX)):
        gateway.receive(asked(unreachable(), at), now=START)
    answered = gateway.transaction(REFERENCE).progress.answered
    assert [(each - START) // SECOND for each in answered] == list(range(2, 2 + ANSWERED_MAX))
    for at in (1, 2, 3):
        assert isinstance(gateway.receive(asked(succeeded(), at), now=START), Ignored)
    assert gateway.transaction(REFERENCE).status is Status.PENDING
