"""When processes check an account, what they learn from each other, and what they do not ask any
more."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import trio
from attrs import Factory, define, evolve
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.account_check import AccountQuestion, ask_all
from mmo_sansio.providers.common.interface import (
    AccountCheck,
    AccountFinding,
    AccountState,
    CredentialStopped,
)
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.mpesa_daraja import requests
from mmo_sansio.values.clock import Instant, Moment, MonotonicInstant
from mmo_sansio.values.model import Type
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.account import ProviderAccount
from mmo_trio.workers.providers.account_notes import REQUESTED, AccountChecks, read_finding_note
from tests.runtime.workers.providers.test_worker import PlainProvider
from tests.sansio.providers.mpesa_daraja.test_adapter import adapter
from tests.sansio.providers.test_account_checks import FIREWALL, INVALID_TOKEN
from tests.simulation.stores.shared_server import SimulatedServer
from tests.simulation.stores.shared_store import open_shared_store
from tests.simulation.stores.simulated_run import quiet_server
from tests.support.sqlite_store import StoreFile

HOUR_S = 3600.0
REFUSED = AccountFinding("kenya", "initiator", AccountState.REFUSED, "2001", "It is wrong.", "")


def now() -> Instant:
    return Instant(round((trio.current_time() + 10**9) * 1_000_000))


def moment() -> Moment:
    return Moment.at(now())


@define(eq=False)
class Operator:
    """An M-Pesa that takes every question, and the processes that ask it."""

    server: SimulatedServer = Factory(quiet_server)
    round_s: float = 2.0
    token: HttpResponse = HttpResponse(200, (), b'{"access_token":"t"}')
    answer: HttpResponse = HttpResponse(200, (), b'{"ResponseCode":"0"}')
    questions: list[tuple[float, str]] = Factory(list)
    """When each came, and its path."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        path = request.target.decode().partition(".co.ke")[2]
        if path.startswith("/oauth"):
            return self.token
        self.questions.append((trio.current_time(), path.split("/")[2]))
        return self.answer

    def process(self, store: Store) -> AccountChecks:
        provider = RedactingProvider(adapter(passkey=None))
        account = ProviderAccount(provider, self.send, moment, lambda: MonotonicInstant(now()))
        return AccountChecks(store.admin, {"kenya": account}, moment, self.round_s)

    @property
    def times(self) -> list[float]:
        """When each came, in hours."""
        return [round(at / HOUR_S, 1) for at, _ in self.questions]


def stopped() -> AccountFinding:
    (each,) = adapter().account.operators
    return AccountFinding(
        "kenya", "initiator", AccountState.REFUSED, "2001", "It is wrong.", each.credential
    )


def question() -> HttpRequest:
    account = adapter().account
    return requests.account_check(account, account.operators[0])


