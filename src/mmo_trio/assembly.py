"""Puts a gateway together from its settings: which part gets which."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio

from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.breaker import BreakerSettings
from mmo_sansio.egress import EgressRules
from mmo_sansio.http import HttpRequest
from mmo_sansio.providers.sandbox import SandboxProvider
from mmo_sansio.providers.sandbox_scenarios import BY_NAME
from mmo_trio.auth import Authenticator
from mmo_trio.brands import apply_brands_file
from mmo_trio.ciphers import SystemCiphers
from mmo_trio.console import Board, Figures, StoreFigures
from mmo_trio.console.desk import ConsoleDesk
from mmo_trio.engine import Call, Engine
from mmo_trio.gateway import Gateway
from mmo_trio.hooks import Hooks
from mmo_trio.hosts import Hosts
from mmo_trio.http.client import Client, tls_context
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.traffic import Traffic
from mmo_trio.ids import References
from mmo_trio.keys import KeyRing, load_master_key
from mmo_trio.merchant_api import MerchantApi
from mmo_trio.pages.desk import Desk, SandboxDesk
from mmo_trio.pages.papers import papers_of
from mmo_trio.provider_accounts import Outside, open_accounts, open_sandbox_account
from mmo_trio.sandbox_clock import SandboxClock
from mmo_trio.service_config import CLOCK_FILE, Ready, ServiceConfig, provider_titles
from mmo_trio.settings import LimitsSection, Settings, SettingsError, seconds
from mmo_trio.storage.base import Store
from mmo_trio.urls import Urls
from mmo_trio.wallclock import WallClock, read_offset
from mmo_trio.workers.callbacks import CallbackWorker
from mmo_trio.workers.channels import ChannelKeeper
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers import ProviderWorker
from mmo_trio.workers.qr_codes import QrWorker
from mmo_trio.workers.sandbox import Notify, SandboxWorker
from mmo_trio.workers.sandbox_book import Book
from mmo_trio.workers.sandbox_line import OperatorLine
from mmo_trio.workers.scanner import Scanner
from mmo_trio.workers.switches import Switches

BOOK_FILE = "sandbox-provider.ndjson"
"""The sandbox operator's book, in the data directory; in production beside the master key."""


async def prepare_store(config: ServiceConfig, store: Store, addresses: Ready) -> None:
    """What is done to the store once before any number of processes serve from it. Raises SettingsError."""
    if config.brands_file is None:
        return
    await apply_brands_file(
        config.brands_file,
        store,
        KeyRing(_master_key(config)),
        provider_titles(config.settings, is_sandbox=config.is_sandbox),
        Urls.of(config.settings, addresses).egress_rules(config.settings),
        now=WallClock().now(),
    )


