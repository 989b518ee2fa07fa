"""The adapters ask the simulated operators for money back: the books agree whatever is lost."""

from __future__ import annotations

from decimal import Decimal

import pytest
from attrs import define, evolve

from mmo_sansio.messages.inputs import ProviderSucceeded
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalCannotTell,
    ReversalFailed,
    ReversalHinted,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.common.interface import ReversesPayments, drive
from mmo_sansio.testing import START, a_party, a_transaction
from mmo_sansio.values.clock import MINUTE, Moment, later
from mmo_sansio.values.model import Stage, Transaction
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_sansio.values.reversals import Reversal
from mmo_simulators.common.faults import (
    AnswerInstead,
    CallBack,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    LoseRequest,
    PlannedFault,
)
from tests.simulation.world.operator_kinds import UNREADABLE
from tests.support.operator_kinds import OPERATORS
from tests.support.reversals import a_reversal
from tests.support.simulator_exchange import SimulatorAccount

OPERATION = {"mtn": "refund", "airtel": "refund", "mpesa": "reversal"}
EACH = pytest.mark.parametrize("name", OPERATION)


@define
class Lab:
    """A payment that was paid at an operator, and its reversals."""

    name: str
    account: SimulatorAccount
    payment: Transaction

    @property
    def payer(self) -> str:
        return self.payment.order.party.msisdn.removeprefix(
            "+256" if self.name == "airtel" else "+"
        )

    def plan(self, *faults: Fault) -> None:
        self.account.simulator.faults.plan(
            [PlannedFault(OPERATION[self.name], each) for each in faults]
        )

    def reverse(self, reversal: Reversal) -> ReversalReport:
        assert isinstance(self.account.provider, ReversesPayments)
        conversation = self.account.provider.reverse(
            reversal, self.payment, now=Moment.at(self.account.now)
        )
        return drive(conversation, self.account.exchange)

    def ask(self, reversal: Reversal) -> ReversalReport:
        """Ask, and return the answer: at once, or by a callback."""
        assert isinstance(self.account.provider, ReversesPayments)
        conversation = self.account.provider.poll_reversal(
            reversal, self.payment, now=Moment.at(self.account.now)
        )
        report = drive(conversation, self.account.exchange)
        told = self.told()
        return told[-1] if told else report

    def told(self) -> list[ReversalReport]:
        """Return what callbacks of the next minute say."""
        self.account.now = later(self.account.now, MINUTE)
        requests = self.account.simulator.take_due_callbacks(now=self.account.now)
        reports = [self.account.provider.read_notification(each) for each in requests]
        assert all(type(each).__name__.startswith("Reversal") for each in reports), reports
        return reports  # type: ignore[return-value]

    def back_minor(self) -> int:
        """Return what the operator's books say went back to the payer, in minor units."""
        rows = self.account.simulator.snapshot()["payments"]
        back = [
            each
            for each in rows
            if each["kind"] == OPERATION[self.name] and each["result"] == "success"
        ]
        assert all(each["account"] == self.payer for each in back)
        return sum(to_money(parse_number(each["amount"]), each["currency"]).minor for each in back)


def a_lab(name: str) -> Lab:
    operator = OPERATORS[name]
    provider, simulator = operator.open()
    account = SimulatorAccount(provider, simulator, START)
    payment = a_transaction(
        Stage.SUBMITTING,
        provider=provider.name,
        country=operator.country,
        requested=to_money(Decimal(1_000), operator.currency),
        party=a_party(msisdn=operator.msisdn),
        submitted_at=START,
    )
    accepted = account.submit(payment)
    known_as = getattr(accepted, "provider_reference", None)
    account.now = later(account.now, MINUTE)
    for each in account.simulator.take_due_callbacks(now=account.now):
        hint = provider.read_notification(each)
        payment = evolve(
            payment, progress=evolve(payment.progress, hint=getattr(hint, "content", None))
        )
    paid = account.poll(
        evolve(payment, progress=evolve(payment.progress, provider_reference=known_as))
    )
    assert isinstance(paid, ProviderSucceeded)
    progress = evolve(
        payment.progress, stage=Stage.SUCCEEDED, provider_reference=paid.provider_reference
    )
    return Lab(name, account, evolve(payment, progress=progress))


def sent(lab: Lab, **members: object) -> Reversal:
    """Ask for the reversal, and return it as it is known after the answer."""
    reversal = a_reversal(lab.payment, **members)
    report = lab.reverse(reversal)
    if isinstance(report, ReversalAccepted):
        return evolve(reversal, is_accepted=True, provider_reference=report.provider_reference)
    return reversal


@EACH
@pytest.mark.spec("S6")
def test_a_payment_goes_back_once(name: str) -> None:
    lab = a_lab(name)
    paid = lab.payment.order.requested
    report = lab.reverse(a_reversal(lab.payment))
    if name == "airtel":
        assert isinstance(report, ReversalSucceeded)
    else:
        assert isinstance(report, ReversalAccepted)
        told = lab.told()
        assert [type(each) for each in told] == [
            ReversalSucceeded if name == "mpesa" else ReversalHinted
        ]
        known = a_reversal(lab.payment, provider_reference=report.provider_reference)
        found = lab.ask(known)
        assert isinstance(found, ReversalSucceeded)
        assert found.amount == paid
    assert lab.back_minor() == paid.minor
    lab.reverse(a_reversal(lab.payment, number=2))
    lab.told()
    assert lab.back_minor() == paid.minor


