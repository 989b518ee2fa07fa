"""A gateway's own parts and one operator's simulator in virtual time, a network that loses, delays
and repeats, and a gateway that is killed at any moment. One seed is one course of events.

Engine, provider worker, account, hooks, scanner and store are those that serve; only the network
between gateway and operator is played, and a killed gateway forgets all but what its store has
kept.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from random import Random
from typing import assert_never
from unittest.mock import patch
from urllib.parse import urlsplit

import trio
from attrs import Factory, define, evolve
from trio._core import _run
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ConfirmPage, Input, PayerReturned
from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    PollEnded,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.providers.common.interface import Conversation, ExchangeFailed, drive
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mpesa_daraja.requests import account_reference
from mmo_sansio.testing import (
    START,
    a_brand,
    a_create_payment,
    a_method,
    a_party,
    numbered_reference,
)
from mmo_sansio.values.clock import (
    HOUR,
    MINUTE,
    SECOND,
    Instant,
    Moment,
    MonotonicInstant,
    Span,
    later,
)
from mmo_sansio.values.model import Brand, Flow, Limits, Operation, Stage, Transaction, Type
from mmo_sansio.values.money import to_money
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_simulators.common.faults import ANY_OPERATION, DroppedConnection, Fault, PlannedFault
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote, SuspenseEntry
from mmo_trio.storage.interface.store import StoreUnavailable, WorkItem
from mmo_trio.storage.sql.payment_history import suspense
from mmo_trio.storage.sql.statements import run_query
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite.connection import connect, run_statement
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.ids import ReferenceGenerator
from mmo_trio.workers.providers.account import ProviderAccount, WebhookEndpoint
from mmo_trio.workers.providers.account_notes import REQUESTED, AccountChecks
from mmo_trio.workers.providers.deposits import DepositClaimWorker
from mmo_trio.workers.providers.float_monitor import FloatMonitor
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scheduler
from tests.support.operator_faults import FaultSource
from tests.support.operator_forger import Forger
from tests.support.operator_kinds import CONSUMER, KENYANS, Operator
from tests.support.sqlite_store import StoreFile
from tests.support.stored_ledger import stored_ledger

ANSWER_WITHIN_S = 10.0
LATE_BY = Span(25 * SECOND)
"""The longest delay of a request whose answer is no longer awaited."""
FORGED_FOR = Span(3 * HOUR)
"""The time in which notifications are forged."""
HEALED_AFTER = Span(2 * HOUR)
"""The time after which nothing is lost and no gateway is killed."""
SELDOM_S = 300
"""The interval of what would only take time in so long a world."""
LASTS = Span(3 * 24 * HOUR + 6 * HOUR)
MONEY_BACK = frozenset({"refund", "reversal"})
"""The kinds of rows in simulators' books about money that goes back."""
_PROMPT_RECEIPT = re.compile(r'"Name": ?"MpesaReceiptNumber", ?"Value": ?"(\w+)"')
ACTS_EVERY, ACTS_WITHIN = Span(5 * SECOND), Span(40 * MINUTE)
"""How often, and for how long, a payer looks at the page for what to do elsewhere."""
SAMPLED_EVERY = Span(20 * MINUTE)
"""The interval of looking at `mmo tx list --stuck`."""


def now() -> Instant:
    """Return the world's time."""
    return later(START, Span(round(trio.current_time() * SECOND)))


def moment() -> Moment:
    """Return the same by both clocks."""
    return Moment.at(now())


class VirtualClock(GatewayClock):
    """Follows Trio's clock."""

    def raw_wall_time(self) -> Instant:
        return now()

    def monotonic(self) -> MonotonicInstant:
        return MonotonicInstant(now())


@define(eq=False)
class RecordingProvider(RedactingProvider):
    """Records when each pending payment was last polled."""

    asked_at: dict[str, Instant] = Factory(dict)

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        if not transaction.progress.stage.is_terminal:
            self.asked_at[transaction.reference] = now.time
        return RedactingProvider.poll(self, transaction, now=now)


