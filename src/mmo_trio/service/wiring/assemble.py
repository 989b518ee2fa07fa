"""The whole gateway: what merchants, payers and operators meet, around the workers."""

from __future__ import annotations

import trio

from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.providers.sandbox.scenarios import SCENARIOS_BY_NAME
from mmo_trio.api.api_handler import ApiHandler
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.brand_hosts import BrandHosts
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.api.merchant_api import MerchantApi
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.brands.apply import apply_brands_file
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.console import BacklogCache, ProcessMetricsFiles, PrometheusExporter
from mmo_trio.console.context import ConsoleContext
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.docs.pages import ApiDocs, build_docs
from mmo_trio.sandbox.clock import SandboxClock
from mmo_trio.sandbox.operator_process import OperatorClient
from mmo_trio.service.components import Components
from mmo_trio.service.wiring.providers import ConfiguredAccounts, open_configured_accounts
from mmo_trio.service.wiring.resources import Resources, build_resources, master_key
from mmo_trio.service.wiring.workers import Workers, build_workers
from mmo_trio.settings import LimitsSection, to_seconds
from mmo_trio.settings.service import (
    CLOCK_OFFSET_FILE,
    ServiceAddresses,
    ServiceConfig,
    provider_titles,
)
from mmo_trio.settings.urls import PublicUrls
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import WallClock


async def prepare_store(config: ServiceConfig, store: Store, addresses: ServiceAddresses) -> None:
    """What is done to the store once before any number of processes serve from it. Raises SettingsError."""
    if config.brands_file is None:
        return
    await apply_brands_file(
        config.brands_file,
        store,
        KeyRing(master_key(config)),
        provider_titles(config.settings, is_sandbox=config.is_sandbox),
        PublicUrls.from_settings(config.settings, addresses).egress_rules(config.settings),
        now=WallClock().now(),
    )


def assemble(config: ServiceConfig, store: Store, addresses: ServiceAddresses) -> Components:
    """The parts of a gateway on this store, reached at these addresses. Raises SettingsError."""
    ground = build_resources(config, store, addresses)
    accounts = open_configured_accounts(ground)
    authenticator = Authenticator(
        store,
        ground.keyring,
        monotonic=ground.clock.monotonic,
        cache_ttl=ground.limits.api_key_cache,
    )
    outbox = Outbox()
    engine = Engine(
        store,
        ground.clock,
        outbox,
        queue_max=ground.limits.queue,
        batch_max=ground.limits.batch,
    )
    workers = build_workers(ground, accounts, authenticator, engine)
    outbox.subscribe(workers.dispatcher.dispatch)
    traffic = HttpMetrics()
    return Components(
        config=config,
        store=store,
        clock=ground.clock,
        keyring=ground.keyring,
        engine=engine,
        api=_api_handler(ground, accounts, authenticator, engine),
        listener_limits=_listener_limits(ground.limits),
        providers=workers.providers,
        callbacks=workers.callbacks,
        qr_codes=workers.qr_codes,
        channel_owner=workers.channel_owner,
        dispatcher=workers.dispatcher,
        scheduler=workers.scheduler,
        provider_availability=workers.provider_availability,
        simulated_operator=workers.simulated_operator,
        pages_context=PagesContext(
            store, engine.submit, ground.clock.now, ground.urls.error_docs, trio.Event()
        ),
        sandbox_context=_sandbox_context(ground, workers),
        api_docs=_api_docs(ground),
        prometheus_exporter=_prometheus_exporter(ground, accounts, workers, engine, traffic),
        http_metrics=traffic,
        console_context=_console_context(ground, accounts, engine),
        addresses=addresses,
        provider_titles=ground.provider_titles,
        egress_rules=ground.egress_rules,
    )


