"""Puts a gateway together from its settings: which part gets which."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import trio
from attrs import Factory, define, evolve, frozen

from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.breaker import BreakerSettings
from mmo_sansio.clock import Instant
from mmo_sansio.egress import EgressRules
from mmo_sansio.http import HttpRequest
from mmo_sansio.providers.sandbox import SandboxProvider
from mmo_sansio.providers.sandbox_scenarios import BY_NAME
from mmo_trio.auth import Authenticator
from mmo_trio.brands import apply_plan, plan_apply
from mmo_trio.brands_file import read_brands_file
from mmo_trio.ciphers import SystemCiphers
from mmo_trio.console import Board, Figures, StoreFigures
from mmo_trio.console.desk import ConsoleDesk
from mmo_trio.demo_brand import DEMO_BRAND, ensure_demo_brand
from mmo_trio.engine import Call, Engine
from mmo_trio.hooks import Hooks
from mmo_trio.hosts import Hosts
from mmo_trio.http.client import Client, tls_context
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.traffic import Traffic
from mmo_trio.ids import References
from mmo_trio.keys import KeyRing, load_master_key
from mmo_trio.merchant_api import MerchantApi
from mmo_trio.pages.desk import Desk, SandboxDesk
from mmo_trio.pages.papers import Papers, papers_of
from mmo_trio.provider_accounts import Outside, open_accounts, open_sandbox_account
from mmo_trio.sandbox_clock import SandboxClock
from mmo_trio.service_config import CLOCK_FILE, Ready, ServiceConfig, provider_titles
from mmo_trio.settings import LimitsSection, Settings, SettingsError, seconds
from mmo_trio.storage.base import Store
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
        for worker in (self.providers, self.callbacks, self.qr_codes):
            ended = trio.Event()
            self._ended.append(ended)
            await nursery.start(_run_until_drained, worker, stop, ended)
        if self.keeper is not None:
            await nursery.start(self._run_keeper, self.keeper, stop)
        nursery.start_soon(self.figures.share)
        nursery.start_soon(self.dispatcher.run)
        await nursery.start(self.scanner.run)

    async def _run_keeper(
        self, keeper: ChannelKeeper, stop: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        callbacks_ended, ended = self._ended[-1], trio.Event()
        self._ended.append(ended)
        await keeper.run(drain=stop, ended=callbacks_ended, task_status=task_status)
        ended.set()

    async def workers_ended(self) -> None:
        """Return once no conversation and no callback is under way."""
        for each in self._ended:
            await each.wait()


async def apply_brands_file(
    file: Path,
    store: Store,
    keyring: KeyRing,
    titles: Mapping[str, str],
    rules: EgressRules,
    *,
    now: Instant,
) -> None:
    """Give the store the brands of this file; raises SettingsError, also when a brand would have no key."""
    wanted = read_brands_file(file, providers=titles, rules=rules)
    plan = plan_apply(await store.brands(), wanted, keyring, prune=False)
    if plan.keys_to_make:
        raise SettingsError(
            f"{file}",
            f"these brands have no API key: {', '.join(plan.keys_to_make)}.",
            "Give them api_keys, or run `mmo brands apply`, which makes keys and shows them.",
        )
    await apply_plan(store, keyring, plan, now=now)


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


async def _run_until_drained(
    worker: ProviderWorker | CallbackWorker | QrWorker,
    stop: trio.Event,
    ended: trio.Event,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    await worker.run(drain=stop, task_status=task_status)
    ended.set()


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


@frozen
class Urls:
    """Under which addresses the world knows this gateway; none ends with a slash."""

    base: str
    hosted_pages: str
    error_docs: str
    hooks: str

    @classmethod
    def of(cls, settings: Settings, addresses: Ready) -> Urls:
        """As they are set; where they aren't, the listeners' own."""
        pages = (settings.gateway.hpp_url or addresses.pages).rstrip("/")
        base = (settings.gateway.base_url or addresses.api).rstrip("/")
        return cls(
            base=base,
            hosted_pages=pages,
            error_docs=(settings.gateway.error_docs_url or f"{pages}/errors").rstrip("/"),
            hooks=(settings.gateway.hooks_url or base).rstrip("/"),
        )

    def egress_rules(self, settings: Settings) -> EgressRules:
        """Where merchants' URLs may lead: as set, and never to ourselves (K7)."""
        return EgressRules(
            allow_private=settings.egress.allow_private,
            allowed_ports=frozenset(settings.egress.allowed_ports),
            own_hosts=frozenset(urlsplit(each).netloc for each in (self.base, self.hosted_pages)),
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
