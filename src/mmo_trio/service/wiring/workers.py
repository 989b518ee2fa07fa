"""The workers of a gateway, wired: who is handed what, and whom each of them tells."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.resilience.circuit_breaker import BreakerSettings
from mmo_trio.api.authentication import Authenticator
from mmo_trio.engine.engine import Call, Engine
from mmo_trio.sandbox.operator_journal import Book
from mmo_trio.sandbox.operator_process import OperatorLine
from mmo_trio.sandbox.operator_worker import Notify, SandboxWorker
from mmo_trio.service.wiring.providers import Accounts
from mmo_trio.service.wiring.resources import Ground, master_key_file
from mmo_trio.settings import BreakerSection
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.system.clock import WallClock
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import ChannelKeeper
from mmo_trio.workers.delivery.qr_codes import QrWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.availability import Switches
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scanner

BOOK_FILE = "sandbox-provider.ndjson"
"""The sandbox operator's book, in the data directory; in production beside the master key."""


@frozen
class Workers:
    """One of each."""

    operator: SandboxWorker | OperatorLine
    switches: Switches
    providers: ProviderWorker
    callbacks: CallbackWorker
    keeper: ChannelKeeper | None
    """Only where several processes share the store."""
    qr_codes: QrWorker
    dispatcher: Dispatcher
    scanner: Scanner


def wire_workers(
    ground: Ground, accounts: Accounts, authenticator: Authenticator, engine: Engine
) -> Workers:
    """All that work on what the engine has decided, and report to it."""
    operator = _operator(ground.config, _notifying(engine, accounts.sandboxes), ground.clock)
    switches = Switches(ground.store)
    providers = _provider_worker(ground, accounts, operator, switches, engine)
    callbacks, keeper = _callback_worker(ground, authenticator, engine)
    qr_codes = QrWorker(
        deliver=partial(ground.client.deliver, deadline_s=ground.callback_deadline_s),
        key_for=authenticator.callback_key,
        conclude=engine.submit,
    )
    dispatcher = Dispatcher(ground.store, providers, keeper or callbacks, qr_codes)
    return Workers(
        operator=operator,
        switches=switches,
        providers=providers,
        callbacks=callbacks,
        keeper=keeper,
        qr_codes=qr_codes,
        dispatcher=dispatcher,
        scanner=_scanner(ground, engine, dispatcher),
    )


def book_file(config: ServiceConfig) -> Path:
    """Where the sandbox operator keeps its book."""
    if config.data_directory is not None:
        return config.data_directory / BOOK_FILE
    return master_key_file(config).parent / BOOK_FILE


def _operator(
    config: ServiceConfig, notify: Notify, clock: WallClock
) -> SandboxWorker | OperatorLine:
    """The sandbox operator, or the line to the process where it lives."""
    if config.operator_line is None:
        return SandboxWorker(Book(book_file(config)), clock.now, notify)
    return OperatorLine(config.operator_line, notify)


def _notifying(engine: Engine, accounts: Mapping[str, SandboxProvider]) -> Notify:
    """How the operator's notifications reach the engine."""

    def notify(told: HttpRequest) -> Call:
        (account,) = accounts.values()
        return engine.post(account.read_notification(told))

    return notify


def _provider_worker(
    ground: Ground,
    accounts: Accounts,
    operator: SandboxWorker | OperatorLine,
    switches: Switches,
    engine: Engine,
) -> ProviderWorker:
    """Each provider is reached through its account; who has none is the sandbox operator."""
    real = accounts.real
    return ProviderWorker(
        engine.submit,
        accounts.providers,
        lambda name: real.get(name, operator).exchange,
        ground.clock.now,
        is_closed=switches.is_closed,
    )


def _callback_worker(
    ground: Ground, authenticator: Authenticator, engine: Engine
) -> tuple[CallbackWorker, ChannelKeeper | None]:
    """With who holds merchants' channels for it, where several processes share the store."""
    callbacks = CallbackWorker(
        deliver=partial(ground.client.deliver, deadline_s=ground.callback_deadline_s),
        key_for=authenticator.callback_key,
        conclude=engine.submit,
        now=ground.clock.now,
        monotonic=ground.clock.monotonic,
        breaker=_breaker(ground.settings.breaker),
        holds=lambda brand, fence: keeper is None or keeper.holds(brand, fence),
        places=ground.limits.callbacks,
        per_merchant=ground.limits.callbacks_per_merchant,
    )
    channels = ground.store.channels
    keeper = None if channels is None else ChannelKeeper(channels, callbacks)
    return callbacks, keeper


def _breaker(section: BreakerSection) -> BreakerSettings:
    return BreakerSettings(
        section.window, section.minimum_requests, section.failure_ratio, section.open_for
    )


def _scanner(ground: Ground, engine: Engine, dispatcher: Dispatcher) -> Scanner:
    return Scanner(
        ground.store,
        engine.post,
        dispatcher.hand_over,
        dispatcher.has_room,
        ground.clock.now,
        ground.clock.monotonic,
    )
