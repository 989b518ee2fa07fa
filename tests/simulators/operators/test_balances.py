"""What each adapter learns of our balances from its operator's simulator, and from other
answers."""

from __future__ import annotations

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.balances import BalanceReport, ReportsBalances
from mmo_sansio.providers.common.interface import (
    AccountFinding,
    AccountState,
    ExchangeFailed,
    Provider,
    drive,
)
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.mpesa_daraja import requests
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.providers.sandbox.simulated_operator import SimulatedOperator
from mmo_sansio.testing import START, a_transaction
from mmo_sansio.values.clock import MINUTE, Instant, Moment, Span, later
from mmo_sansio.values.model import Type
from mmo_simulators.common.simulator import Simulator
from tests.sansio.providers.mpesa_daraja.test_adapter import adapter, callback
from tests.support.operator_kinds import OPERATORS
from tests.support.simulator_exchange import SimulatorAccount

KINDS = pytest.mark.parametrize("kind", OPERATORS)


def ask(provider: Provider, simulator: Simulator, now: Instant = START) -> BalanceReport:
    """What the operator answers, by whichever way."""
    reporter = RedactingProvider(provider)
    line = SimulatorAccount(reporter, simulator, now)
    found = [*drive(reporter.ask_balances(now=Moment.at(now)), line.exchange).balances]
    for each in simulator.take_due_callbacks(now=later(now, MINUTE)):
        report = reporter.read_notification(each)
        assert isinstance(report, BalanceReport)
        found += report.balances
    return BalanceReport(tuple(found))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mtn", [("collection", "1000000 UGX", False), ("disbursement", "1000000 UGX", True)]),
        ("airtel", [("disbursement", "1000000 UGX", True)]),
        ("mpesa", [("Utility Account", "1000000.00 KES", True)]),
        ("pawapay", [("RWA/RWF", "10000000 RWF", True)]),
        ("wave", [("wallet", "10000000 XOF", True)]),
    ],
)
def test_the_operator_tells_the_balance_of_each_account(
    kind: str, expected: list[tuple[str, str, bool]]
) -> None:
    provider, simulator = OPERATORS[kind].open()
    report = ask(provider, simulator)
    assert [(each.account, str(each.amount), each.is_float) for each in report.balances] == expected
    assert {(each.provider, each.at) for each in report.balances} == {(provider.name, START)}


@KINDS
@pytest.mark.parametrize("status", [200, 404, 500])
@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{}", b"[]", b'{"data":7}', b'{"availableBalance":"x","currency":7}']
)
def test_an_answer_that_says_nothing_is_no_balance(kind: str, body: bytes, status: int) -> None:
    provider, _ = OPERATORS[kind].open()
    assert isinstance(provider, ReportsBalances)
    assert (
        drive(provider.ask_balances(now=Moment.at(START)), lambda _: HttpResponse(status, (), body))
        == BalanceReport()
    )


@KINDS
def test_no_answer_is_no_balance(kind: str) -> None:
    def lose(_: HttpRequest) -> HttpResponse:
        raise ExchangeFailed("The connection broke.", may_have_arrived=True)

    provider, _ = OPERATORS[kind].open()
    assert isinstance(provider, ReportsBalances)
    assert drive(provider.ask_balances(now=Moment.at(START)), lose) == BalanceReport()


def test_m_pesa_is_not_asked_without_an_api_operator() -> None:
    provider = adapter(
        initiator=None, initiator_password=None, certificate=None, merchant_name=None
    )
    assert (
        drive(provider.ask_balances(now=Moment.at(START)), lambda _: pytest.fail("it was asked"))
        == BalanceReport()
    )


def balance_result(provider: DarajaProvider, **result: object) -> HttpRequest:
    """M-Pesa's callback to the question for a balance."""
    url = (
        requests.balance_query(provider.account, now=START)
        .body.decode()
        .partition('"ResultURL":"')[2]
        .partition('"')[0]
    )
    document = {
        "OriginatorConversationID": "1",
        "ConversationID": "AG_1",
        "TransactionID": "SIK0000000",
        **result,
    }
    return callback(url.rpartition("/")[2], {"Result": document})


@pytest.mark.parametrize(
    ("code", "part", "state"),
    [
        (21, "balance", AccountState.WARNED),
        (26, "balance", AccountState.UNKNOWN),
        (0, "balance", AccountState.WORKS),
        (2001, "initiator", AccountState.REFUSED),
        (8006, "initiator", AccountState.REFUSED),
    ],
)
def test_m_pesas_refusal_of_the_question_says_what_is_wrong_and_pay_outs_go_on(
    code: int, part: str, state: AccountState
) -> None:
    provider = adapter()
    request = balance_result(provider, ResultType=0, ResultCode=code, ResultDesc="…")
    finding = provider.read_finding(request)
    assert isinstance(finding, AccountFinding)
    assert (finding.part, finding.state) == (part, state)
    assert (finding.stopped_credential != "") is (state is AccountState.REFUSED)
    assert provider.read_notification(request) == BalanceReport()


@pytest.mark.parametrize(
    "text", ["", "&", "Utility Account", "Utility Account|KES", "Utility Account|XYZ|1.00|1.00"]
)
def test_a_balance_that_cannot_be_read_is_nothing_for_the_suspense_book(text: str) -> None:
    provider = adapter()
    parameters = {"ResultParameter": [{"Key": "AccountBalance", "Value": text}]}
    request = balance_result(provider, ResultType="0", ResultCode="0", ResultParameters=parameters)
    assert provider.read_notification(request) == BalanceReport()


def test_the_sandbox_pays_out_of_its_float() -> None:
    provider, operator = SandboxProvider("sandbox", "Sandbox"), SimulatedOperator()
    payment = a_transaction(type=Type.PAYOUT, provider="sandbox")
    drive(
        provider.submit(payment, now=Moment.at(START)),
        lambda request: operator.receive(request, now=START),
    )
    then = later(START, Span(10 * MINUTE))
    operator.due_notifications(now=then)
    [balance] = drive(
        provider.ask_balances(now=Moment.at(then)),
        lambda request: operator.receive(request, now=then),
    ).balances
    assert balance.amount.minor == 10_000_000_00 - payment.order.requested.minor
    restored = SimulatedOperator()
    restored.restore(operator.take_entries())
    assert drive(
        provider.ask_balances(now=Moment.at(then)), lambda r: restored.receive(r, now=then)
    ).balances == [balance]