@define
class PendingAnswer:
    """Holds an answer once it arrives."""

    event: trio.Event = Factory(trio.Event)
    answer: HttpResponse | DroppedConnection | None = None


class World:
    """Simulates the course of events of one seed; `play` runs it to its end."""

    def __init__(self, operator: Operator, seed: int) -> None:
        self.operator = operator
        self.seed = seed
        self.tally: Counter[str] = Counter()
        """Counts of events, so that a test can check that they occurred."""
        self.random = Random(seed)
        self.misfortune = FaultSource(
            self.random, self.tally, operator.failures, operator.maintenance, operator.contradiction
        )
        adapter, self.simulator = operator.open()
        self.provider = RecordingProvider(adapter)
        self.file = StoreFile()
        self.rows = connect(self.file.path, query_only=True)
        self.opening = self.balances()
        self.stuck: defaultdict[str, list[Instant]] = defaultdict(list)
        """The time at which each payment was first listed as stuck."""
        self.looked: list[Instant] = []
        self.life: trio.CancelScope | None = None
        """The gateway's engine; None while it is killed."""
        self.scanner: Scheduler | None = None
        self.engine: Engine | None = None
        self.hooks: Webhooks | None = None
        self.account: ProviderAccount | None = None
        self.callbacks: Counter[str] = Counter()
        self.heard: set[str] = set()
        """The receipts of the prompts whose callbacks the gateway has accepted."""
        self.forger = Forger(Random(seed), self.tally, lambda: self.transactions)

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """Return the gateway's transactions by reference."""
        return stored_ledger(self.rows).transactions

    @property
    def suspense(self) -> Sequence[SuspenseEntry]:
        """Return the suspense entries."""
        return run_query(
            suspense(with_closed=True, limit=10_000), partial(run_statement, self.rows)
        )

    @property
    def asked_at(self) -> Mapping[str, Instant]:
        """Return when each payment was last polled before its end."""
        return self.provider.asked_at

    @property
    def is_healed(self) -> bool:
        """Tell whether the network has stopped losing messages."""
        return now() >= START + HEALED_AFTER

    def balances(self) -> dict[str, Decimal]:
        """Return the balance of each account at the operator."""
        return {
            each["account"]: Decimal(each["balance"])
            for each in self.simulator.snapshot()["accounts"]
        }

    @property
    def book(self) -> Sequence[Mapping[str, str]]:
        """Return what the operator's book holds of payments."""
        return [
            each for each in self.simulator.snapshot()["payments"] if each["kind"] not in MONEY_BACK
        ]

    @property
    def went_back(self) -> Sequence[Mapping[str, str]]:
        """Return what the operator's book holds of money that went back to payers."""
        rows = self.simulator.snapshot()["payments"]
        return [each for each in rows if each["kind"] in MONEY_BACK and each["result"] == "success"]

    def play(self, payments: int, kills: int) -> None:
        """Run this many payments and kills until everything is idle."""
        with _in_the_order_of(self.seed):
            trio.run(self._run, payments, kills, clock=MockClock(autojump_threshold=0))

    async def _run(self, payments: int, kills: int) -> None:
        async with self.file.open() as store:
            await store.admin.save_brands([self._brand()])
        async with trio.open_nursery() as network:
            self.network = network
            self.news = trio.Event()
            network.start_soon(self._run_lives)
            network.start_soon(self._call_back)
            network.start_soon(self._look_up)
            await trio.sleep(1)
            await self._register()
            for number in range(payments):
                network.start_soon(self._create, number, Span(self.random.randrange(HOUR)))
            for _ in range(kills):
                network.start_soon(
                    self._kill_after, Span(self.random.randrange(HOUR + 10 * MINUTE))
                )
            network.start_soon(
                partial(
                    self.forger.run, self._receive_notification, times=payments, within=FORGED_FOR
                )
            )
            if self.operator.refusals:
                network.start_soon(self._refuse_api_operators)
            await trio.sleep(HEALED_AFTER / SECOND + 60)
            assert self.scanner is not None
            self.scanner.scan_interval_s = SELDOM_S  # Nothing is quick any more.
            await trio.sleep((LASTS - HEALED_AFTER) / SECOND)
            network.cancel_scope.cancel()

    # The gateway.

    async def _run_lives(self) -> None:
        """Run one gateway after the other on the same store."""
        while True:
            async with self.file.open() as store, trio.open_nursery() as life:
                await self._start(store, life)
                self.life = life.cancel_scope
                await trio.sleep_forever()
            await trio.sleep(self.random.randrange(2 * MINUTE) / SECOND)

    async def _start(self, store: Store, life: trio.Nursery) -> None:
        """Assemble and start a gateway without listeners."""
        clock = VirtualClock()

        def hand_over(work: WorkItem) -> None:
            match work.intent:
                case SubmitToProvider() | PollProvider() | PollEnded():
                    assert providers.try_enqueue(work)
                case DeliverCallback():
                    self.callbacks[work.transaction.reference] += 1
                case DeliverQr():
                    self.tally["codes shown"] += 1
                case intent:
                    assert_never(intent)

        outbox = Outbox()
        outbox.subscribe(hand_over)
        engine = Engine(store, clock, outbox)
        account = self.account = ProviderAccount(
            self.provider, self._exchange, moment, clock.monotonic
        )
        name = self.provider.name
        checks = AccountChecks(store.admin, {name: account}, moment, round_s=SELDOM_S)
        ask = partial(checks.ask, name)
        providers = ProviderWorker(
            engine.submit, {name: self.provider}, lambda _: account.exchange, lambda _: ask, moment
        )
        scanner = Scheduler(
            store, engine.enqueue, hand_over, lambda: True, clock.own_time, scan_interval_s=5
        )
        await life.start(engine.run)
        await life.start(partial(providers.run, drain=trio.Event()))
        await life.start(scanner.run)
        claims = DepositClaimWorker(
            store, engine.submit, {name: self.provider}, lambda _: ask, moment, 60
        )
        await life.start(partial(claims.run, drain=trio.Event()))
        await life.start(checks.run)
        await self._start_more(store, providers, life)
        floats = FloatMonitor(store.admin, {}, lambda _: ask, {}, moment)
        self.engine, self.scanner = engine, scanner
        self.hooks = Webhooks(
            {},
            store,
            engine.submit,
            checks.learn,
            floats.learn,
            ReferenceGenerator(now),
            moment,
            64 * 1024,
            enqueue=engine.enqueue,
        )

    async def _start_more(
        self, store: Store, providers: ProviderWorker, life: trio.Nursery
    ) -> None:
        """Start what only some worlds have."""

    def _kill(self) -> None:
        if self.life is None or self.is_healed:
            return
        self.tally["killed"] += 1
        self.life.cancel()
        self.life = None

    async def _kill_after(self, span: Span) -> None:
        await trio.sleep(span / SECOND)
        if any(each.progress.stage is Stage.SUBMITTING for each in self.transactions.values()):
            self.tally["killed between sending and knowing"] += self.life is not None
        self._kill()

    async def _submit(self, input_: Input) -> None:
        """Submit an input once a gateway runs."""
        while True:
            if self.life is not None and self.engine is not None:
                with contextlib.suppress(StoreUnavailable):
                    await self.engine.submit(input_)
                    return
            await trio.sleep(60)

    async def _look_up(self) -> None:
        """List stuck payments at intervals, like `mmo tx list --stuck`."""
        while True:
            await trio.sleep(SAMPLED_EVERY / SECOND)
            self.looked.append(now())
            async with self.file.open(serving=False) as store:
                for each in await store.admin.stuck_transactions(now(), limit=10_000):
                    self.stuck[each.reference].append(now())

    async def _refuse_api_operators(self) -> None:
        """Let the operator now and then refuse the merchant's API operators: a password expires or
        is locked, or a role is missing. Once that is mended, staff ask whether it is."""
        active, *refusals = self.operator.refusals
        chances = Random(self.seed)
        while not self.is_healed:
            await trio.sleep(chances.randrange(30 * MINUTE) / SECOND)
            self.tally["API operators refused"] += 1
            self._change_accounts(chances.choice(refusals))
            await trio.sleep(chances.randrange(30 * MINUTE) / SECOND)
            self._change_accounts(active)
            await self._ask_for_check()
        for _ in range(6):
            await trio.sleep(3600)
            await self._ask_for_check()

    async def _ask_for_check(self) -> None:
        """Let staff ask whether the operator accepts the account, as the alarm makes them until it
        does."""
        async with self.file.open(serving=False) as store:
            await store.admin.note_provider(
                ProviderNote(self.provider.name, NoteTopic.CHECK, content=REQUESTED)
            )

    def _change_accounts(self, members: Mapping[str, object]) -> None:
        every = set(self.operator.accounts.values())
        self.simulator.open_accounts([{"account": each, **members} for each in sorted(every)])

    # Merchants and payers.

    async def _create(self, number: int, after: Span) -> None:
        operation = self.random.choice(self.operator.operations)
        amount = self.random.randint(*self.operator.amounts)
        msisdn = self.random.choice(self.operator.msisdns)
        delay = self.random.randrange(10 * MINUTE)
        chance = self.random.random()
        await trio.sleep(after / SECOND)
        if operation is None:
            await self._deposit(amount, "SHOP" if chance < 0.7 else "NOBODY")
            return
        input_ = a_create_payment(
            numbered_reference(number),
            brand=self._brand(),
            operation=operation,
            amount=Decimal(amount),
            country=self.operator.country,
            currency=self.operator.currency,
            merchant_reference=f"order-{number}",
            reconciliation_reference=f"PRN{number}",
            party=None if operation.type is Type.TAX else a_party(msisdn=msisdn),
            display_qr_url="https://acme.example/qr" if operation.flow is Flow.QR else None,
            page_token=f"page-{number}",
        )
        await self._submit(input_)
        await trio.sleep(delay / SECOND)
        if operation.flow is Flow.WEB and chance < 0.9:
            await self._submit(ConfirmPage(numbered_reference(number)))
        if operation.flow is Flow.WEB and self.operator.confirms_elsewhere:
            await self._act_elsewhere(numbered_reference(number))
        if operation.flow is Flow.QR and chance < 0.8:
            await self._scan(number, amount + (chance < 0.1))
        if (
            operation.type is Type.PAYIN
            and operation.flow is not Flow.QR
            and self.operator.takes_deposits
        ):
            await self._pay_past_prompt(number, amount, chance)

    async def _act_elsewhere(self, reference: str) -> None:
        """Let a payer approve at the operator's page or with its code, if the gateway tells him to,
        and come back never, once or twice; sometimes somebody comes back before."""
        for _ in range(ACTS_WITHIN // ACTS_EVERY):
            await trio.sleep(ACTS_EVERY / SECOND)
            known = self.transactions.get(reference)
            asked = None if known is None else known.progress.payer_action
            match asked:
                case None | EnterCode(code=str()):
                    continue
                case EnterCode():
                    self.tally["code given"] += 1
                    for code in ("123456", "654321")[: self.random.choice((1, 2))]:
                        await self._submit(ConfirmPage(reference, code))
                case OpenUrl(url=url):
                    if self.random.random() < 0.2:
                        self.tally["came back unpaid"] += 1
                        await self._submit(PayerReturned(reference))
                    self._say_at_page(url, is_approved=self.random.random() < 0.8)
                    for _ in range(self.random.choice((0, 1, 2))):
                        self.tally["came back"] += 1
                        await self._submit(PayerReturned(reference))
            return

    def _say_at_page(self, url: str, *, is_approved: bool) -> None:
        """Press a button of the operator's page."""
        self.tally["approved" if is_approved else "declined"] += 1
        said = b"decision=approve" if is_approved else b"decision=decline"
        answer = self.simulator.handle_request(
            HttpRequest("POST", url.encode(), (), said), now=now()
        )
        assert isinstance(answer, HttpResponse)
        assert answer.status == 303, answer.body
        self._send_notifications()

    async def _pay_past_prompt(self, number: int, amount: int, chance: float) -> None:
        """Let a payer sometimes pay by the menu, with the account number of the prompt, before or
        after its end."""
        if chance < 0.2:
            self.tally["paid past the prompt"] += 1
            await self._deposit(
                amount + (chance < 0.05), account_reference(numbered_reference(number))
            )

    async def _scan(self, number: int, amount: int) -> None:
        """Let a payer scan the code, if there is one, and sometimes pay another amount."""
        if self.transactions[numbered_reference(number)].progress.stage is Stage.AWAITING_RESULT:
            await self._deposit(amount, account_reference(numbered_reference(number)))

    async def _deposit(self, amount: int, bill_reference: str) -> None:
        """Pay without a request: a client of M-Pesa's own signs in for it."""
        token = self.simulator.handle_request(CONSUMER, now=now())
        assert isinstance(token, HttpResponse)
        headers = (
            (b"content-type", b"application/json"),
            (b"authorization", b"Bearer " + json.loads(token.body)["access_token"].encode()),
        )
        document = {
            "ShortCode": 174379,
            "CommandID": "CustomerPayBillOnline",
            "Amount": amount,
            "Msisdn": int(self.random.choice(KENYANS)),
            "BillRefNumber": bill_reference,
        }
        request = HttpRequest(
            "POST", b"/mpesa/c2b/v2/simulate", headers, json.dumps(document).encode()
        )
        answer = self.simulator.handle_request(request, now=now())
        assert isinstance(answer, HttpResponse)
        assert answer.status == 200, answer.body
        self._send_notifications()
        await trio.lowlevel.checkpoint()

    async def _register(self) -> None:
        """Register URLs like `mmo providers register`, where the operator needs it."""
        adapter = self.provider.adapter
        if isinstance(adapter, DarajaProvider):
            token = self.simulator.handle_request(CONSUMER, now=now())
            assert isinstance(token, HttpResponse)
            bearer = (
                b"authorization",
                b"Bearer " + json.loads(token.body)["access_token"].encode(),
            )

            def send(request: HttpRequest) -> HttpResponse:
                signed = evolve(request, headers=(*request.headers, bearer))
                answer = self.simulator.handle_request(signed, now=now())
                assert isinstance(answer, HttpResponse)
                return answer

            drive(adapter.register_urls(), send)

    def _brand(self) -> Brand:
        lowest, highest = (
            to_money(Decimal(units), self.operator.currency) for units in (1, 10_000_000)
        )
        method = a_method(
            provider=self.provider.name,
            country=self.operator.country,
            limits={self.operator.currency: Limits(lowest, highest)},
            operations=frozenset(Operation),
            push_accounts=("174379/SHOP",),
        )
        return a_brand(methods=(method,))

    # The network.

    async def _exchange(self, request: HttpRequest) -> HttpResponse:
        """Send a request; the request or its answer may be lost."""
        is_submission = self.operator.is_submission(request)
        if is_submission and not self.is_healed and self.random.random() < 0.03:
            self.tally["killed between record and request"] += 1
            self._kill()
            await trio.sleep_forever()
        chance = 1.0 if self.is_healed else self.random.random()
        if chance < 0.05:
            self.tally["not connected"] += 1
            await trio.sleep(1)
            raise ExchangeFailed("No connection.", may_have_arrived=False)
        answered = PendingAnswer()
        if chance < 0.08:
            self.tally["request lost"] += 1
        elif chance < 0.12:
            self.tally["request late"] += 1
            late = Span(self.random.randrange(LATE_BY))
            self.network.start_soon(self._arrive, request, late, (), PendingAnswer())
        else:
            faults = () if self.is_healed else self.misfortune.next_faults(is_submission)
            soon = Span(self.random.randrange(SECOND))
            self.network.start_soon(self._arrive, request, soon, faults, answered)
        with trio.move_on_after(ANSWER_WITHIN_S):
            await answered.event.wait()
            await trio.sleep(0.3)
            if isinstance(answered.answer, HttpResponse):
                return answered.answer
            raise ExchangeFailed("The connection was closed.", may_have_arrived=True)
        raise ExchangeFailed("No answer came in time.", may_have_arrived=True)

    async def _arrive(
        self, request: HttpRequest, after: Span, faults: Sequence[Fault], answered: PendingAnswer
    ) -> None:
        """Deliver a request to the operator, even if its answer is no longer awaited."""
        await trio.sleep(after / SECOND)
        script = self.simulator.faults
        script.plan(PlannedFault(ANY_OPERATION, each) for each in faults)
        answered.answer = self.simulator.handle_request(request, now=now())
        script.plan(())
        answered.event.set()
        self._send_notifications()

    def _send_notifications(self) -> None:
        self.news.set()
        self.news = trio.Event()

    async def _call_back(self) -> None:
        """Send the operator's callbacks when they are due."""
        while True:
            news = self.news
            for request in self.simulator.take_due_callbacks(now=now()):
                self.network.start_soon(self._notify, request)
            due = self.simulator.next_due_at()
            wait_s = float("inf") if due is None else max(0.0, (due - now()) / SECOND)
            with trio.move_on_after(wait_s):
                await news.wait()

    async def _notify(self, request: HttpRequest) -> None:
        """Deliver a callback, or lose it; a callback about a deposit is repeated until it is
        accepted, as deposits cannot be polled."""
        is_deposit = b'"BillRefNumber"' in request.body
        while True:
            is_lost = not self.is_healed and self.random.random() < 0.1
            answer = None if is_lost else await self._receive_notification(request)
            if answer is None:
                self.tally["callback lost"] += 1
            if answer is not None or not is_deposit:
                break
            await trio.sleep(60)
        self.simulator.on_callback_response(request, answer, now=now())
        self._send_notifications()
        if answer is not None:
            self.heard.update(_PROMPT_RECEIPT.findall(request.body.decode()))
            self.forger.capture(request)
        if answer is not None and not self.is_healed and self.random.random() < 0.1:
            self.tally["callback told again"] += 1
            await trio.sleep(self.random.randrange(HOUR) / SECOND)
            await self._receive_notification(request)

    async def _receive_notification(self, request: HttpRequest) -> HttpResponse | None:
        """Return the gateway's answer, or None if it is killed before; its work may be durable in
        both cases."""
        if self.life is None or self.hooks is None:
            return None
        try:
            answer = await self.hooks.handle_notification(
                WebhookEndpoint(self.provider, ()), _as_received(request)
            )
        except StoreUnavailable:
            return None
        return answer if answer.status < 500 else None


def _as_received(request: HttpRequest) -> HttpRequest:
    """Return a callback as a server gets it: its target in origin-form, and its host as a
    header."""
    target = urlsplit(request.target)
    path_and_query = target.path + (b"?" + target.query if target.query else b"")
    return evolve(
        request, target=path_and_query, headers=((b"host", target.netloc), *request.headers)
    )


def open_world(operator: Operator, seed: int, *, payments: int, kills: int) -> World:
    """Return the world of this seed at its end."""
    world = World(operator, seed)
    world.play(payments, kills)
    return world


@contextlib.contextmanager
def _in_the_order_of(seed: int) -> Iterator[None]:
    """Let the seed determine the order of Trio's runnable tasks."""
    with patch.object(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True):
        _run._r.seed(seed)
        yield
