"""Plays one payment with an operator's simulator in virtual time: what is lost, refused or
contradicted is written in a script, and nothing is left to chance.

Engine, provider worker, account, hooks, scanner and store are those that serve; only the network
between gateway and operator is played. Whole gateways, and chance, are in `tests/simulation`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import assert_never
from urllib.parse import urlsplit

import trio
from attrs import evolve, frozen
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ConfirmPage, PayerReturned
from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    PollEnded,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.providers.common.interface import ExchangeFailed, drive
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
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
    SECOND,
    Instant,
    Moment,
    MonotonicInstant,
    Span,
    elapsed,
    later,
)
from mmo_sansio.values.model import Brand, Flow, Limits, Operation, Transaction, Type
from mmo_sansio.values.money import Money
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_simulators.common.faults import Fault, PlannedFault
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.sql.payment_history import suspense
from mmo_trio.storage.sql.statements import run_query
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite.connection import connect, run_statement
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.ids import ReferenceGenerator
from mmo_trio.workers.providers.account import ProviderAccount, WebhookEndpoint
from mmo_trio.workers.providers.account_notes import AccountChecks
from mmo_trio.workers.providers.deposits import DepositClaimWorker, DepositLister
from mmo_trio.workers.providers.float_monitor import FloatMonitor
from mmo_trio.workers.providers.open_accounts import OpenAccount
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scheduler
from tests.support.operator_kinds import CONSUMER, Operator
from tests.support.sqlite_store import StoreFile
from tests.support.stored_ledger import stored_ledger

ALWAYS = 1_000_000
"""How many requests a fault applies to that has no end."""
REFERENCE = numbered_reference(0)
LOOKS_EVERY_S = 5.0
"""The interval at which the payer looks at the page for what to do elsewhere, and the scanner for
what is due."""
LOOKS_FOR_S = 40 * 60.0
SELDOM_S = 300
"""The interval of what would only take time in so long a course."""
LASTS = Span(3 * 24 * HOUR + 6 * HOUR)


def now() -> Instant:
    """Return the course's time."""
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


@frozen
class Script:
    """What happens to the payment."""

    faults: Mapping[str, Sequence[Fault]]
    """By the simulator's name of an operation: the first request meets them."""
    always: Mapping[str, Fault] = {}
    """By operation, what every request meets."""
    refused: Mapping[str, object] | None = None
    """Members of the merchant's accounts at the operator, from the beginning."""


