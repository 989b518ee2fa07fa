"""The adapter before the simulated Wave: what is lost on the way is neither paid nor refunded
twice."""

from __future__ import annotations

import pytest
from mmo_provider_wave import WaveProvider

from mmo_sansio.messages.inputs import ProviderAccepted, ProviderSucceeded, ProviderUnreachable
from mmo_sansio.messages.reversals import (
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.common.interface import drive
from mmo_sansio.testing import START, a_party, a_transaction
from mmo_sansio.values.clock import DAY, MINUTE, SECOND, Moment, Span, later
from mmo_sansio.values.model import Flow, Page, Stage, Transaction, Type
from mmo_sansio.values.money import Money
from mmo_simulators.common.faults import EndAfter, LoseAnswer, LoseRequest
from tests.support.operator_kinds import OPERATORS
from tests.support.reversals import a_reversal
from tests.support.simulator_exchange import SimulatorAccount


@pytest.fixture
def line() -> SimulatorAccount:
    provider, simulator = OPERATORS["wave"].open()
    return SimulatorAccount(provider, simulator, START)


def a_payment(type: Type = Type.PAYIN, **members: object) -> Transaction:
    chosen = {"stage": Stage.SUBMITTING, "submitted_at": START, "submissions": 1, **members}
    stage = chosen.pop("stage")
    assert isinstance(stage, Stage)
    is_payin = type is Type.PAYIN
    return a_transaction(
        stage,
        type=type,
        flow=Flow.WEB if is_payin else Flow.DIRECT,
        page=Page("token", later(START, DAY)) if is_payin else None,
        provider="wave",
        country="SN",
        requested=Money(1000, "XOF"),
        party=a_party(msisdn="+221761110000"),
        **chosen,
    )


def balance(line: SimulatorAccount) -> int:
    return int(line.balances()["wallet"])


@pytest.mark.spec("S6")
def test_a_session_whose_answer_was_lost_is_found_and_no_other_is_made(
    line: SimulatorAccount,
) -> None:
    line.plan("checkout", LoseAnswer())
    payment = a_payment()
    assert isinstance(line.submit(payment), ProviderUnreachable)
    for report in (line.poll(payment), line.submit(a_payment(submissions=2))):
        assert isinstance(report, ProviderAccepted)
        assert report.payer_action is not None
    assert len(line.simulator.snapshot()["payments"]) == 1


@pytest.mark.spec("S6")
def test_a_pay_out_whose_answer_was_lost_is_paid_once(line: SimulatorAccount) -> None:
    opening = balance(line)
    line.plan("payout", LoseAnswer())
    payment = a_payment(Type.PAYOUT)
    assert isinstance(line.submit(payment), ProviderUnreachable)
    reports = (line.poll(payment), line.submit(a_payment(Type.PAYOUT, submissions=2)))
    assert all(isinstance(report, ProviderSucceeded) for report in reports)
    assert balance(line) == opening - 1000


@pytest.mark.spec("S6")
@pytest.mark.parametrize("lost", [LoseAnswer(), LoseRequest()])
def test_a_refund_without_an_answer_is_made_once(
    line: SimulatorAccount, lost: LoseAnswer | LoseRequest
) -> None:
    opening = balance(line)
    line.plan("checkout", EndAfter(Span(SECOND)))
    line.submit(a_payment())
    line.now = later(START, MINUTE)
    found = line.poll(a_payment())
    assert isinstance(found, ProviderSucceeded)
    paid = a_payment(
        stage=Stage.SUCCEEDED,
        provider_reference=found.provider_reference,
        final=found.final,
    )
    reversal = a_reversal(paid, sent_at=line.now)
    provider = line.provider
    assert isinstance(provider, WaveProvider)

    def send() -> ReversalReport:
        return drive(provider.reverse(reversal, paid, now=Moment.at(line.now)), line.exchange)

    def ask() -> ReversalReport:
        conversation = provider.poll_reversal(reversal, paid, now=Moment.at(line.now))
        return drive(conversation, line.exchange)

    line.plan("refund", lost)
    assert isinstance(send(), ReversalUnreachable)
    if isinstance(lost, LoseAnswer):
        assert isinstance(ask(), ReversalSucceeded)
    else:
        assert isinstance(ask(), ReversalUnreachable)
        line.now = later(line.now, Span(15 * MINUTE))
        assert isinstance(ask(), ReversalNeverReceived)
    assert isinstance(send(), ReversalSucceeded)
    assert balance(line) == opening
