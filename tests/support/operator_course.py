"""Plays one payment with an operator's simulator in virtual time: what is lost, refused or
contradicted is written in a script, and nothing is left to chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import trio
from attrs import frozen
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ConfirmPage
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.testing import a_create_payment, a_party, numbered_reference
from mmo_sansio.values.clock import SECOND, Span, elapsed
from mmo_sansio.values.model import Flow, Operation, Transaction, Type
from mmo_simulators.common.faults import Fault, PlannedFault
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.ids import ReferenceGenerator
from mmo_trio.workers.providers.account import WebhookEndpoint
from mmo_trio.workers.providers.deposits import DepositLister
from mmo_trio.workers.providers.open_accounts import OpenAccount
from tests.support.operator_kinds import Operator
from tests.support.operator_world import LASTS, SELDOM_S, World, moment, now

ALWAYS = 1_000_000
"""How many requests a fault applies to that has no end."""


@frozen
class Script:
    """What happens to the payment."""

    faults: Mapping[str, Sequence[Fault]]
    """By the simulator's name of an operation: the first request meets them."""
    always: Mapping[str, Fault] = {}
    """By operation, what every request meets."""
    refused: Mapping[str, object] | None = None
    """Members of the merchant's accounts at the operator, from the beginning."""
    loses_callbacks: bool = False
    then: Callable[[ScriptedWorld], None] | None = None
    """What somebody does five minutes after the payment has begun."""


class ScriptedWorld(World):
    """Simulates the course of events of one payment."""

    def __init__(self, operator: Operator, operation: Operation, script: Script) -> None:
        super().__init__(operator, 0)
        self.operation, self.script = operation, script

    @property
    def payment(self) -> Transaction:
        """Return the payment."""
        return self.transactions[numbered_reference(0)]

    @property
    def ended_after(self) -> Span:
        """Return how long after its creation the payment ended."""
        assert self.payment.progress.completed_at is not None
        return elapsed(self.payment.order.created_at, self.payment.progress.completed_at)

    @property
    def is_paid(self) -> bool:
        """Tell whether the operator has moved the money."""
        return any(each["result"] == "success" for each in self.simulator.snapshot()["payments"])

    async def _run(self, payments: int, kills: int) -> None:
        async with self.file.open() as store:
            await store.admin.save_brands([self._brand()])
        async with trio.open_nursery() as network:
            self.network, self.news = network, trio.Event()
            network.start_soon(self._run_lives)
            network.start_soon(self._call_back)
            await trio.sleep(1)
            await self._register()
            if self.script.refused is not None:
                self._change_accounts(self.script.refused)
            planned = [
                PlannedFault(at, each)
                for at, faults in self.script.faults.items()
                for each in faults
            ]
            planned += [
                PlannedFault(at, each, times=ALWAYS) for at, each in self.script.always.items()
            ]
            self.simulator.faults.plan(planned)
            await self._pay()
            await trio.sleep(300)
            if self.script.then is not None:
                self.script.then(self)
                self._send_notifications()
            assert self.scanner is not None
            await trio.sleep(3600)
            self.scanner.scan_interval_s = SELDOM_S
            await trio.sleep(LASTS / SECOND)
            network.cancel_scope.cancel()

    async def _start(self, store: Store, life: trio.Nursery) -> None:
        await super()._start(store, life)
        adapter = self.provider.adapter
        if isinstance(adapter, DarajaProvider) and adapter.account.pull_number is not None:
            assert self.account is not None
            assert self.engine is not None
            account = OpenAccount(
                adapter,
                self.provider,
                self.account,
                "ke",
                WebhookEndpoint(self.provider, ("token",)),
            )
            lister = DepositLister(
                store,
                self.engine.submit,
                (account,),
                moment,
                ReferenceGenerator(now).next,
                scan_interval_s=60,
            )
            life.start_soon(lister.run)

    async def _pay(self) -> None:
        await self._submit(
            a_create_payment(
                numbered_reference(0),
                brand=self._brand(),
                operation=self.operation,
                country=self.operator.country,
                currency=self.operator.currency,
                reconciliation_reference="PRN1234XN",
                party=None
                if self.operation.type is Type.TAX
                else a_party(msisdn=self.operator.msisdns[0]),
            )
        )
        if self.operation.flow is Flow.WEB:
            await self._submit(ConfirmPage(numbered_reference(0)))
        if self.operator.confirms_elsewhere and self.operation.flow is Flow.WEB:
            await self._act_elsewhere(numbered_reference(0))

    def _say_at_page(self, url: str, *, is_approved: bool) -> None:
        super()._say_at_page(url, is_approved=True)

    async def _exchange(self, request: HttpRequest) -> HttpResponse:
        await trio.sleep(0.3)
        answer = self.simulator.handle_request(request, now=now())
        self._send_notifications()
        if isinstance(answer, HttpResponse):
            return answer
        raise ExchangeFailed("The connection was closed.", may_have_arrived=True)

    async def _notify(self, request: HttpRequest) -> None:
        is_about_payment = b'"BillRefNumber"' in request.body or not self.script.loses_callbacks
        answer = await self._receive_notification(request) if is_about_payment else None
        self.simulator.on_callback_response(request, answer, now=now())
        self._send_notifications()


def play(operator: Operator, operation: Operation, script: Script) -> ScriptedWorld:
    """Return the world at its end."""
    world = ScriptedWorld(operator, operation, script)
    trio.run(world._run, 1, 0, clock=MockClock(autojump_threshold=0))
    return world
