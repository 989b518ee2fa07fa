"""Runs a gateway of one account for the steps of a rehearsal: the product's own engine, workers and
receiver of notifications, on a store of the rehearsal's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from attrs import Factory, define, evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.providers.common.interface import ExchangeFailed, Provider
from mmo_sansio.providers.common.recording import RecordedExchange, Redactor
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.values.clock import MILLISECOND, elapsed
from mmo_sansio.values.problems import Problem
from mmo_trio.api.merchant_api import ApiHandler
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.rehearsal.folder import BegunStep, RehearsalFolder
from mmo_trio.service.resources import Resources, build_resources
from mmo_trio.service.wiring import Components, assemble
from mmo_trio.settings import Settings
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.ids import ReferenceGenerator
from mmo_trio.workers.providers.account import ProviderAccount, SendRequest

# The address of callbacks where none can come.
NOWHERE: Final = "https://callbacks.invalid"


class RealMoney(ExchangeFailed):
    """Raised instead of sending to a host behind which real money is."""


# Seconds for which a notification waits for the next step: some operators send each once.
HELD_FOR_S: Final = 10.0


@define(eq=False)
class CallbackDoor:
    """Receives notifications as long as the rehearsal runs, and gives them to the gateway of its
    present step."""

    _inner: ApiHandler | None = None
    _opened: trio.Event = Factory(trio.Event)

    @contextmanager
    def leading_to(self, handler: ApiHandler) -> Iterator[None]:
        """Give them to this handler during the block."""
        self._inner = handler
        self._opened.set()
        try:
            yield
        finally:
            self._inner = None
            self._opened = trio.Event()

    async def admit(
        self, head: RequestHead, context: RequestContext, /
    ) -> HttpResponse | Problem | Admitted:
        # Between two steps there is no gateway for a moment.
        with trio.move_on_after(HELD_FOR_S):
            await self._opened.wait()

        if self._inner is None:
            return HttpResponse(503, ((b"retry-after", b"1"),))
        return await self._inner.admit(head, context)


@frozen
class RehearsalGateway:
    """What a step needs of its gateway."""

    store: Store
    submit: Callable[[Input], Awaitable[Reply]]
    account: ProviderAccount
    clock: GatewayClock
    shown: Callable[[str], str] = field(repr=False)
    """Returns an id or a number as the recordings show it."""


@frozen
class AccountOpener:
    """Opens the gateway of an account, again for each step: what an adapter remembers of the step
    before, such as a market's terms, would be missing in the recording of the next."""

    settings: Settings
    """With this account alone, and the rehearsal's own store and master key."""
    name: str
    may_send: Callable[[str], bool]
    """Tells of a host that no real money is behind it, or that a person has allowed it."""
    clock: GatewayClock
    door: CallbackDoor

    def open_store(self) -> AbstractAsyncContextManager[Store]:
        """Open the rehearsal's store."""
        return open_store(self.settings.database.url, serving=True)

    def next_reference(self) -> str:
        """Return a fresh gatewayReference."""
        return ReferenceGenerator(self.clock.wall_time).next()

    @asynccontextmanager
    async def open_adapter(self) -> AsyncIterator[tuple[Provider, str]]:
        """Give the adapter, to which nothing is sent during the block, and the address of its
        notifications."""
        async with self.open_store() as store:
            resources = await self._resources(store)
            components = assemble(resources)
            account = components.workers.account_checks.accounts[self.name]
            yield adapter_of(account), _address(resources, components)

    @asynccontextmanager
    async def open(
        self, folder: RehearsalFolder, step: str, begun: BegunStep
    ) -> AsyncIterator[RehearsalGateway]:
        """Run the gateway during the block; what is said is recorded for this step."""
        async with self.open_store() as store:
            resources = await self._resources(store)
            components = assemble(resources)
            # One key for all steps: the same number has the same stand-in in each recording.
            redactor = components.workers.recorder.open_redactor[self.name](folder.recording_key)
            recorder = StepRecorder(folder, step, begun, redactor, self.clock)

            account = components.workers.account_checks.accounts[self.name]
            account.send_request = partial(
                recorder.send, send=account.send_request, may_send=self.may_send
            )

            # Questions go the same way: guarded, and recorded.
            account.send_question = None
            path = urlsplit(_address(resources, components)).path
            components.api.webhooks.observe = partial(recorder.observe_notification, path)
            async with self._running(components):
                yield RehearsalGateway(
                    store, components.engine.submit, account, self.clock, redactor.shown
                )

    async def _resources(self, store: Store) -> Resources:
        config = ServiceConfig(self.settings, is_sandbox=True)
        nowhere = ServiceAddresses(NOWHERE, NOWHERE, NOWHERE)
        return await build_resources(config, store, nowhere, clock=self.clock)

    @asynccontextmanager
    async def _running(self, components: Components) -> AsyncIterator[None]:
        """Run what sends, asks and receives, and nothing that asks by itself."""
        # No checks of the account, no inquiries for balances, no callbacks: they would be recorded
        # as part of the step, or reach somebody.
        workers = components.workers
        never = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(components.engine.run)
            await nursery.start(partial(workers.providers.run, drain=never))
            await nursery.start(partial(workers.reversals.run, drain=never))
            nursery.start_soon(workers.dispatcher.run)
            await nursery.start(workers.scheduler.run)
            with self.door.leading_to(components.api):
                yield

            nursery.cancel_scope.cancel()