def _api_handler(
    resources: Resources, accounts: ConfiguredAccounts, authenticator: Authenticator, engine: Engine
) -> ApiHandler:
    """Return the handler of the API listener."""
    proxies = TrustedProxies(resources.settings.listen.proxy_trusted)
    merchant_api = MerchantApi(
        settings=ApiSettings(
            error_docs_url=resources.urls.error_docs,
            hpp_url=resources.urls.hosted_pages,
            cursor_key=resources.keyring.cursor_key,
            egress_rules=resources.egress_rules,
            sandbox_scenarios=_sandbox_scenarios(resources),
        ),
        terms=resources.limits.terms,
        body_limit=resources.limits.body,
        store=resources.store,
        submit=engine.submit,
        authenticator=authenticator,
        brand_hosts=BrandHosts(
            resources.store, monotonic=resources.clock.monotonic, trusted_proxies=proxies
        ),
        references=resources.references,
    )
    webhooks = Webhooks(
        {each.webhook_name: each.webhook_endpoint for each in accounts.operator_accounts.values()},
        resources.store,
        engine.submit,
        resources.references,
        resources.limits.body,
        proxies,
    )
    return ApiHandler(merchant_api, webhooks, resources.store)


def _api_docs(resources: Resources) -> ApiDocs:
    """The documentation of the API."""
    return build_docs(
        base_url=resources.urls.base,
        error_docs_url=resources.urls.error_docs,
        sandbox_scenarios=_sandbox_scenarios(resources),
    )


def _sandbox_scenarios(resources: Resources) -> tuple[str, ...] | None:
    return tuple(SCENARIOS_BY_NAME) if resources.config.is_sandbox else None


def _sandbox_context(resources: Resources, workers: Workers) -> SandboxContext | None:
    """Return what only a sandbox can do; None in production."""
    directory, operator = resources.config.data_directory, workers.simulated_operator
    if directory is None or isinstance(operator, OperatorClient):
        return None
    moves = SandboxClock(
        resources.clock,
        resources.store,
        workers.scheduler,
        operator,
        workers.providers,
        directory / CLOCK_OFFSET_FILE,
    )
    return SandboxContext(
        resources.references.next,
        moves.advance,
        operator,
        resources.limits.terms,
        resources.addresses,
    )


def _prometheus_exporter(
    resources: Resources,
    accounts: ConfiguredAccounts,
    workers: Workers,
    engine: Engine,
    http_metrics: HttpMetrics,
) -> PrometheusExporter:
    """What is counted: by this process, and in the store."""
    board = resources.config.metrics_files
    return PrometheusExporter(
        http_metrics=http_metrics,
        engine=engine.statistics,
        providers=workers.providers.statistics,
        callbacks=workers.callbacks.statistics,
        qr_codes=workers.qr_codes.outcomes,
        accounts=accounts.provider_accounts,
        is_provider_closed=workers.provider_availability.is_closed,
        backlog_cache=BacklogCache(resources.store, resources.clock.now),
        process_files=board and ProcessMetricsFiles(*board),
    )


def _console_context(
    resources: Resources, accounts: ConfiguredAccounts, engine: Engine
) -> ConsoleContext:
    """What operators of the gateway look at and act on."""
    return ConsoleContext(
        resources.store,
        engine.submit,
        resources.clock.now,
        resources.settings.console,
        resources.provider_titles,
        lambda: {name: each.breaker_state for name, each in accounts.provider_accounts.items()},
        TrustedProxies(resources.settings.listen.proxy_trusted),
    )


def _listener_limits(limits: LimitsSection) -> ListenerLimits:
    return ListenerLimits(
        handshake_timeout_s=to_seconds(limits.handshake_timeout),
        idle_timeout_s=to_seconds(limits.idle_timeout),
        head_timeout_s=to_seconds(limits.head_timeout),
        body_timeout_s=to_seconds(limits.body_timeout),
        write_timeout_s=to_seconds(limits.write_timeout),
        drain_timeout_s=to_seconds(limits.drain_timeout),
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
    )
