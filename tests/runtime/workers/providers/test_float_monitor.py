"""One of all processes asks for balances, and staff hear of a low float before an operator refuses
a pay-out."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import pytest
import trio
from attrs import Factory, define
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderFailed, ProviderReport
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Ignored, ReversalApplied
from mmo_sansio.providers.common.balances import AccountBalance, BalanceReport, FloatWatch
from mmo_sansio.providers.common.interface import ReversalReports
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.testing import a_party, a_transaction, numbered_reference
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Moment, MonotonicInstant, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Stage, Transaction, Type
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import ReversalState
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.common.simulator import Simulator
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.account import ProviderAccount, drive_async
from mmo_trio.workers.providers.float_monitor import FloatMonitor, float_refusals, known_floats
from tests.simulation.stores.shared_store import open_shared_store
from tests.simulation.stores.simulated_run import quiet_server
from tests.support.operator_kinds import OPERATORS
from tests.support.reversals import a_reversal
from tests.support.sqlite_store import StoreFile

HOUR_S = 3600.0
Logs = Sequence[MutableMapping[str, Any]]


@pytest.fixture
def logs() -> Iterator[Logs]:
    with capture_logs() as captured:
        yield captured


def now() -> Instant:
    return Instant(round((trio.current_time() + 10**9) * 1_000_000))


def moment() -> Moment:
    return Moment.at(now())


@define(eq=False)
class Operator:
    """A simulated MTN, and the processes that ask it."""

    kind: str = "mtn"
    watch: FloatWatch = FloatWatch()
    simulator: Simulator = Factory(lambda: OPERATORS["mtn"].open()[1])
    questions: list[float] = Factory(list)
    """When each balance was asked for, in hours."""

    def account(self) -> ProviderAccount:
        provider = RedactingProvider(OPERATORS[self.kind].open()[0])
        return ProviderAccount(provider, self.send, moment, lambda: MonotonicInstant(now()))

    async def send(self, request: HttpRequest) -> HttpResponse:
        if b"disbursement/v1_0/account/balance" in request.target:
            self.questions.append(round(trio.current_time() / HOUR_S, 2))
        answer = self.simulator.handle_request(request, now=now())
        assert not isinstance(answer, DroppedConnection)
        return answer

    def process(self, store: Store) -> FloatMonitor:
        account = self.account()
        assert isinstance(account.provider, RedactingProvider)
        return FloatMonitor(
            store.admin,
            {"mtn": account.provider},
            lambda _: account.ask,
            {"mtn": self.watch},
            moment,
        )

    async def pay_out(self, number: int, units: int) -> tuple[Transaction, ProviderReport]:
        """A pay-out, and what the operator said of it in the end."""
        account = self.account()
        payment = a_transaction(
            Stage.SUBMITTING,
            gateway_reference=numbered_reference(number),
            type=Type.PAYOUT,
            provider="mtn",
            requested=Money(units, "UGX"),
            party=a_party(msisdn=OPERATORS["mtn"].msisdn),
        )
        report = await drive_async(
            account.provider.submit(payment, now=Moment.at(now())), account.exchange
        )
        await trio.sleep(30)
        self.simulator.take_due_callbacks(now=now())
        if not isinstance(report, ProviderFailed):
            report = await drive_async(
                account.provider.poll(payment, now=Moment.at(now())), account.ask
            )
        return payment, report


def refused(reference: str = numbered_reference(1), **members: Any) -> WorkItem:
    """A pay-out that has failed for lack of float, as the engine hands over its callback."""
    progress = {
        "error_code": ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
        "completion_source": Source.POLL,
    }
    order = {"gateway_reference": reference, "type": Type.PAYOUT, "provider": "mtn"}
    return WorkItem(
        DeliverCallback(reference), a_transaction(Stage.FAILED, **{**order, **progress, **members})
    )


def events(logs: Logs, *names: str) -> list[str]:
    return [each["event"] for each in logs if each["event"] in names]


@pytest.mark.parametrize("is_simulated", [False, True])
async def test_a_refusal_by_which_no_money_is_lacking_says_so(
    is_simulated: bool, logs: Logs
) -> None:
    async with open_shared_store(quiet_server(), "gateway") as store:
        Operator().process(store).note_result(refused(is_simulated=is_simulated))
    (line,) = (each for each in logs if each["event"] == "float_refused")
    assert line.get("simulated") is (True if is_simulated else None)


async def test_one_of_all_processes_asks_every_few_minutes(autojump_clock: MockClock) -> None:
    operator = Operator(watch=FloatWatch(Span(30 * MINUTE)))
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        for _ in range(3):
            nursery.start_soon(operator.process(store).run)
        await trio.sleep(2.25 * HOUR_S)
        nursery.cancel_scope.cancel()
    assert operator.questions == pytest.approx([0.01, 0.51, 1.01, 1.51, 2.01], abs=0.02)


async def test_no_balance_is_asked_for_where_that_is_switched_off(
    autojump_clock: MockClock,
) -> None:
    operator = Operator(watch=FloatWatch(Span(0)))
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(operator.process(store).run)
        await trio.sleep(5 * HOUR_S)
        nursery.cancel_scope.cancel()
    assert operator.questions == []


async def test_the_alert_comes_before_the_first_refusal_when_an_account_runs_dry(
    autojump_clock: MockClock, logs: Logs
) -> None:
    operator = Operator()
    operator.simulator.open_accounts([{"account": "disbursement", "balance": "40000"}])
    lows: list[float] = []
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        monitors = [operator.process(store) for _ in range(2)]
        for each in monitors:
            nursery.start_soon(each.run)
        for number in range(1, 1000):
            payment, report = await operator.pay_out(number, units=100)
            if isinstance(report, ProviderFailed):
                break
            lows += [known.forecast.hours_left or 0 for known in monitors[0].floats if known.is_low]
            await trio.sleep(90)
        assert isinstance(report, ProviderFailed)
        assert report.error_code is ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
        assert report.native_code == "NOT_ENOUGH_FUNDS"
        monitors[0].note_result(refused(payment.reference))
        await trio.sleep(1)
        assert (await float_refusals(store.admin, now()))["mtn"].content == payment.reference
        nursery.cancel_scope.cancel()
    assert events(logs, "float_low", "float_refused") == ["float_low", "float_refused"]
    low = next(each for each in logs if each["event"] == "float_low")
    assert (low["provider"], low["account"], low["log_level"]) == ("mtn", "disbursement", "error")
    assert 5 < low["hours_left"] <= 6
    assert 5 < lows[0] < 6, "the metrics know it as soon"


def report(units: int, account: str = "disbursement") -> BalanceReport:
    return BalanceReport(
        (AccountBalance("mtn", account, Money(units, "UGX"), now(), is_float=True),)
    )


async def test_a_low_float_of_which_nothing_is_heard_any_more_stays_low(
    autojump_clock: MockClock,
) -> None:
    """Its alert would end else, six hours after the last balance."""
    operator = Operator(watch=FloatWatch(Span(0), minimums=(Money(1000, "UGX"),), hours=0))
    async with StoreFile().open() as store:
        monitor = operator.process(store)
        await monitor.learn(report(900))
        await monitor.learn(report(5000, "collection"))
        await trio.sleep(30 * HOUR_S)
        (known,) = await known_floats(store.admin, {"mtn"}, now())
        assert (known.is_low, known.forecast.latest.amount) == (True, Money(900, "UGX"))
        assert known.forecast.hours_left is None
        assert await known_floats(store.admin, {"another"}, now()) == []
        await monitor.learn(report(5000))
        (known,) = await known_floats(store.admin, {"mtn"}, now())
        assert not known.is_low


async def test_each_crossing_is_said_once_whichever_process_learns_of_it(
    autojump_clock: MockClock, logs: Logs
) -> None:
    operator = Operator(watch=FloatWatch(minimums=(Money(1000, "UGX"),), hours=0))
    async with open_shared_store(quiet_server(), "gateway") as store:
        monitors = [operator.process(store) for _ in range(3)]
        for units in (1500, 900, 1100, 800, 1300, 700, 600):
            same = report(units)
            async with trio.open_nursery() as nursery:
                for each in monitors:
                    nursery.start_soon(each.learn, same)
            await trio.sleep(300)
        [known] = await known_floats(store.admin, {"mtn"}, now())
        assert (known.is_low, known.forecast.latest.amount.minor) == (True, 600)
        assert len(await store.admin.provider_balances(Instant(0))) == 7
    assert events(logs, "float_low", "float_restored") == [
        "float_low",
        "float_restored",
        "float_low",
    ]


@pytest.mark.parametrize(
    "work",
    [
        refused(type=Type.PAYIN),
        refused(error_code=ErrorCode.USER_CANCELLED),
        refused(completion_source=Source.MANUAL),
        WorkItem(DeliverCallback("r"), a_transaction(Stage.SUCCEEDED, type=Type.PAYOUT)),
    ],
)
async def test_other_results_say_nothing_about_the_float(work: WorkItem, logs: Logs) -> None:
    async with open_shared_store(quiet_server(), "gateway") as store:
        monitor = Operator().process(store)
        monitor.note_result(work)
        assert not monitor.refusals
    assert events(logs, "float_refused") == []


async def test_a_refusal_is_marked_within_a_moment_and_for_a_day(autojump_clock: MockClock) -> None:
    operator = Operator()
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        monitor = operator.process(store)
        nursery.start_soon(monitor.run)
        await trio.sleep(1)
        monitor.note_result(refused())
        await trio.sleep(0.1)
        assert set(await float_refusals(store.admin, now())) == {"mtn"}
        assert monitor.refusals == {"mtn": 1}
        autojump_clock.jump(25 * HOUR_S)
        await trio.sleep(1)
        assert not await float_refusals(store.admin, now())
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("lacks_float", [True, False])
async def test_a_reversal_that_is_refused_for_lack_of_float_is_marked_once(
    autojump_clock: MockClock, logs: Logs, lacks_float: bool
) -> None:
    payment = a_transaction(Stage.SUCCEEDED)
    failed = a_reversal(payment, state=ReversalState.FAILED, provider="mtn")
    report = ReversalReports(failed, "mtn").failed("No.", "LOW", lacks_float=lacks_float)
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        monitor = Operator().process(store)
        nursery.start_soon(monitor.run)
        await trio.sleep(1)
        monitor.note_reversal(report, ReversalApplied(failed, payment))
        monitor.note_reversal(report, Ignored("It agrees with what is on record.", payment))
        await trio.sleep(0.1)
        refusals = await float_refusals(store.admin, now())
        assert [each.content for each in refusals.values()] == [failed.id] * lacks_float
        nursery.cancel_scope.cancel()
    assert events(logs, "float_refused") == ["float_refused"] * lacks_float


async def test_a_balance_of_long_ago_is_no_balance_of_now(autojump_clock: MockClock) -> None:
    async with open_shared_store(quiet_server(), "gateway") as store:
        await Operator().process(store).learn(report(1500))
        assert len(await known_floats(store.admin, {"mtn"}, now())) == 1
        await trio.sleep(7 * HOUR / 1_000_000)
        assert not await known_floats(store.admin, {"mtn"}, now())


async def test_when_a_balance_was_told_last_stays_known(autojump_clock: MockClock) -> None:
    operator = Operator(watch=FloatWatch(Span(0)))
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        monitor, told_at = operator.process(store), now()
        await monitor.learn(report(1500))
        nursery.start_soon(monitor.run)
        await trio.sleep(8 * HOUR_S)
        assert not monitor.floats
        assert monitor.known_at == {("mtn", "disbursement"): told_at}
        nursery.cancel_scope.cancel()