def adapter_of(account: ProviderAccount) -> Provider:
    """Return the adapter itself, for what only its kind can do."""
    provider = account.provider
    if isinstance(provider, RedactingProvider):
        return provider.adapter
    return provider


def _address(resources: Resources, components: Components) -> str:
    """Return where the operator's notifications come to."""
    ((name, endpoint),) = components.api.webhooks.endpoints.items()
    return f"{resources.urls.webhooks}/hooks/{name}/{endpoint.tokens[0]}"


@define(eq=False)
class StepRecorder:
    """Records what is said in a step, redacted, before anything else learns it."""

    folder: RehearsalFolder
    step: str
    begun: BegunStep
    redactor: Redactor = field(repr=False)
    clock: GatewayClock
    _sent: int = 0

    async def send(
        self, request: HttpRequest, *, send: SendRequest, may_send: Callable[[str], bool]
    ) -> HttpResponse:
        """Send a request of the gateway, unless real money is behind its host. Raises
        ExchangeFailed."""
        host = host_of(request)
        if not may_send(host):
            raise RealMoney(f"{host} is no sandbox.", may_have_arrived=False)

        # Noted before it is sent: a run that is killed leaves what may have arrived.
        self._sent += 1
        number = {"number": f"{self.begun.runs}.{self._sent}"}
        unanswered = ExchangeFailed("The rehearsal was interrupted.", may_have_arrived=True)
        sent = {**self._line(request, unanswered), **number}
        self.folder.note_sending(self.step, sent)
        outcome: HttpResponse | ExchangeFailed
        try:
            outcome = await send(request)
        except ExchangeFailed as failure:
            outcome = failure
        except trio.Cancelled:
            # Its time is over.
            self.folder.append(self.step, sent)
            self.folder.note_answered()
            raise

        self.folder.append(self.step, {**self._line(request, outcome), **number})
        self.folder.note_answered()
        if isinstance(outcome, ExchangeFailed):
            raise outcome

        return outcome

    def observe_notification(
        self, path: str, _: str, request: HttpRequest, answer: HttpResponse
    ) -> None:
        """Record a notification that came to an address below this path."""
        line = self._line(request, answer, is_from_operator=True)
        suffix = request.target.decode("latin-1").removeprefix(path)

        # Only our own reference is kept: anybody may send anything to such an address.
        if suffix.strip("/") != self.begun.reference:
            suffix = ""

        self.folder.append(self.step, {**line, "suffix": suffix})

    def _line(
        self,
        request: HttpRequest,
        answer: HttpResponse | ExchangeFailed,
        *,
        is_from_operator: bool = False,
    ) -> Mapping[str, Any]:
        offset_ms = elapsed(self.begun.began_at, self.clock.wall_time()) // MILLISECOND
        exchange = RecordedExchange(is_from_operator, offset_ms, request, answer)
        return self.redactor.to_fields(exchange)


def host_of(request: HttpRequest) -> str:
    """Return the host that a request goes to."""
    return urlsplit(request.target.decode("latin-1")).hostname or ""


def settings_of_account(
    settings: Settings, name: str, folder: RehearsalFolder, url: str
) -> Settings:
    """Return the settings of the rehearsal's gateway, whose notifications come to this address."""
    private = folder.private.absolute()
    return evolve(
        settings,
        gateway=evolve(settings.gateway, hooks_url=url, base_url=None),
        database=evolve(settings.database, url=f"sqlite:///{private / 'payments.db'}"),
        keys=evolve(settings.keys, master_key_file=private / "master.key"),
        providers={name: settings.providers[name]},
    )
