"""Puts a gateway together: accounts and engine, workers, then what serves requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio

from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.replies import Reply
from mmo_sansio.providers.sandbox.scenarios import SCENARIO_TEXTS
from mmo_sansio.values.clock import MonotonicInstant
from mmo_sansio.values.problems import Problem
from mmo_trio.api.api_handler import ApiHandler
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.brand_hosts import BrandHosts
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.api.known_senders import KnownSenders
from mmo_trio.api.merchant_api import MerchantApi
from mmo_trio.api.readiness import Readiness
from mmo_trio.api.request_rates import RequestRates
from mmo_trio.api.served_windows import ServedWindows
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.passwords import PasswordVerifier
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.metrics.process_files import ProcessMetricsFiles
from mmo_trio.metrics.prometheus import BacklogCache, PrometheusExporter
from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.docs.pages import build_docs
from mmo_trio.sandbox.clock import SandboxClock
from mmo_trio.sandbox.demo_brand import find_demo_key
from mmo_trio.sandbox.operator_process import OperatorClient
from mmo_trio.service.components import Components, Workers
from mmo_trio.service.wiring.providers import ConfiguredAccounts, open_configured_accounts
from mmo_trio.service.wiring.resources import Resources
from mmo_trio.service.wiring.workers import build_workers
from mmo_trio.settings.service import CLOCK_OFFSET_FILE
from mmo_trio.workers.audit_head import AuditHeadLogger
from mmo_trio.workers.providers.worker import PaymentCreator
from mmo_trio.workers.refusal_recorder import RefusalRecorder
from mmo_trio.workers.retention_schedule import RetentionStatistics, RetentionWorker

COALESCING_PAUSE_S = 0.0003
"""Seconds that a batch waits for a further input: about what a client needs to read a reply and send its next request.
Only where batches are committed one after the other; elsewhere an input that comes later begins a batch of its own."""

RETENTION_QUEUED_MAX = 64
"""Inputs that may wait for the engine while old rows are removed; with more, that waits."""


def assemble(resources: Resources) -> Components:
    """Build every part of a gateway on these resources. Raises SettingsError."""
    limits = resources.limits
    accounts = open_configured_accounts(resources)
    known = KnownConfiguration()
    authenticator = Authenticator(
        resources.store,
        resources.keyring,
        monotonic=resources.clock.monotonic,
        cache_ttl=limits.api_key_cache,
        reload_master_keys=resources.master_key_file.reload_if_changed,
        known=known,
    )
    outbox = Outbox()
    has_one_writer = resources.store.batches_in_flight == 1
    engine = Engine(
        resources.store,
        resources.clock,
        outbox,
        queue_max=limits.queue,
        batch_max=limits.batch,
        coalescing_pause_s=COALESCING_PAUSE_S if has_one_writer else 0.0,
    )
    workers = build_workers(resources, accounts, authenticator, known, engine)
    outbox.subscribe(workers.dispatcher.dispatch)
    http_metrics = HttpMetrics()
    retention = _retention_worker(resources, engine)
    refusals = RefusalRecorder(resources.store.admin, resources.clock.now)
    scenarios = SCENARIO_TEXTS if resources.config.is_sandbox else None
    closing = trio.Event()
    return Components(
        engine=engine,
        workers=workers,
        api=_api_handler(resources, accounts, authenticator, known, engine, workers, refusals.note, scenarios),
        listener_limits=limits.listener_limits,
        pages_context=PagesContext(
            resources.store,
            engine.submit,
            resources.clock.time,
            public_url=resources.urls.hosted_pages,
            error_docs_url=resources.urls.error_docs,
            closing=closing,
        ),
        sandbox_context=_sandbox_context(resources, workers),
        api_docs=build_docs(
            base_url=resources.urls.base, error_docs_url=resources.urls.error_docs, sandbox_scenarios=scenarios
        ),
        console_context=_console_context(resources, accounts, engine, closing),
        http_metrics=http_metrics,
        prometheus_exporter=_prometheus_exporter(
            resources, accounts, workers, engine, http_metrics, retention.statistics
        ),
        audit_head_logger=AuditHeadLogger(resources.audit_log),
        retention=retention,
        refusals=refusals,
    )


def _api_handler(
    resources: Resources,
    accounts: ConfiguredAccounts,
    authenticator: Authenticator,
    known: KnownConfiguration,
    engine: Engine,
    workers: Workers,
    note_refusal: Callable[[CreatePayment, Problem], None],
    sandbox_scenarios: Mapping[str, str] | None,
) -> ApiHandler:
    """Build the handler of the API listener."""
    trusted_proxies = TrustedProxies.of(resources.settings.listen)
    endpoints = {each.webhook_name: each.webhook_endpoint for each in accounts.operator_accounts.values()}
    merchant_api = MerchantApi(
        settings=ApiSettings(
            error_docs_url=resources.urls.error_docs,
            hpp_url=resources.urls.hosted_pages,
            cursor_keys=resources.keyring.cursor_keys,
            egress_rules=resources.egress_rules,
            sandbox_scenarios=sandbox_scenarios,
        ),
        terms=resources.limits.terms,
        body_limit=resources.limits.body,
        store=resources.store,
        create=_creator(resources, engine, workers),
        authenticator=authenticator,
        brand_hosts=BrandHosts(
            resources.store, known, monotonic=resources.clock.monotonic, trusted_proxies=trusted_proxies
        ),
        known_senders=KnownSenders(known),
        request_rates=RequestRates(resources.store, resources.clock.monotonic),
        references=resources.references,
        page_tokens=resources.page_tokens,
        trusted_proxies=trusted_proxies,
        clock=resources.clock,
        served_windows=ServedWindows(
            resources.clock, save=None if resources.store.ownership else resources.store.save_clock_record
        ),
        note_refusal=note_refusal,
        is_restored=known.is_restored,
    )
    store, body_limit = resources.store, resources.limits.body
    webhooks = Webhooks(
        endpoints,
        store,
        engine.submit,
        workers.account_checks.learn,
        resources.references,
        body_limit,
        trusted_proxies,
        partial(workers.recorder.observe, is_from_operator=True),
    )
    return ApiHandler(
        merchant_api,
        webhooks,
        Readiness(
            store, engine.statistics, partial(resources.master_key_file.find_fault, store), workers.clock_monitor.fault
        ),
    )


def _creator(
    resources: Resources, engine: Engine, workers: Workers
) -> Callable[[CreatePayment, MonotonicInstant], Awaitable[Reply]]:
    """Return what creates a payment. Where several processes share the store, a creation needs no load as long as it
    asks for its merchantReference only, and a submission of its own costs less than that round trip."""
    if resources.store.ownership is not None:
        return engine.submit
    return PaymentCreator(engine.submit, workers.providers).create


def _sandbox_context(resources: Resources, workers: Workers) -> SandboxContext | None:
    """Build what only a sandbox can do; None in production."""
    directory, operator = resources.config.data_directory, workers.simulated_operator
    if directory is None or isinstance(operator, OperatorClient):
        return None
    clock = SandboxClock(
        resources.clock, resources.store, workers.scheduler, operator, workers.providers, directory / CLOCK_OFFSET_FILE
    )
    find_key = partial(find_demo_key, resources.store, resources.keyring)
    return SandboxContext(
        resources.references.next,
        resources.page_tokens.next,
        clock.advance,
        operator,
        resources.limits.terms,
        resources.addresses,
        find_key,
    )


def _console_context(
    resources: Resources, accounts: ConfiguredAccounts, engine: Engine, closing: trio.Event
) -> ConsoleContext:
    """Build what the staff's console needs."""
    return ConsoleContext(
        resources.store,
        engine.submit,
        resources.audit_log,
        resources.keyring,
        resources.clock.now,
        resources.clock.time,
        resources.settings.console,
        resources.provider_titles,
        lambda: {name: each.breaker.state for name, each in accounts.provider_accounts.items()},
        TrustedProxies.of(resources.settings.listen),
        PasswordVerifier(resources.password_hasher),
        frozenset((*resources.settings.console.hosts, resources.settings.listen.console.host.lower())),
        is_sandbox=resources.config.is_sandbox,
        closing=closing,
    )


