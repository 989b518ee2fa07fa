"""One gateway process: every part of it, what is done before it serves, and its workers' beginning and end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio
from attrs import Factory, define, evolve

from mmo_sansio.http.egress_rules import EgressRules
from mmo_trio.api.api_handler import ApiHandler
from mmo_trio.brands.apply import apply_brands_file
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.console import PrometheusExporter
from mmo_trio.console.context import ConsoleContext
from mmo_trio.engine.engine import Engine
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.docs.pages import ApiDocs
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID, ensure_demo_brand
from mmo_trio.sandbox.operator_process import OperatorClient
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import WallClock
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import ChannelOwner
from mmo_trio.workers.delivery.qr_codes import QrWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.availability import ProviderAvailability
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scheduler


@define(eq=False)
class Components:
    """Every part of one gateway process, wired."""

    config: ServiceConfig
    store: Store
    clock: WallClock
    keyring: KeyRing
    engine: Engine
    api: ApiHandler
    listener_limits: ListenerLimits
    providers: ProviderWorker
    callbacks: CallbackWorker
    qr_codes: QrWorker
    channel_owner: ChannelOwner | None
    dispatcher: Dispatcher
    scheduler: Scheduler
    provider_availability: ProviderAvailability
    simulated_operator: SandboxOperatorWorker | OperatorClient | None
    """None where no provider of kind `sandbox` is configured."""
    pages_context: PagesContext
    sandbox_context: SandboxContext | None
    api_docs: ApiDocs
    prometheus_exporter: PrometheusExporter
    console_context: ConsoleContext
    http_metrics: HttpMetrics
    addresses: ServiceAddresses
    provider_titles: Mapping[str, str]
    egress_rules: EgressRules
    _worker_ends: list[trio.Event] = Factory(list)

    async def prepare(self) -> ServiceAddresses:
        """Apply the brands that it shall start with; what the READY line says."""
        now = self.clock.now()
        if self.config.brands_file is not None:
            await apply_brands_file(
                self.config.brands_file,
                self.store,
                self.keyring,
                self.provider_titles,
                self.egress_rules,
                now=now,
            )
        if not self.config.has_demo_brand:
            return self.addresses
        provider = next(iter(self.provider_titles))
        key = await ensure_demo_brand(
            self.store,
            self.keyring,
            provider=provider,
            title=self.provider_titles[provider],
            now=now,
        )
        return evolve(self.addresses, brand=DEMO_BRAND_ID, api_key=key)

    async def start_workers(self, nursery: trio.Nursery, stop: trio.Event) -> None:
        """Start all workers; those that talk to others drain when `stop` is set."""
        if self.channel_owner is None:
            for brand, kept in (await self.store.breakers()).items():
                self.callbacks.load_breaker(brand, kept)
        if self.simulated_operator is not None:
            await nursery.start(self.simulated_operator.run)
        await nursery.start(self.provider_availability.run)
        callbacks_ended = self._new_worker_end()
        runs = [
            (partial(self.callbacks.run, drain=stop), callbacks_ended),
            (partial(self.providers.run, drain=stop), self._new_worker_end()),
            (partial(self.qr_codes.run, drain=stop), self._new_worker_end()),
        ]
        if self.channel_owner is not None:  # It holds on to what the callback worker has under way.
            keep = partial(self.channel_owner.run, drain=stop, callbacks_ended=callbacks_ended)
            runs.append((keep, self._new_worker_end()))
        for run, ended in runs:
            await nursery.start(_run_and_signal_end, run, ended)
        nursery.start_soon(self.prometheus_exporter.publish)
        nursery.start_soon(self.dispatcher.run)
        await nursery.start(self.scheduler.run)

    def _new_worker_end(self) -> trio.Event:
        """To be set when a worker has ended; `wait_workers_ended` waits for it."""
        self._worker_ends.append(trio.Event())
        return self._worker_ends[-1]

    async def wait_workers_ended(self) -> None:
        """Return once no conversation and no callback is under way."""
        for each in self._worker_ends:
            await each.wait()


async def _run_and_signal_end(
    run: Callable[..., Awaitable[None]],
    ended: trio.Event,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    await run(task_status=task_status)
    ended.set()