@EACH
@pytest.mark.spec("S6")
def test_a_second_reversal_is_refused_with_words(name: str) -> None:
    lab = a_lab(name)
    lab.reverse(a_reversal(lab.payment))
    lab.told()
    second = a_reversal(lab.payment, number=2)
    report = lab.reverse(second)
    if name == "mpesa":
        (report,) = lab.told()
    elif name == "mtn":
        lab.told()
        report = lab.ask(second)
    assert isinstance(report, ReversalFailed)
    assert (
        report.native_code
        == {"mtn": "NOT_ALLOWED", "airtel": "DP00800001008", "mpesa": "R000001"}[name]
    )


def test_mtn_gives_parts_back_and_no_more_than_was_paid() -> None:
    lab = a_lab("mtn")
    for number, (part, expected) in enumerate(((400, 400), (600, 1_000), (1, 1_000)), start=1):
        lab.reverse(a_reversal(lab.payment, number=number, amount=Money(part, "UGX")))
        lab.told()
        assert lab.back_minor() == expected


@EACH
@pytest.mark.spec("S6")
def test_a_lost_request_moves_nothing_and_is_sent_again_only_where_that_is_certain(
    name: str,
) -> None:
    lab, reversal = a_lab(name), None
    lab.plan(LoseRequest())
    reversal = evolve(sent(lab), sent_at=lab.account.now)
    found = lab.ask(reversal)
    assert lab.back_minor() == 0
    if name != "mtn":
        assert isinstance(found, ReversalCannotTell)
        return
    assert isinstance(found, ReversalUnreachable)
    assert isinstance(lab.ask(reversal), ReversalNeverReceived)
    assert isinstance(lab.reverse(reversal), ReversalAccepted)
    lab.told()
    assert isinstance(lab.ask(reversal), ReversalSucceeded)
    assert lab.back_minor() == lab.payment.order.requested.minor


@EACH
@pytest.mark.spec("S6")
def test_a_lost_answer_is_no_refusal(name: str) -> None:
    lab = a_lab(name)
    lab.plan(LoseAnswer())
    reversal = a_reversal(lab.payment)
    assert isinstance(lab.reverse(reversal), ReversalUnreachable)
    told = lab.told()
    assert lab.back_minor() == lab.payment.order.requested.minor
    match name:
        case "mpesa":
            assert [type(each) for each in told] == [ReversalSucceeded]
        case "mtn":
            assert isinstance(lab.reverse(reversal), ReversalAccepted)
            assert isinstance(lab.ask(reversal), ReversalSucceeded)
        case _:
            assert isinstance(lab.ask(reversal), ReversalCannotTell)
    assert lab.back_minor() == lab.payment.order.requested.minor


@pytest.mark.spec("S6")
@pytest.mark.parametrize("name", ["mtn", "mpesa"])
def test_a_result_that_is_never_called_back_is_asked_for(name: str) -> None:
    lab = a_lab(name)
    lab.plan(CallBack(()))
    reversal = sent(lab)
    assert lab.told() == []
    assert isinstance(lab.ask(reversal), ReversalSucceeded)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("name", ["mtn", "mpesa"])
def test_a_reversal_without_a_result_stays_open(name: str) -> None:
    lab = a_lab(name)
    lab.plan(EndAfter(None))
    reversal = sent(lab)
    assert isinstance(lab.ask(reversal), ReversalAccepted)
    assert lab.back_minor() == 0


@EACH
@pytest.mark.spec("S6")
def test_an_undocumented_end_is_no_success(name: str) -> None:
    lab = a_lab(name)
    lab.plan(EndWith("NEW"))
    reversal = a_reversal(lab.payment)
    report = lab.reverse(reversal)
    if name == "airtel":
        assert isinstance(report, ReversalUnreachable)
    else:
        assert isinstance(report, ReversalAccepted)
        (told,) = lab.told()
        assert isinstance(told, ReversalAccepted | ReversalHinted)  # A reason to ask.
        named = told.provider_reference if isinstance(told, ReversalAccepted) else None
        known_as = named or report.provider_reference
        found = lab.ask(evolve(reversal, provider_reference=known_as))
        assert isinstance(found, ReversalFailed)
    assert lab.back_minor() == 0


@EACH
@pytest.mark.spec("S6")
def test_maintenance_leaves_a_reversal_open(name: str) -> None:
    lab = a_lab(name)
    for each in (*OPERATORS[name].kind.maintenance, *UNREADABLE):
        lab.plan(AnswerInstead(each))
        assert isinstance(lab.reverse(a_reversal(lab.payment)), ReversalUnreachable)
    assert lab.back_minor() == 0


@EACH
def test_a_reversal_is_refused_where_the_float_is_short(name: str) -> None:
    lab = a_lab(name)
    ours = {"mtn": "disbursement", "airtel": "collection", "mpesa": "174379"}[name]
    lab.account.simulator.open_accounts([{"account": ours, "balance": "999"}])
    reversal = a_reversal(lab.payment)
    report = lab.reverse(reversal)
    if name == "mpesa":
        (report,) = lab.told()
    elif name == "mtn":
        lab.told()
        report = lab.ask(reversal)
    assert isinstance(report, ReversalFailed)
    assert lab.back_minor() == 0
