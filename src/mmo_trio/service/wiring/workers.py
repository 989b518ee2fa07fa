"""The workers of a gateway, wired: who is handed what, and whom each of them tells."""

from __future__ import annotations

from collections.abc import Mapping
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
"""The sandbox operator's book, in the data directory; in production beside the master key."""


@frozen
class Workers:
    """One of each."""

    sandbox_operator: SandboxOperatorWorker | OperatorClient
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
    operator = _sandbox_operator(
        resources.config, _notify_engine(engine, accounts.sandboxes), resources.clock
    )
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
        sandbox_operator=operator,
        provider_availability=switches,
        providers=providers,
        callbacks=callbacks,
        channel_owner=keeper,
        qr_codes=qr_codes,
        dispatcher=dispatcher,
        scheduler=_scheduler(resources, engine, dispatcher),
    )


def operator_journal_file(config: ServiceConfig) -> Path:
    """Where the sandbox operator keeps its book."""
    if config.data_directory is not None:
        return config.data_directory / OPERATOR_JOURNAL_FILE
    return master_key_file(config).parent / OPERATOR_JOURNAL_FILE


def _sandbox_operator(
    config: ServiceConfig, notify: Notify, clock: WallClock
) -> SandboxOperatorWorker | OperatorClient:
    """The sandbox operator, or the line to the process where it lives."""
    if config.operator_socket is None:
        return SandboxOperatorWorker(
            OperatorJournal(operator_journal_file(config)), clock.now, notify
        )
    return OperatorClient(config.operator_socket, notify)


def _notify_engine(engine: Engine, accounts: Mapping[str, SandboxProvider]) -> Notify:
    """How the operator's notifications reach the engine."""

    def notify(told: HttpRequest) -> PendingInput:
        (account,) = accounts.values()
        return engine.enqueue(account.read_notification(told))

    return notify


def _provider_worker(
    resources: Resources,
    accounts: ConfiguredAccounts,
    sandbox_operator: SandboxOperatorWorker | OperatorClient,
    provider_availability: ProviderAvailability,
    engine: Engine,
) -> ProviderWorker:
    """Each provider is reached through its account; who has none is the sandbox operator."""
    real = accounts.provider_accounts
    return ProviderWorker(
        engine.submit,
        accounts.providers,
        lambda name: real.get(name, sandbox_operator).exchange,
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
