"""Lists the parts of one gateway process; `wiring` puts them together, `process` runs them."""

from __future__ import annotations

from functools import partial

import trio
from attrs import frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.api.api_handler import ApiHandler
from mmo_trio.console.context import ConsoleContext
from mmo_trio.engine.engine import Engine
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.metrics.prometheus import PrometheusExporter
from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.docs.pages import ApiDocs
from mmo_trio.sandbox.operator_process import OperatorClient
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.storage.interface.store import Store
from mmo_trio.workers.audit_head import AuditHeadLogger
from mmo_trio.workers.channel_owner import ChannelOwner
from mmo_trio.workers.clock_monitor import ClockMonitor
from mmo_trio.workers.configuration_watch import ConfigurationWatch
from mmo_trio.workers.deliveries import CallbackWorker, QrWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.account_notes import AccountChecks, AccountRecorder
from mmo_trio.workers.providers.deposits import DepositClaimWorker, DepositLister
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.refusal_recorder import RefusalRecorder
from mmo_trio.workers.retention_schedule import RetentionWorker
from mmo_trio.workers.scheduler import Scheduler

LAST_ROUND_MAX_S = 5.0
"""Seconds that payments which are being woken have when the workers begin to drain."""


@frozen
class Workers:
    """Act on what the engine has decided, and report to it."""

    store: Store
    simulated_operator: SandboxOperatorWorker | OperatorClient | None
    """None where no provider of kind `sandbox` is configured."""
    configuration_watch: ConfigurationWatch
    providers: ProviderWorker
    callbacks: CallbackWorker
    channel_owner: ChannelOwner | None
    """Claims the brands' channels where several processes share the store; None elsewhere."""
    qr_codes: QrWorker
    account_checks: AccountChecks
    recorder: AccountRecorder
    deposit_claims: DepositClaimWorker | None
    """None where every provider's notifications of deposits are signed."""
    deposit_lister: DepositLister
    dispatcher: Dispatcher
    scheduler: Scheduler
    clock_monitor: ClockMonitor

    async def run(self, *, drain: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run all workers until `drain` is set and active conversations and deliveries end."""
        if self.channel_owner is None:
            for brand, snapshot in (await self.store.breakers()).items():
                self.callbacks.load_breaker(brand, snapshot)
        async with trio.open_nursery() as background:
            if self.simulated_operator is not None:
                await background.start(self.simulated_operator.run)
            await background.start(self.configuration_watch.run)
            async with trio.open_nursery() as senders:
                callbacks_ended = trio.Event()
                await senders.start(self._run_callbacks, drain, callbacks_ended)
                nobody_wakes = trio.Event()
                await senders.start(partial(self.providers.run, drain=nobody_wakes))
                await senders.start(partial(self.qr_codes.run, drain=drain))
                if self.channel_owner is not None:
                    own = partial(self.channel_owner.run, callbacks_ended=callbacks_ended)
                    await senders.start(partial(own, drain=drain))
                if self.account_checks.accounts:
                    await background.start(self.account_checks.run)
                    await background.start(self.recorder.run)
                if self.deposit_claims is not None:
                    await background.start(partial(self.deposit_claims.run, drain=drain))
                background.start_soon(self.dispatcher.run)
                await background.start(self.clock_monitor.run)
                await background.start(self._run_scheduler, drain, nobody_wakes)
                task_status.started()
            background.cancel_scope.cancel()

    async def _run_callbacks(self, drain: trio.Event, ended: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
        await self.callbacks.run(drain=drain, task_status=task_status)
        ended.set()

    async def _run_scheduler(self, drain: trio.Event, ended: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
        """Take on what is due until `drain` is set. `ended` is set once no payment is woken any more, so that each poll
        that was used up finds its worker."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.deposit_lister.run)
            await nursery.start(self.scheduler.run)
            task_status.started()
            await drain.wait()
            with trio.move_on_after(LAST_ROUND_MAX_S):
                async with self.scheduler.lock:
                    nursery.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
        ended.set()


@frozen
class Components:
    """Holds every part of one gateway process, wired."""

    engine: Engine
    workers: Workers
    api: ApiHandler
    listener_limits: ListenerLimits
    pages_context: PagesContext
    sandbox_context: SandboxContext | None
    """What only a sandbox can do; None in production."""
    api_docs: ApiDocs
    console_context: ConsoleContext
    http_metrics: HttpMetrics
    prometheus_exporter: PrometheusExporter
    audit_head_logger: AuditHeadLogger
    retention: RetentionWorker
    refusals: RefusalRecorder