async def test_one_of_all_processes_asks_after_the_start_and_once_a_day(
    autojump_clock: MockClock,
) -> None:
    operator = Operator(round_s=60)
    async with (
        open_shared_store(operator.server, "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        for _ in range(3):
            await nursery.start(operator.process(store).run)
        await trio.sleep(29)
        assert operator.questions == []
        await trio.sleep(50 * HOUR_S)
        nursery.cancel_scope.cancel()
    assert operator.times == [0.0, 24.0, 48.0]


async def test_a_sign_in_that_failed_is_tried_again_soon_until_it_works(
    autojump_clock: MockClock,
) -> None:
    operator = Operator(token=HttpResponse(503, (), FIREWALL), round_s=60)
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks = operator.process(store)
        await nursery.start(checks.run)
        await trio.sleep(HOUR_S)
        assert [each.state for each in checks.findings] == [AccountState.UNKNOWN]
        operator.token = Operator().token
        await trio.sleep(11 * 60)
        assert AccountState.UNKNOWN not in {
            each.state for each in checks.findings if each.part == "sign-in"
        }
        asked = len(operator.questions)
        await trio.sleep(20 * HOUR_S)
        assert len(operator.questions) == asked, "from then on once a day"
        nursery.cancel_scope.cancel()


async def test_processes_that_restart_ask_at_most_once_an_hour(autojump_clock: MockClock) -> None:
    operator = Operator()
    async with open_shared_store(operator.server, "gateway") as store:
        for _ in range(12):
            async with trio.open_nursery() as nursery:
                await nursery.start(operator.process(store).run)
                await trio.sleep(900)
                nursery.cancel_scope.cancel()
    assert operator.times == [0.0, 1.0, 2.0]


@pytest.mark.spec("S6")
async def test_nothing_automatic_asks_with_a_refused_password_until_a_person_does(
    autojump_clock: MockClock,
) -> None:
    operator = Operator()
    async with (
        open_shared_store(operator.server, "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        first, second = operator.process(store), operator.process(store)
        await nursery.start(first.run)
        await nursery.start(second.run)
        await first.learn(stopped())
        await trio.sleep(3)
        for each in (first, second):
            with pytest.raises(CredentialStopped) as stop:
                await each.ask("kenya", question())
            assert not stop.value.may_have_arrived
        first.round_s = second.round_s = 300
        await trio.sleep(49 * HOUR_S)
        first.round_s = second.round_s = 2
        await trio.sleep(300)
        assert operator.questions == []
        await store.admin.note_provider(ProviderNote("kenya", NoteTopic.CHECK, content=REQUESTED))
        await trio.sleep(3)
        assert [path for _, path in operator.questions] == ["transactionstatus"]
        await second.learn(
            AccountFinding("kenya", "initiator", AccountState.WORKS, "2032", "It answers.")
        )
        await trio.sleep(3)
        for each in (first, second):
            assert (await each.ask("kenya", question())).status == 200
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("operator", "part", "state", "code"),
    [
        (Operator(token=HttpResponse(503, (), FIREWALL)), "sign-in", "unknown", "HTTP 503"),
        (Operator(token=HttpResponse(400, (), b"")), "sign-in", "refused", "HTTP 400"),
        (
            Operator(answer=HttpResponse(401, (), json.dumps(INVALID_TOKEN).encode())),
            "initiator",
            "refused",
            "401.002.01",
        ),
    ],
)
async def test_what_the_token_service_or_the_product_answers_is_named(
    autojump_clock: MockClock, operator: Operator, part: str, state: str, code: str
) -> None:
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks = operator.process(store)
        await nursery.start(checks.run)
        await trio.sleep(60)
        (finding,) = (each for each in checks.findings if each.part == part)
        assert (finding.state, finding.code) == (state, code)
        nursery.cancel_scope.cancel()


async def test_a_check_without_an_answer_lets_no_question_go_on(autojump_clock: MockClock) -> None:
    async with StoreFile().open() as store:
        checks = Operator().process(store)
        await checks.learn(stopped())
        await checks.learn(
            AccountFinding("kenya", "initiator", AccountState.UNKNOWN, "HTTP 503", "Nothing.")
        )
        with pytest.raises(CredentialStopped):
            await checks.ask("kenya", question())


async def test_another_password_is_asked_with_at_once(autojump_clock: MockClock) -> None:
    operator = Operator()
    async with open_shared_store(operator.server, "gateway") as store:
        checks = operator.process(store)
        await checks.learn(stopped())
        checks.accounts["kenya"].provider = RedactingProvider(adapter(initiator_password="new"))
        account = adapter(initiator_password="new").account
        assert (
            await checks.ask("kenya", requests.account_check(account, account.operators[0]))
        ).status == 200


async def test_a_refusal_is_one_alarm_that_every_process_knows(
    autojump_clock: MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    operator = Operator()
    async with (
        open_shared_store(operator.server, "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        first, second = operator.process(store), operator.process(store)
        await nursery.start(second.run)
        await first.learn(REFUSED)
        [note] = await store.admin.provider_notes(NoteTopic.FINDING)
        await trio.sleep(3)
        await first.learn(REFUSED)
        assert await store.admin.provider_notes(NoteTopic.FINDING) == [note]
        assert list(second.findings) == [REFUSED] == [read_finding_note(note)]
        nursery.cancel_scope.cancel()
    assert "operator_refuses_account" in "".join(capfd.readouterr())


async def test_a_store_that_cannot_serve_stops_no_payment(autojump_clock: MockClock) -> None:
    operator = Operator()
    async with open_shared_store(operator.server, "gateway") as store:
        checks = operator.process(store)
    with trio.move_on_after(90):
        async with trio.open_nursery() as nursery:
            await nursery.start(checks.run)
            await trio.sleep(60)
            assert (await checks.ask("kenya", question())).status == 200
            nursery.cancel_scope.cancel()


PAYINS = ("lusaka", Type.PAYIN)


@define
class Aggregator(PlainProvider):
    """Says whether it takes pay-ins."""

    name: str = "lusaka"

    def ask_availability(self, *, now: Moment) -> AccountCheck:
        return ask_all(
            self.name,
            [AccountQuestion("deposit", HttpRequest("GET", b"/availability"), self.judge)],
        )

    def judge_answer(self, request: HttpRequest, response: HttpResponse) -> AccountFinding | None:
        if request.method != "POST":
            return None
        is_refused = response.status == 403
        state = AccountState.REFUSED if is_refused else AccountState.WORKS
        is_refund = request.target == b"/refunds"
        return AccountFinding(
            self.name,
            "refunds" if is_refund else "signature",
            state,
            str(response.status),
            "",
            held=(Type.PAYIN,) if is_refused and not is_refund else (),
            holds_reversals=is_refused and is_refund,
        )

    def judge(self, answer: HttpResponse) -> AccountFinding:
        state, held = {
            200: (AccountState.WORKS, ()),
            418: (AccountState.WARNED, (Type.PAYIN,)),
            503: (AccountState.UNKNOWN, ()),
        }[answer.status]
        return AccountFinding(self.name, "deposit", state, str(answer.status), "", held=held)


@define(eq=False)
class AggregatorLine:
    """The line to an aggregator, and the processes at it."""

    status: int = 418
    asked: int = 0
    refuses: bool = False
    """Whether it refuses the signature of payments."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        if request.method == "POST":
            return HttpResponse(403 if self.refuses else 202)
        self.asked += 1
        return HttpResponse(self.status)

    def process(self, store: Store) -> AccountChecks:
        account = ProviderAccount(
            RedactingProvider(Aggregator()), self.send, moment, lambda: MonotonicInstant(now())
        )
        return AccountChecks(store.admin, {"lusaka": account}, moment, with_availability=["lusaka"])


@pytest.mark.spec("S6")
async def test_what_a_provider_can_not_process_is_held_in_every_process_until_it_can(
    autojump_clock: MockClock,
) -> None:
    line = AggregatorLine()
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        processes = [line.process(store) for _ in range(3)]
        for each in processes:
            await nursery.start(each.run)
        await trio.sleep(3)
        holds = [each.hold_of(*PAYINS) for each in processes]
        assert line.asked == 1
        assert all(hold is not None and not hold.is_set() for hold in holds)
        assert [each.hold_of("lusaka", Type.PAYOUT) for each in processes] == [None] * 3
        line.status = 200
        await trio.sleep(32)
        assert [each.hold_of(*PAYINS) for each in processes] == [None] * 3
        assert all(hold is not None and hold.is_set() for hold in holds)
        asked = line.asked
        await trio.sleep(3_600)
        assert 110 <= line.asked - asked <= 121
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_a_provider_that_says_nothing_any_more_is_tried_after_five_minutes(
    autojump_clock: MockClock,
) -> None:
    line = AggregatorLine()
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks = line.process(store)
        await nursery.start(checks.run)
        await trio.sleep(3)
        line.status = 503
        await trio.sleep(280)
        assert checks.hold_of(*PAYINS) is not None
        (finding,) = (each for each in checks.findings if each.part == "deposit")
        assert finding.held == (Type.PAYIN,)
        await trio.sleep(60)
        assert not checks.is_held(*PAYINS)
        assert await checks.begin_trial(*PAYINS)
        await trio.sleep(100)
        assert checks.hold_of(*PAYINS) is None
        (finding,) = (each for each in checks.findings if each.part == "deposit")
        assert finding.state is AccountState.UNKNOWN
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_an_answer_that_refuses_the_account_holds_what_would_meet_it_until_one_is_taken(
    autojump_clock: MockClock,
) -> None:
    line = AggregatorLine(status=200)
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks = line.process(store)
        await nursery.start(checks.run)
        await trio.sleep(3)
        account, payment = checks.accounts["lusaka"], HttpRequest("POST", b"/payments")
        await account.exchange(payment)
        parts = {each.part for each in checks.findings}
        assert "signature" not in parts  # All is well: that is no news.
        line.refuses = True
        assert (await account.exchange(payment)).status == 403
        hold = checks.hold_of(*PAYINS)
        assert hold is not None
        assert ("signature", "refused") in {(each.part, each.state) for each in checks.findings}
        await trio.sleep(60)
        assert checks.hold_of(*PAYINS) is hold  # Questions show nothing of a signature.
        line.refuses = False
        await account.exchange(payment)
        assert checks.hold_of(*PAYINS) is None
        assert hold.is_set()
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_a_refusal_holds_what_it_is_about_and_nothing_else(autojump_clock: MockClock) -> None:
    line = AggregatorLine(status=200, refuses=True)
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks, other = line.process(store), line.process(store)
        for each in (checks, other):
            await nursery.start(each.run)
        account = checks.accounts["lusaka"]
        await account.exchange(HttpRequest("POST", b"/payments"))
        assert not checks.holds_reversals("lusaka")
        await account.exchange(HttpRequest("POST", b"/refunds"))
        await trio.sleep(3)
        for each in (checks, other):
            assert each.holds_reversals("lusaka")
            assert each.hold_of(*PAYINS) is not None
            assert each.hold_of("lusaka", Type.PAYOUT) is None
        line.refuses = False
        await account.exchange(HttpRequest("POST", b"/refunds"))
        assert not checks.holds_reversals("lusaka")
        assert checks.hold_of(*PAYINS) is not None
        assert checks.is_held(*PAYINS)
        await trio.sleep(301)
        assert not checks.is_held(*PAYINS)
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_one_of_all_that_waited_shows_whether_a_refusal_still_holds(
    autojump_clock: MockClock,
) -> None:
    """If all went at once, each would meet a password that is still wrong, until it is locked."""
    line = AggregatorLine(status=200, refuses=True)
    async with (
        open_shared_store(quiet_server(), "gateway") as store,
        trio.open_nursery() as nursery,
    ):
        processes = [line.process(store) for _ in range(3)]
        for each in processes:
            await nursery.start(each.run)
        payment = HttpRequest("POST", b"/payments")
        await processes[0].accounts["lusaka"].exchange(payment)
        for is_refused in (True, False):
            await trio.sleep(3)
            holds = [each.hold_of(*PAYINS) for each in processes]
            assert [await each.begin_trial(*PAYINS) for each in processes] == [False] * 3
            await trio.sleep(300)
            assert all(hold is not None and hold.is_set() for hold in holds)

            holds = [each.hold_of(*PAYINS) for each in processes]
            asked = [await each.begin_trial(*PAYINS) for each in processes for _ in range(5)]
            assert sum(asked) == 1
            assert [each.hold_of(*PAYINS) for each in processes] == holds
            line.refuses = is_refused
            tried = processes[asked.index(True) // 5]
            await tried.accounts["lusaka"].exchange(payment)
            assert (tried.hold_of(*PAYINS) is not None) is is_refused

        await trio.sleep(3)
        assert [each.hold_of(*PAYINS) for each in processes] == [None] * 3
        assert all(hold is not None and hold.is_set() for hold in holds)
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_the_others_follow_one_that_nothing_refuses_for_a_minute(
    autojump_clock: MockClock,
) -> None:
    """Some operators say only by a result, or never, that they take what was sent."""
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks = AggregatorLine(status=200).process(store)
        await nursery.start(checks.run)
        refused = evolve(REFUSED, provider="lusaka", part="result", held=(Type.PAYIN,))
        await checks.learn(evolve(refused, holds_reversals=True))
        await trio.sleep(303)
        assert await checks.begin_trial(*PAYINS)
        assert not await checks.begin_trial(*PAYINS)
        await trio.sleep(58)
        assert checks.hold_of(*PAYINS) is not None
        await trio.sleep(5)
        assert checks.hold_of(*PAYINS) is None
        assert checks.holds_reversals("lusaka")
        assert await checks.begin_trial("lusaka", None)
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_nothing_is_tried_where_nobody_learns_that(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = AggregatorLine(status=200, refuses=True)
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks = line.process(store)
        await nursery.start(checks.run)
        await checks.accounts["lusaka"].exchange(HttpRequest("POST", b"/payments"))
        await trio.sleep(303)
        with monkeypatch.context() as away:
            away.setattr(AdminStore, "note_provider", fails)
            assert not await checks.begin_trial(*PAYINS)
        await trio.sleep(3)
        assert await checks.begin_trial(*PAYINS)
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_a_refused_password_holds_until_it_changes_or_a_person_asks(
    autojump_clock: MockClock,
) -> None:
    """Each pay-out would be refused by its result, and might lock the API operator for good."""
    refused = evolve(stopped(), held=(Type.PAYOUT, Type.TAX))
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks = Operator().process(store)
        await nursery.start(checks.run)
        await checks.learn(refused)
        await trio.sleep(600)
        assert checks.is_held("kenya", Type.PAYOUT)
        assert not await checks.begin_trial("kenya", Type.PAYOUT)
        assert checks.hold_of("kenya", Type.PAYIN) is None
        works = AccountFinding("kenya", "initiator", AccountState.WORKS, "0", "It works.")
        await checks.learn(works)
        assert checks.hold_of("kenya", Type.PAYOUT) is None
        await checks.learn(evolve(refused, stopped_credential="that of an earlier password"))
        await trio.sleep(299)
        assert checks.hold_of("kenya", Type.PAYOUT) is not None
        await trio.sleep(5)
        assert await checks.begin_trial("kenya", Type.PAYOUT)
        nursery.cancel_scope.cancel()


async def test_the_answer_counts_though_the_store_can_not_keep_what_it_says(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = AggregatorLine(refuses=True)
    async with StoreFile().open() as store:
        account = line.process(store).accounts["lusaka"]
        monkeypatch.setattr(AdminStore, "note_provider", fails)
        assert (await account.exchange(HttpRequest("POST", b"/payments"))).status == 403


async def fails(*_: object, **__: object) -> bool:
    raise StoreUnavailable("away")


async def test_a_process_that_starts_holds_what_is_known_before_anything_is_sent(
    autojump_clock: MockClock,
) -> None:
    line = AggregatorLine()
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        await line.process(store).learn(Aggregator().judge(HttpResponse(418)))
        checks = line.process(store)
        await nursery.start(checks.run)
        assert checks.hold_of(*PAYINS) is not None
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_what_is_learned_while_a_round_reads_older_notes_is_kept(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        checks, read = AggregatorLine(status=503).process(store), AdminStore.provider_notes

        async def read_slowly(self: AdminStore, *topics: NoteTopic) -> Sequence[ProviderNote]:
            notes = await read(self, *topics)
            await trio.sleep(1)
            return notes

        await nursery.start(checks.run)
        monkeypatch.setattr(AdminStore, "provider_notes", read_slowly)
        await trio.sleep(checks.round_s + 0.5)
        await checks.learn(Aggregator().judge(HttpResponse(418)))
        await trio.sleep(1)
        assert checks.hold_of(*PAYINS) is not None
        nursery.cancel_scope.cancel()
