"""Runs a gateway process of a simulated world, put together by the functions that put together every service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import trio
from attrs import Factory, define

from mmo_sansio.http.egress_rules import EgressRules
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.streams import ConnectionListener
from mmo_trio.service.components import Components
from mmo_trio.service.listeners import Listeners, Shutdown
from mmo_trio.service.process import run_components
from mmo_trio.service.wiring import HttpClients, assemble, build_resources
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.testing.world_files import API_PORT, CONSOLE_PORT, GATEWAY_HOST, PAGES_PORT

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the world's store for one process."""

ADDRESSES = ServiceAddresses(
    api=f"http://{GATEWAY_HOST}:{API_PORT}",
    pages=f"http://{GATEWAY_HOST}:{PAGES_PORT}",
    console=f"http://{GATEWAY_HOST}:{CONSOLE_PORT}",
)


class Machine(Protocol):
    """Is what a process of a simulated world needs of the machine on which it runs."""

    @property
    def name(self) -> str:
        """The machine's name in the trace."""
        ...

    def listen(self, port: int) -> ConnectionListener:
        """Return a listener at this port of the machine's address."""
        ...

    def clock(self) -> GatewayClock:
        """Return the clock of a new process."""
        ...

    def http_client(self, rules: EgressRules) -> HttpClient:
        """Return a client whose connections begin at this machine."""
        ...


@define(eq=False)
class WorldLife:
    """Is one gateway process."""

    drain: trio.Event = Factory(trio.Event)
    scope: trio.CancelScope = Factory(trio.CancelScope)
    ended: trio.Event = Factory(trio.Event)
    components: Components | None = None
    """None until it serves."""


@define(eq=False)
class WorldGateway:
    """Is a machine on which one gateway process follows the other."""

    machine: Machine
    life: WorldLife | None = None
    """None while no process runs."""
    start_again: trio.Event = Factory(trio.Event)

    def kill(self) -> None:
        """End the process at once."""
        if self.life is not None:
            self.life.scope.cancel()


async def run_gateway(
    config: ServiceConfig,
    machine: Machine,
    open_store: OpenStore,
    *,
    drain: trio.Event,
    on_ready: Callable[[Components], None],
) -> None:
    """Run one gateway process from its start until `drain` is set and everything in flight has ended.

    Raises what the start of a service raises: SettingsError, StoreUnusable and StoreUnavailable."""

    def open_clients(config: ServiceConfig, rules: EgressRules) -> HttpClients:
        return HttpClients(deliveries=machine.http_client(rules), providers=machine.http_client(EgressRules()))

    async with open_store() as store:
        ports = {"api": API_PORT, "pages": PAGES_PORT, "console": CONSOLE_PORT}
        listening = {name: machine.listen(port) for name, port in ports.items()}
        resources = await build_resources(config, store, ADDRESSES, clock=machine.clock(), open_clients=open_clients)
        components = assemble(resources)
        listeners = Listeners(components, config.settings, listening, None, Shutdown(drain), ())
        await run_components(resources, listeners, lambda ready: on_ready(components))