def assemble(config: ServiceConfig, store: Store, addresses: Ready) -> Gateway:
    """The parts of a gateway on this store, reached at these addresses. Raises SettingsError."""
    settings, limits = config.settings, config.settings.limits
    keyring = KeyRing(_master_key(config))
    clock = WallClock(offset=_kept_offset(config))
    references = References(clock.now)
    titles = provider_titles(settings, is_sandbox=config.is_sandbox)
    urls = Urls.of(settings, addresses)
    rules = urls.egress_rules(settings)
    client = Client(rules=rules, context=tls_context(_extra_authorities(settings)))
    outside = Outside(client.ask, clock.now, clock.monotonic, SystemCiphers(), keyring, urls.hooks)
    sandboxes = _sandboxes(config, titles)
    opened = open_accounts(settings.providers, titles, outside)
    authenticator = Authenticator(
        store, keyring, monotonic=clock.monotonic, cache=limits.api_key_cache
    )

    # A circle, closed here: the engine hands work to the dispatcher, whose workers report to the engine.
    engine = Engine(
        store,
        clock,
        lambda intent, transaction: dispatcher.act(intent, transaction),
        queue_max=limits.queue,
        batch_max=limits.batch,
    )
    notify = _notifying(engine, sandboxes)
    operator: SandboxWorker | OperatorLine
    if config.operator_line is None:
        operator = SandboxWorker(Book(book_file(config)), clock.now, notify)
    else:
        operator = OperatorLine(config.operator_line, notify)
    switches = Switches(store)
    traffic = Traffic()
    providers = ProviderWorker(
        engine.submit,
        {**sandboxes, **{name: each.provider for name, each in opened.items()}},
        lambda name: opened[name].account.exchange if name in opened else operator.exchange,
        clock.now,
        is_closed=switches.is_closed,
    )
    callbacks = CallbackWorker(
        deliver=partial(client.deliver, deadline_s=seconds(limits.callback_timeout)),
        key_for=authenticator.callback_key,
        conclude=engine.submit,
        now=clock.now,
        monotonic=clock.monotonic,
        breaker=_breaker(settings),
        holds=lambda brand, fence: keeper is None or keeper.holds(brand, fence),
        places=limits.callbacks,
        per_merchant=limits.callbacks_per_merchant,
    )
    qr_codes = QrWorker(
        deliver=partial(client.deliver, deadline_s=seconds(limits.callback_timeout)),
        key_for=authenticator.callback_key,
        conclude=engine.submit,
    )
    keeper = None if store.channels is None else ChannelKeeper(store.channels, callbacks)
    dispatcher = Dispatcher(store, providers, keeper or callbacks, qr_codes)
    scanner = Scanner(
        store,
        engine.post,
        dispatcher.hand_over,
        dispatcher.has_room,
        clock.now,
        clock.monotonic,
    )
    sandbox_desk = None
    if config.data_directory is not None and isinstance(operator, SandboxWorker):
        kept_in = config.data_directory / CLOCK_FILE
        moves = SandboxClock(clock, store, scanner, operator, providers, kept_in)
        sandbox_desk = SandboxDesk(
            references.next, moves.advance, operator, limits.terms, addresses
        )
    return Gateway(
        config=config,
        store=store,
        clock=clock,
        keyring=keyring,
        engine=engine,
        api=MerchantApi(
            settings=_api_settings(config, urls, rules, keyring),
            terms=limits.terms,
            body_limit=limits.body,
            store=store,
            submit=engine.submit,
            authenticator=authenticator,
            hosts=Hosts(store, monotonic=clock.monotonic, proxies=settings.listen.proxy_trusted),
            references=references,
            hooks=Hooks(
                {each.hook_name: each.door for each in opened.values()},
                store,
                engine.submit,
                references,
                limits.body,
                settings.listen.proxy_trusted,
            ),
        ),
        listener_limits=_listener_limits(limits),
        providers=providers,
        callbacks=callbacks,
        qr_codes=qr_codes,
        keeper=keeper,
        dispatcher=dispatcher,
        scanner=scanner,
        switches=switches,
        operator=operator,
        desk=Desk(store, engine.submit, clock.now, urls.error_docs, trio.Event()),
        sandbox_desk=sandbox_desk,
        papers=papers_of(
            base_url=urls.base,
            error_docs_url=urls.error_docs,
            sandbox_scenarios=tuple(BY_NAME) if config.is_sandbox else None,
        ),
        figures=Figures(
            traffic=traffic,
            engine=engine.statistics,
            providers=providers.statistics,
            callbacks=callbacks.statistics,
            qr_codes=qr_codes.outcomes,
            accounts={name: each.account for name, each in opened.items()},
            is_closed=switches.is_closed,
            store=StoreFigures(store, clock.now),
            board=config.figures_board and Board(*config.figures_board),
        ),
        traffic=traffic,
        console_desk=ConsoleDesk(
            store,
            engine.submit,
            clock.now,
            settings.console,
            titles,
            lambda: {name: each.account.state for name, each in opened.items()},
            settings.listen.proxy_trusted,
        ),
        addresses=addresses,
        titles=titles,
        rules=rules,
    )


def _api_settings(
    config: ServiceConfig, urls: Urls, rules: EgressRules, keyring: KeyRing
) -> ApiSettings:
    return ApiSettings(
        error_docs_url=urls.error_docs,
        hpp_url=urls.hosted_pages,
        cursor_key=keyring.cursor_key,
        egress_rules=rules,
        sandbox_scenarios=tuple(BY_NAME) if config.is_sandbox else None,
    )


def _notifying(engine: Engine, accounts: Mapping[str, SandboxProvider]) -> Notify:
    """How the operator's notifications reach the engine."""

    def notify(told: HttpRequest) -> Call:
        (account,) = accounts.values()
        return engine.post(account.read_notification(told))

    return notify


def _sandboxes(config: ServiceConfig, titles: Mapping[str, str]) -> Mapping[str, SandboxProvider]:
    """The account with the sandbox operator, of which there is one; a sandbox without any provider has it, too."""
    providers = config.settings.providers
    names = [name for name in titles if name not in providers or providers[name].kind == "sandbox"]
    if len(names) > 1:
        raise SettingsError(
            f"provider.{names[-1]}",
            "there is one sandbox operator, so one provider of that kind is enough.",
            "Remove all but one.",
        )
    return {name: open_sandbox_account(name, providers.get(name), titles[name]) for name in names}


def _master_key(config: ServiceConfig) -> bytes:
    path = config.settings.keys.master_key_file or Path("master.key")
    return load_master_key(path, create=config.is_sandbox)


def _kept_offset(config: ServiceConfig) -> int:
    if not config.is_sandbox or config.data_directory is None:
        return 0
    return read_offset(config.data_directory / CLOCK_FILE)


def book_file(config: ServiceConfig) -> Path:
    """Where the sandbox operator keeps its book."""
    if config.data_directory is not None:
        return config.data_directory / BOOK_FILE
    key_file = config.settings.keys.master_key_file or Path("master.key")
    return key_file.parent / BOOK_FILE


def _extra_authorities(settings: Settings) -> Path | None:
    file = settings.egress.extra_ca_file
    if file is not None and not file.is_file():
        raise SettingsError(
            "egress.extra_ca_file",
            f"there is no file {file}.",
            "Name a PEM file of authorities, or leave the setting out.",
        )
    return file


def _breaker(settings: Settings) -> BreakerSettings:
    breaker = settings.breaker
    return BreakerSettings(
        breaker.window, breaker.minimum_requests, breaker.failure_ratio, breaker.open_for
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