class Course:
    """Is the course of events of one payment."""

    def __init__(self, operator: Operator, operation: Operation, script: Script) -> None:
        self.operator = operator
        self.operation = operation
        self.script = script
        adapter, self.simulator = operator.open()
        self.provider = RedactingProvider(adapter)
        self.file = StoreFile()
        self.rows = connect(self.file.path, query_only=True)

    @property
    def payment(self) -> Transaction:
        """Return the payment."""
        return stored_ledger(self.rows).transactions[REFERENCE]

    @property
    def suspense(self) -> Sequence[SuspenseEntry]:
        """Return the suspense entries."""
        query = suspense(with_closed=True, limit=10_000)
        return run_query(query, partial(run_statement, self.rows))

    @property
    def ended_after(self) -> Span:
        """Return how long after its creation the payment ended."""
        assert self.payment.progress.completed_at is not None
        return elapsed(self.payment.order.created_at, self.payment.progress.completed_at)

    @property
    def is_paid(self) -> bool:
        """Tell whether the operator has moved the money."""
        return any(each["result"] == "success" for each in self.simulator.snapshot()["payments"])

    async def run(self) -> None:
        """Make the payment, and wait until all that can come of it has come."""
        async with self.file.open() as store, trio.open_nursery() as tasks:
            await store.admin.save_brands([self._brand()])
            self.tasks, self.news = tasks, trio.Event()
            await self._start(store)
            tasks.start_soon(self._call_back)
            self._register()
            self._plan()

            await self._pay()
            await trio.sleep(3600)
            self.scanner.scan_interval_s = SELDOM_S  # Nothing is quick any more.
            await trio.sleep(LASTS / SECOND)
            tasks.cancel_scope.cancel()

    # The gateway.

    async def _start(self, store: Store) -> None:
        """Assemble and start a gateway without listeners."""
        clock, outbox = VirtualClock(), Outbox()
        engine = self.engine = Engine(store, clock, outbox)
        name = self.provider.name
        account = ProviderAccount(self.provider, self._exchange, moment, clock.monotonic)
        checks = AccountChecks(store.admin, {name: account}, moment, round_s=SELDOM_S)
        ask = partial(checks.ask, name)
        providers = ProviderWorker(
            engine.submit, {name: self.provider}, lambda _: account.exchange, lambda _: ask, moment
        )

        def hand_over(work: WorkItem) -> None:
            match work.intent:
                case SubmitToProvider() | PollProvider() | PollEnded():
                    assert providers.try_enqueue(work)
                case DeliverCallback() | DeliverQr():
                    pass
                case intent:
                    assert_never(intent)

        outbox.subscribe(hand_over)
        self.scanner = Scheduler(
            store,
            engine.enqueue,
            hand_over,
            lambda: True,
            clock.own_time,
            scan_interval_s=LOOKS_EVERY_S,
        )
        claims = DepositClaimWorker(
            store, engine.submit, {name: self.provider}, lambda _: ask, moment, 60
        )
        floats = FloatMonitor(store.admin, {}, lambda _: ask, {}, moment)
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
        await self.tasks.start(engine.run)
        await self.tasks.start(partial(providers.run, drain=trio.Event()))
        await self.tasks.start(self.scanner.run)
        await self.tasks.start(partial(claims.run, drain=trio.Event()))
        await self.tasks.start(checks.run)
        self._list_deposits(store, account)

    def _list_deposits(self, store: Store, account: ProviderAccount) -> None:
        """List what was paid, where the operator does."""
        adapter = self.provider.adapter
        if not isinstance(adapter, DarajaProvider) or adapter.account.pull_number is None:
            return
        endpoint = WebhookEndpoint(self.provider, ("token",))
        lister = DepositLister(
            store,
            self.engine.submit,
            (OpenAccount(adapter, self.provider, account, "ke", endpoint),),
            moment,
            ReferenceGenerator(now).next,
            scan_interval_s=60,
        )
        self.tasks.start_soon(lister.run)

    def _brand(self) -> Brand:
        currency = self.operator.currency
        method = a_method(
            provider=self.provider.name,
            country=self.operator.country,
            limits={currency: Limits(Money(1, currency), Money(1_000_000_000, currency))},
            operations=frozenset(Operation),
            push_accounts=("174379/SHOP",),
        )
        return a_brand(methods=(method,))

    # The merchant and the payer.

    async def _pay(self) -> None:
        is_tax = self.operation.type is Type.TAX
        await self.engine.submit(
            a_create_payment(
                REFERENCE,
                brand=self._brand(),
                operation=self.operation,
                country=self.operator.country,
                currency=self.operator.currency,
                reconciliation_reference="PRN1234XN",
                party=None if is_tax else a_party(msisdn=self.operator.msisdn),
            )
        )
        if self.operation.flow is Flow.WEB:
            await self.engine.submit(ConfirmPage(REFERENCE))
            if self.operator.confirms_elsewhere:
                await self._act_elsewhere()

    async def _act_elsewhere(self) -> None:
        """Let the payer approve at the operator's page or with its code, and come back."""
        for _ in range(round(LOOKS_FOR_S / LOOKS_EVERY_S)):
            await trio.sleep(LOOKS_EVERY_S)
            match self.payment.progress.payer_action:
                case None | EnterCode(code=str()):
                    continue
                case EnterCode():
                    await self.engine.submit(ConfirmPage(REFERENCE, "123456"))
                case OpenUrl(url=url):
                    self._approve(url)
                    await self.engine.submit(PayerReturned(REFERENCE))
            return

    def _approve(self, url: str) -> None:
        """Press the button of the operator's page."""
        request = HttpRequest("POST", url.encode(), (), b"decision=approve")
        answer = self.simulator.handle_request(request, now=now())
        assert isinstance(answer, HttpResponse)
        assert answer.status == 303, answer.body
        self._send_notifications()

    # The operator, and the network.

    def _plan(self) -> None:
        """Let go wrong what the script says."""
        if self.script.refused is not None:
            accounts = sorted(set(self.operator.kind.accounts.values()))
            self.simulator.open_accounts(
                [{"account": each, **self.script.refused} for each in accounts]
            )
        planned = [
            PlannedFault(at, each) for at, faults in self.script.faults.items() for each in faults
        ]
        planned += [PlannedFault(at, each, times=ALWAYS) for at, each in self.script.always.items()]
        self.simulator.faults.plan(planned)

    def _register(self) -> None:
        """Register URLs like `mmo providers register`, where the operator needs it."""
        adapter = self.provider.adapter
        if not isinstance(adapter, DarajaProvider):
            return
        token = self.simulator.handle_request(CONSUMER, now=now())
        assert isinstance(token, HttpResponse)
        bearer = b"Bearer " + json.loads(token.body)["access_token"].encode()

        def send(request: HttpRequest) -> HttpResponse:
            signed = evolve(request, headers=(*request.headers, (b"authorization", bearer)))
            answer = self.simulator.handle_request(signed, now=now())
            assert isinstance(answer, HttpResponse)
            return answer

        drive(adapter.register_urls(), send)

    async def _exchange(self, request: HttpRequest) -> HttpResponse:
        await trio.sleep(0.3)
        answer = self.simulator.handle_request(request, now=now())
        self._send_notifications()
        if isinstance(answer, HttpResponse):
            return answer
        raise ExchangeFailed("The connection was closed.", may_have_arrived=True)

    def _send_notifications(self) -> None:
        self.news.set()
        self.news = trio.Event()

    async def _call_back(self) -> None:
        """Send the operator's callbacks when they are due."""
        while True:
            news = self.news
            for request in self.simulator.take_due_callbacks(now=now()):
                self.tasks.start_soon(self._notify, request)
            due = self.simulator.next_due_at()
            wait_s = float("inf") if due is None else max(0.0, (due - now()) / SECOND)
            with trio.move_on_after(wait_s):
                await news.wait()

    async def _notify(self, request: HttpRequest) -> None:
        """Deliver a callback."""
        endpoint = WebhookEndpoint(self.provider, ())
        answer = await self.hooks.handle_notification(endpoint, _as_received(request))
        self.simulator.on_callback_response(request, answer, now=now())
        self._send_notifications()


def _as_received(request: HttpRequest) -> HttpRequest:
    """Return a callback as a server gets it: its target in origin-form, and its host as a
    header."""
    target = urlsplit(request.target)
    path_and_query = target.path + (b"?" + target.query if target.query else b"")
    headers = ((b"host", target.netloc), *request.headers)
    return evolve(request, target=path_and_query, headers=headers)


def play(operator: Operator, operation: Operation, script: Script) -> Course:
    """Return the course at its end."""
    course = Course(operator, operation, script)
    trio.run(course.run, clock=MockClock(autojump_threshold=0))
    return course
