"""The whole gateway: what merchants, payers and operators meet, around the workers."""

from __future__ import annotations

import trio

from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.providers.sandbox.scenarios import BY_NAME
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.brand_hosts import Hosts
from mmo_trio.api.merchant_api import MerchantApi
from mmo_trio.api.webhooks import Hooks
from mmo_trio.brands.apply import apply_brands_file
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.console import Board, Figures, StoreFigures
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.engine.engine import Engine
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.request_metrics import Traffic
from mmo_trio.pages.context import Desk, SandboxDesk
from mmo_trio.pages.docs.pages import Papers, papers_of
from mmo_trio.sandbox.clock import SandboxClock
from mmo_trio.sandbox.operator_worker import SandboxWorker
from mmo_trio.service.components import Gateway
from mmo_trio.service.wiring.providers import Accounts, open_all
from mmo_trio.service.wiring.resources import Ground, lay_ground, master_key
from mmo_trio.service.wiring.workers import Workers, wire_workers
from mmo_trio.settings import LimitsSection, seconds
from mmo_trio.settings.service import CLOCK_FILE, Ready, ServiceConfig, provider_titles
from mmo_trio.settings.urls import Urls
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import WallClock


async def prepare_store(config: ServiceConfig, store: Store, addresses: Ready) -> None:
    """What is done to the store once before any number of processes serve from it. Raises SettingsError."""
    if config.brands_file is None:
        return
    await apply_brands_file(
        config.brands_file,
        store,
        KeyRing(master_key(config)),
        provider_titles(config.settings, is_sandbox=config.is_sandbox),
        Urls.of(config.settings, addresses).egress_rules(config.settings),
        now=WallClock().now(),
    )


def assemble(config: ServiceConfig, store: Store, addresses: Ready) -> Gateway:
    """The parts of a gateway on this store, reached at these addresses. Raises SettingsError."""
    ground = lay_ground(config, store, addresses)
    accounts = open_all(ground)
    authenticator = Authenticator(
        store,
        ground.keyring,
        monotonic=ground.clock.monotonic,
        cache=ground.limits.api_key_cache,
    )
    # A circle, closed here: the engine hands work to the dispatcher, whose workers report to the engine.
    engine = Engine(
        store,
        ground.clock,
        lambda intent, transaction: workers.dispatcher.act(intent, transaction),
        queue_max=ground.limits.queue,
        batch_max=ground.limits.batch,
    )
    workers = wire_workers(ground, accounts, authenticator, engine)
    traffic = Traffic()
    return Gateway(
        config=config,
        store=store,
        clock=ground.clock,
        keyring=ground.keyring,
        engine=engine,
        api=_merchant_api(ground, accounts, authenticator, engine),
        listener_limits=_listener_limits(ground.limits),
        providers=workers.providers,
        callbacks=workers.callbacks,
        qr_codes=workers.qr_codes,
        keeper=workers.keeper,
        dispatcher=workers.dispatcher,
        scanner=workers.scanner,
        switches=workers.switches,
        operator=workers.operator,
        desk=Desk(store, engine.submit, ground.clock.now, ground.urls.error_docs, trio.Event()),
        sandbox_desk=_sandbox_desk(ground, workers),
        papers=_papers(ground),
        figures=_figures(ground, accounts, workers, engine, traffic),
        traffic=traffic,
        console_desk=_console_desk(ground, accounts, engine),
        addresses=addresses,
        titles=ground.titles,
        rules=ground.rules,
    )


def _merchant_api(
    ground: Ground, accounts: Accounts, authenticator: Authenticator, engine: Engine
) -> MerchantApi:
    """What merchants ask, and providers' notifications beside it."""
    proxies = ground.settings.listen.proxy_trusted
    return MerchantApi(
        settings=ApiSettings(
            error_docs_url=ground.urls.error_docs,
            hpp_url=ground.urls.hosted_pages,
            cursor_key=ground.keyring.cursor_key,
            egress_rules=ground.rules,
            sandbox_scenarios=_scenarios(ground),
        ),
        terms=ground.limits.terms,
        body_limit=ground.limits.body,
        store=ground.store,
        submit=engine.submit,
        authenticator=authenticator,
        hosts=Hosts(ground.store, monotonic=ground.clock.monotonic, proxies=proxies),
        references=ground.references,
        hooks=Hooks(
            {each.hook_name: each.door for each in accounts.opened.values()},
            ground.store,
            engine.submit,
            ground.references,
            ground.limits.body,
            proxies,
        ),
    )


def _papers(ground: Ground) -> Papers:
    """The documentation of the API."""
    return papers_of(
        base_url=ground.urls.base,
        error_docs_url=ground.urls.error_docs,
        sandbox_scenarios=_scenarios(ground),
    )


def _scenarios(ground: Ground) -> tuple[str, ...] | None:
    return tuple(BY_NAME) if ground.config.is_sandbox else None


def _sandbox_desk(ground: Ground, workers: Workers) -> SandboxDesk | None:
    """The virtual phone and the sandbox's controls, where the operator lives in this process."""
    directory, operator = ground.config.data_directory, workers.operator
    if directory is None or not isinstance(operator, SandboxWorker):
        return None
    moves = SandboxClock(
        ground.clock,
        ground.store,
        workers.scanner,
        operator,
        workers.providers,
        directory / CLOCK_FILE,
    )
    return SandboxDesk(
        ground.references.next, moves.advance, operator, ground.limits.terms, ground.addresses
    )


def _figures(
    ground: Ground, accounts: Accounts, workers: Workers, engine: Engine, traffic: Traffic
) -> Figures:
    """What is counted: by this process, and in the store."""
    board = ground.config.figures_board
    return Figures(
        traffic=traffic,
        engine=engine.statistics,
        providers=workers.providers.statistics,
        callbacks=workers.callbacks.statistics,
        qr_codes=workers.qr_codes.outcomes,
        accounts=accounts.real,
        is_closed=workers.switches.is_closed,
        store=StoreFigures(ground.store, ground.clock.now),
        board=board and Board(*board),
    )


def _console_desk(ground: Ground, accounts: Accounts, engine: Engine) -> ConsoleDesk:
    """What operators of the gateway look at and act on."""
    return ConsoleDesk(
        ground.store,
        engine.submit,
        ground.clock.now,
        ground.settings.console,
        ground.titles,
        lambda: {name: each.state for name, each in accounts.real.items()},
        ground.settings.listen.proxy_trusted,
    )


def _listener_limits(limits: LimitsSection) -> ListenerLimits:
    return ListenerLimits(
        handshake_timeout_s=seconds(limits.handshake_timeout),
        idle_timeout_s=seconds(limits.idle_timeout),
        head_timeout_s=seconds(limits.head_timeout),
        body_timeout_s=seconds(limits.body_timeout),
        write_timeout_s=seconds(limits.write_timeout),
        drain_timeout_s=seconds(limits.drain_timeout),
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
    )
