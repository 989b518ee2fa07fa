"""The workers of a gateway, wired: who is handed what, and whom each of them tells."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_trio.api.authentication import Authenticator
from mmo_trio.engine.engine import Engine, PendingInput
from mmo_trio.sandbox.operator_journal import OperatorJournal
from mmo_trio.sandbox.operator_process import OperatorClient
from mmo_trio.sandbox.operator_worker import Notify, SandboxOperatorWorker
from mmo_trio.service.wiring.providers import ConfiguredAccounts
from mmo_trio.service.wiring.resources import Resources, master_key_file
from mmo_trio.settings import SettingsError
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.system.clock import WallClock
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import ChannelOwner
from mmo_trio.workers.delivery.qr_codes import QrWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.availability import ProviderAvailability
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scheduler

OPERATOR_JOURNAL_FILE = "sandbox-provider.ndjson"
"""The simulated operator's journal, in the data directory; with `mmo serve` beside the master key."""


@frozen
class Workers:
    """One of each."""

    simulated_operator: SandboxOperatorWorker | OperatorClient | None
    """None where no provider of kind `sandbox` is configured."""
    provider_availability: ProviderAvailability
    providers: ProviderWorker
    callbacks: CallbackWorker
    channel_owner: ChannelOwner | None
    """Only where several processes share the store."""
    qr_codes: QrWorker
    dispatcher: Dispatcher
    scheduler: Scheduler


def build_workers(
    resources: Resources, accounts: ConfiguredAccounts, authenticator: Authenticator, engine: Engine
) -> Workers:
    """All that work on what the engine has decided, and report to it."""
    operator = None
    if accounts.sandbox is not None:
        notify = _notify_engine(engine, accounts.sandbox)
        operator = _simulated_operator(resources.config, notify, resources.clock)
    switches = ProviderAvailability(resources.store)
    providers = _provider_worker(resources, accounts, operator, switches, engine)
    callbacks, keeper = _callback_worker(resources, authenticator, engine)
    qr_codes = QrWorker(
        deliver=partial(resources.http_client.deliver, deadline_s=resources.callback_deadline_s),
        find_api_key=authenticator.callback_key,
        record_outcome=engine.submit,
    )
    dispatcher = Dispatcher(resources.store, providers, keeper or callbacks, qr_codes)
    return Workers(
        simulated_operator=operator,
        provider_availability=switches,
        providers=providers,
        callbacks=callbacks,
        channel_owner=keeper,
        qr_codes=qr_codes,
        dispatcher=dispatcher,
        scheduler=_scheduler(resources, engine, dispatcher),
    )


def operator_journal_file(config: ServiceConfig) -> Path:
    """Return the path of the simulated operator's journal."""
    if config.data_directory is not None:
        return config.data_directory / OPERATOR_JOURNAL_FILE
    return master_key_file(config).parent / OPERATOR_JOURNAL_FILE


def _simulated_operator(
    config: ServiceConfig, notify: Notify, clock: WallClock
) -> SandboxOperatorWorker | OperatorClient:
    """Return the simulated operator, or a client of the process in which it runs."""
    if config.operator_socket is None:
        return SandboxOperatorWorker(
            OperatorJournal(operator_journal_file(config)), clock.now, notify
        )
    return OperatorClient(config.operator_socket, notify)


def _notify_engine(engine: Engine, account: SandboxProvider) -> Notify:
    """Return a function that passes the simulated operator's notifications to the engine."""

    def notify(notification: HttpRequest) -> PendingInput:
        return engine.enqueue(account.read_notification(notification))

    return notify


def _provider_worker(
    resources: Resources,
    accounts: ConfiguredAccounts,
    simulated_operator: SandboxOperatorWorker | OperatorClient | None,
    provider_availability: ProviderAvailability,
    engine: Engine,
) -> ProviderWorker:
    """Return the worker that reaches each provider through its own account."""
    exchanges = {name: each.exchange for name, each in accounts.provider_accounts.items()}
    if accounts.sandbox is not None and simulated_operator is not None:
        exchanges[accounts.sandbox.name] = simulated_operator.exchange
    for name in resources.provider_titles:
        if name not in exchanges:
            raise SettingsError(
                f"provider.{name}", "has no account with an operator.", "Remove the provider."
            )
    return ProviderWorker(
        engine.submit,
        accounts.providers,
        exchanges.__getitem__,
        resources.clock.now,
        is_closed=provider_availability.is_closed,
    )


def _callback_worker(
    resources: Resources, authenticator: Authenticator, engine: Engine
) -> tuple[CallbackWorker, ChannelOwner | None]:
    """With who holds merchants' channels for it, where several processes share the store."""
    callbacks = CallbackWorker(
        deliver=partial(resources.http_client.deliver, deadline_s=resources.callback_deadline_s),
        find_api_key=authenticator.callback_key,
        record_outcome=engine.submit,
        now=resources.clock.now,
        monotonic=resources.clock.monotonic,
        breaker=resources.settings.breaker.breaker_settings,
        owns_channel=lambda brand, fence: keeper is None or keeper.owns(brand, fence),
        active_max=resources.limits.callbacks,
        active_per_brand_max=resources.limits.callbacks_per_merchant,
    )
    channels = resources.store.ownership
    keeper = None if channels is None else ChannelOwner(channels, callbacks)
    return callbacks, keeper


def _scheduler(resources: Resources, engine: Engine, dispatcher: Dispatcher) -> Scheduler:
    return Scheduler(
        resources.store,
        engine.enqueue,
        dispatcher.dispatch,
        dispatcher.has_room,
        resources.clock.now,
        resources.clock.monotonic,
    )
