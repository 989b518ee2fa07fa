"""One gateway process: every part of it, what is done before it serves, and its workers' beginning and end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio
from attrs import Factory, define, evolve

from mmo_sansio.http.egress_rules import EgressRules
from mmo_trio.api.merchant_api import MerchantApi
from mmo_trio.brands.apply import apply_brands_file
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.console import Figures
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.engine.engine import Engine
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.request_metrics import Traffic
from mmo_trio.pages.context import Desk, SandboxDesk
from mmo_trio.pages.docs.pages import Papers
from mmo_trio.sandbox.demo_brand import DEMO_BRAND, ensure_demo_brand
from mmo_trio.sandbox.operator_process import OperatorLine
from mmo_trio.sandbox.operator_worker import SandboxWorker
from mmo_trio.settings.service import Ready, ServiceConfig
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import WallClock
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import ChannelKeeper
from mmo_trio.workers.delivery.qr_codes import QrWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.availability import Switches
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scanner


@define(eq=False)
class Gateway:
    """Every part of one gateway process, wired."""

    config: ServiceConfig
    store: Store
    clock: WallClock
    keyring: KeyRing
    engine: Engine
    api: MerchantApi
    listener_limits: ListenerLimits
    providers: ProviderWorker
    callbacks: CallbackWorker
    qr_codes: QrWorker
    keeper: ChannelKeeper | None
    dispatcher: Dispatcher
    scanner: Scanner
    switches: Switches
    operator: SandboxWorker | OperatorLine
    desk: Desk
    sandbox_desk: SandboxDesk | None
    papers: Papers
    figures: Figures
    console_desk: ConsoleDesk
    traffic: Traffic
    addresses: Ready
    titles: Mapping[str, str]
    rules: EgressRules
    _ended: list[trio.Event] = Factory(list)

    async def prepare(self) -> Ready:
        """Apply the brands that it shall start with; what the READY line says."""
        now = self.clock.now()
        if self.config.brands_file is not None:
            await apply_brands_file(
                self.config.brands_file, self.store, self.keyring, self.titles, self.rules, now=now
            )
        if not self.config.has_demo_brand:
            return self.addresses
        provider = next(iter(self.titles))
        key = await ensure_demo_brand(
            self.store, self.keyring, provider=provider, title=self.titles[provider], now=now
        )
        return evolve(self.addresses, brand=DEMO_BRAND, api_key=key)

    async def start_workers(self, nursery: trio.Nursery, stop: trio.Event) -> None:
        """Start all workers; those that talk to others drain when `stop` is set."""
        if self.keeper is None:
            for brand, kept in (await self.store.breakers()).items():
                self.callbacks.adopt(brand, kept)
        await nursery.start(self.operator.run)
        await nursery.start(self.switches.run)
        callbacks_ended = self._end()
        runs = [
            (partial(self.callbacks.run, drain=stop), callbacks_ended),
            (partial(self.providers.run, drain=stop), self._end()),
            (partial(self.qr_codes.run, drain=stop), self._end()),
        ]
        if self.keeper is not None:  # It holds on to what the callback worker has under way.
            keep = partial(self.keeper.run, drain=stop, ended=callbacks_ended)
            runs.append((keep, self._end()))
        for run, ended in runs:
            await nursery.start(_run_to_its_end, run, ended)
        nursery.start_soon(self.figures.share)
        nursery.start_soon(self.dispatcher.run)
        await nursery.start(self.scanner.run)

    def _end(self) -> trio.Event:
        """To be set when a worker has ended; `workers_ended` waits for it."""
        self._ended.append(trio.Event())
        return self._ended[-1]

    async def workers_ended(self) -> None:
        """Return once no conversation and no callback is under way."""
        for each in self._ended:
            await each.wait()


async def _run_to_its_end(
    run: Callable[..., Awaitable[None]],
    ended: trio.Event,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    await run(task_status=task_status)
    ended.set()