def _retention_worker(resources: Resources, engine: Engine) -> RetentionWorker:
    """Build the worker that removes what is too old."""
    clock = resources.clock
    return RetentionWorker(
        resources.store.retention,
        resources.settings.retention,
        resources.audit_log,
        now=lambda: min(clock.now(), clock.time()),
        is_busy=lambda: engine.statistics().queued > RETENTION_QUEUED_MAX,
    )


def _prometheus_exporter(
    resources: Resources,
    accounts: ConfiguredAccounts,
    workers: Workers,
    engine: Engine,
    http_metrics: HttpMetrics,
    retention: RetentionStatistics,
) -> PrometheusExporter:
    """Build the exporter of what this process counts and of what the store holds."""
    metrics_files = resources.config.metrics_files
    return PrometheusExporter(
        http_metrics=http_metrics,
        engine=engine.statistics,
        providers=workers.providers.statistics,
        callbacks=workers.callbacks.statistics,
        qr_codes=workers.qr_codes.outcomes,
        accounts=accounts.provider_accounts,
        account_findings=lambda: workers.account_checks.findings,
        is_provider_closed=workers.configuration_watch.known.is_closed,
        backlog_cache=BacklogCache(resources.store, resources.clock.time),
        retention=retention,
        clock=resources.clock,
        ahead_of_store=workers.clock_monitor.ahead_of_store,
        process_files=metrics_files and ProcessMetricsFiles(*metrics_files),
    )
