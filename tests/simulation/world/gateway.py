"""Runs the gateway processes of a simulated world, put together by the functions that put together
every service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast

import trio
from attrs import Factory, define, frozen

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.providers.common.interface import (
    Conversation,
    Provider,
    ReversalConversation,
    ReversesPayments,
)
from mmo_sansio.providers.common.operations import OperationKey, ReversalOperation
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.reversals import Reversal
from mmo_trio.console.context import ConsoleContext
from mmo_trio.http.client.client import HttpClient
from mmo_trio.service.process import Listeners, Shutdown, run_components
from mmo_trio.service.resources import HttpClients, build_resources
from mmo_trio.service.store_recognition import recognise_store
from mmo_trio.service.wiring import Components, assemble
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sql.store import Store
from tests.simulation.network.machines import SimulatedMachine
from tests.simulation.world.commits import WorldCommits
from tests.simulation.world.files import API_PORT, CONSOLE_PORT, GATEWAY_HOST, PAGES_PORT
from tests.simulation.world.process import SimulatedProcess

OpenStore: TypeAlias = Callable[[SimulatedProcess], AbstractAsyncContextManager[Store]]
"""Opens the world's store for one process."""

ADDRESSES: Final = ServiceAddresses(
    api=f"http://{GATEWAY_HOST}:{API_PORT}",
    pages=f"http://{GATEWAY_HOST}:{PAGES_PORT}",
    console=f"http://{GATEWAY_HOST}:{CONSOLE_PORT}",
)
CONSOLE_TIMEOUT_S: Final = 60.0
"""How long a user of the console waits."""
PORTS: Final = (("api", API_PORT), ("pages", PAGES_PORT), ("console", CONSOLE_PORT))


@define(eq=False)
class WorldLife:
    """Is one gateway process."""

    process: SimulatedProcess
    drain: trio.Event = Factory(trio.Event)
    components: Components | None = None
    """None until it serves."""


@define(eq=False)
class WorldGateway:
    """Is a machine on which one gateway process follows the other."""

    machine: SimulatedMachine
    life: WorldLife | None = None
    """None while no process runs."""
    may_start: trio.Event = Factory(trio.Event)
    """Set while the next process may start."""
    _faults: int = 0
    """How many faults keep the next process from starting."""

    @property
    def has_waiting_polls(self) -> bool:
        """Whether a poll, or a submission, waits until its process sends it."""
        components = None if self.life is None else self.life.components
        return components is not None and components.workers.providers.waiting > 0

    async def act(self, act: Callable[[ConsoleContext], Awaitable[object]]) -> None:
        """Let its process do this for a user of the console, as far as it serves and its store
        does."""
        life = self.life
        if life is None or life.components is None:
            return
        with trio.move_on_after(CONSOLE_TIMEOUT_S):
            try:
                await life.process.call(partial(act, life.components.console_context))
            except* (StoreUnavailable, OutcomeUnknown):
                pass

    @contextmanager
    def kept_down(self) -> Iterator[None]:
        """Let no process start while the block lasts; several faults may do so at a time."""
        if not self._faults:
            self.may_start = trio.Event()
        self._faults += 1
        try:
            yield
        finally:
            self._faults -= 1
            if not self._faults:
                self.may_start.set()


@frozen
class _ObservedProvider:
    """Is a provider whose conversations about payments are observed; see `Provider` and
    `ReversesPayments`."""

    provider: Provider
    commits: WorldCommits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.provider, name)

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        self.commits.observe_conversation(transaction.reference, is_submission=True)
        return self.provider.submit(transaction, now=now)

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        self.commits.observe_conversation(transaction.reference, is_submission=False)
        return self.provider.poll(transaction, now=now)

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        return self._reversing.reversal_operations

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> ReversalConversation:
        return self._reversing.reverse(reversal, transaction, now=now)

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> ReversalConversation:
        return self._reversing.poll_reversal(reversal, transaction, now=now)

    @property
    def _reversing(self) -> ReversesPayments:
        return cast(ReversesPayments, self.provider)  # Every operator of a world is one.


async def run_gateway(
    config: ServiceConfig,
    process: SimulatedProcess,
    open_store: OpenStore,
    *,
    drain: trio.Event,
    commits: WorldCommits,
    on_ready: Callable[[Components], None],
) -> None:
    """Run one gateway process from its start until `drain` is set and everything in flight has
    ended.

    Raises what the start of a service raises: SettingsError, StoreUnusable and StoreUnavailable."""

    def open_clients(config: ServiceConfig, rules: EgressRules) -> HttpClients:
        return HttpClients(
            deliveries=_client(process, rules), providers=_client(process, EgressRules())
        )

    async with open_store(process) as store:
        listening = {name: process.listen(port) for name, port in PORTS}
        async with _recognised(store, config, drain):
            resources = await build_resources(
                config, store, ADDRESSES, clock=process.gateway_clock(), open_clients=open_clients
            )
            components = assemble(resources)
            worker = components.workers.providers
            worker.providers = {
                name: cast(Provider, _ObservedProvider(each, commits))
                for name, each in worker.providers.items()
            }
            listeners = Listeners(components, config.settings, listening, None, Shutdown(drain))
            await run_components(resources, listeners, lambda ready: on_ready(components))


@asynccontextmanager
async def _recognised(
    store: Store, config: ServiceConfig, drain: trio.Event
) -> AsyncIterator[None]:
    """Recognise the store and keep its mark while the block lasts, as a service does, in a world
    that names a file for it: in others no store is restored."""
    if config.settings.database.mark_file is None:
        yield
        return
    keeper = await recognise_store(store, config)
    async with trio.open_nursery() as marks:
        marks.start_soon(keeper.run, drain.set)
        yield
        await keeper.write_last()
        marks.cancel_scope.cancel()


def _client(process: SimulatedProcess, rules: EgressRules) -> HttpClient:
    return HttpClient(rules=rules, network=process.network, resolver=process.network.look_up)
