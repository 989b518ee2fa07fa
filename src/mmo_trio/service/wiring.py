"""Puts a gateway together: accounts and engine, workers, then what serves requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

import structlog
import trio
from attrs import frozen

from mmo_sansio.api.incoming.requests import ApiSettings
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.providers.common.balances import ReportsBalances
from mmo_sansio.providers.common.interface import (
    Provider,
    ReportsAvailability,
    VerifiesDeposits,
    is_simulated,
)
from mmo_sansio.providers.common.payees import NamesPayees
from mmo_sansio.providers.common.recording import KEPT_MEMBERS, Redactor
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.providers.sandbox.scenarios import SCENARIO_TEXTS
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.problems import Problem
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.api.merchant_api import ApiHandler, MerchantApi, Readiness, ServedWindows
from mmo_trio.api.method_states import MethodStates
from mmo_trio.api.request_limits import RequestRates
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.brands.delivery_key import DeliveryKeys
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.brands.used_hosts import UsedHosts
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.passwords import PasswordVerifier
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.metrics.process_files import ProcessMetricsFiles
from mmo_trio.metrics.prometheus import BacklogCache, PrometheusExporter
from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.docs.pages import ApiDocs, build_docs
from mmo_trio.sandbox.clock import SandboxClock
from mmo_trio.sandbox.demo_brand import find_demo_key
from mmo_trio.sandbox.operator_worker import OperatorJournal, SandboxOperatorWorker
from mmo_trio.sandbox.request_log import RequestLog
from mmo_trio.service.resources import Resources
from mmo_trio.settings import SettingsError, to_seconds
from mmo_trio.settings.operator_signs import read_operator_sign
from mmo_trio.settings.providers import ProviderSection
from mmo_trio.settings.service import CLOCK_OFFSET_FILE, elsewhere_providers
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.channel_owner import ChannelOwner, OwnedChannels
from mmo_trio.workers.clock_monitor import ClockMonitor
from mmo_trio.workers.configuration_watch import ConfigurationWatch
from mmo_trio.workers.deliveries import CallbackWorker, QrWorker, owns_every_channel
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.housekeeping import (
    AuditHeadLogger,
    RefusalRecorder,
    RetentionStatistics,
    RetentionWorker,
)
from mmo_trio.workers.notices import NoticeReceiver, NoticeWorker, WaitingMatters
from mmo_trio.workers.providers.account import ProviderAccount, SendRequest
from mmo_trio.workers.providers.account_notes import AccountChecks, AccountRecorder
from mmo_trio.workers.providers.deposits import DepositClaimWorker, DepositLister
from mmo_trio.workers.providers.float_monitor import FloatMonitor
from mmo_trio.workers.providers.kept_hints import HintFile, hint_file_of
from mmo_trio.workers.providers.open_accounts import (
    AccountEnvironment,
    OpenAccount,
    open_accounts,
    open_sandbox_account,
)
from mmo_trio.workers.providers.payees import PayeeQuestions
from mmo_trio.workers.providers.reversals import ReversalWorker, reversal_operation
from mmo_trio.workers.providers.worker import PaymentCreator, ProviderWorker
from mmo_trio.workers.scheduler import DueBacklog, Scheduler

# Seconds that a batch waits for a further input: about what a client needs to read a reply and send
# its next request. Only where batches are committed one after the other; elsewhere an input that
# comes later begins a batch of its own.
COALESCING_PAUSE_S = 0.0003

# Inputs that may wait for the engine while old rows are removed; with more, that waits.
RETENTION_QUEUED_MAX = 64

# Seconds that payments which are being woken have when the workers begin to drain.
LAST_ROUND_MAX_S = 5.0

# The simulated operator's journal, in the data directory or next to the master key.
OPERATOR_JOURNAL_FILE = "sandbox-provider.ndjson"

logger = structlog.get_logger(__name__)


@frozen
class Components:
    """Holds every part of one gateway process, wired."""

    engine: Engine
    workers: Workers
    api: ApiHandler
    pages_context: PagesContext
    api_docs: ApiDocs
    console_context: ConsoleContext
    http_metrics: HttpMetrics
    prometheus_exporter: PrometheusExporter
    audit_head_logger: AuditHeadLogger
    notices: NoticeWorker | None
    """None where no webhook for staff is set."""
    retention: RetentionWorker
    refusals: RefusalRecorder


def assemble(
    resources: Resources,
    certificate_expires_at: Callable[[], Instant | None] = lambda: None,
) -> Components:
    """Build every part of a gateway on these resources. `certificate_expires_at` returns when the
    listeners' certificate expires; None without TLS. Raises SettingsError."""
    limits = resources.limits

    # What this process keeps of brands and keys: one object, as its generation counts for all of
    # it.
    known = KnownConfiguration()
    authenticator = Authenticator(
        resources.store,
        resources.keyring,
        monotonic=resources.clock.monotonic,
        cache_ttl=limits.api_key_cache,
        reload_master_keys=resources.master_key_file.reload_if_changed,
        known=known,
        trusted_proxies=TrustedProxies.of(resources.settings.listen),
    )
    outbox = Outbox()

    # SQLite commits one batch after the other; PostgreSQL lets a late input begin one of its own.
    has_one_writer = resources.store.batches_in_flight == 1
    engine = Engine(
        resources.store,
        resources.clock,
        outbox,
        queue_max=limits.queue,
        batch_max=limits.batch,
        coalescing_pause_s=COALESCING_PAUSE_S if has_one_writer else 0.0,
    )
    foundation = Foundation(
        resources, open_configured_accounts(resources), known, authenticator, engine
    )

    # The workers need the engine to report to, and the engine passes them its work: so they
    # subscribe.
    workers = build_workers(foundation)
    outbox.subscribe(workers.dispatcher.take)
    http_metrics = HttpMetrics()
    retention = _retention_worker(resources, engine)
    refusals = RefusalRecorder(resources.store.admin, resources.clock.wall_time)
    scenarios = SCENARIO_TEXTS if resources.config.is_sandbox else None

    # Set when the listeners close; streams of pages end by it.
    closing = trio.Event()
    audit_head_logger = AuditHeadLogger(resources.audit_log)
    api = _api_handler(foundation, workers, refusals.note, scenarios)
    return Components(
        engine=engine,
        workers=workers,
        api=api,
        pages_context=PagesContext(
            resources.store,
            engine.submit,
            resources.clock.own_time,
            public_url=resources.urls.hosted_pages,
            error_docs_url=resources.urls.error_docs,
            closing=closing,
            sandbox=_sandbox_context(resources, workers, api),
            elsewhere=elsewhere_providers(resources.settings),
            title=resources.settings.gateway.title
            or urlsplit(resources.urls.hosted_pages).hostname
            or "",
            signs={
                name: read_operator_sign(provider.options)
                for name, provider in resources.settings.providers.items()
            },
        ),
        api_docs=build_docs(
            base_url=resources.urls.base,
            error_docs_url=resources.urls.error_docs,
            sandbox_scenarios=scenarios,
        ),
        console_context=_console_context(foundation, workers, closing),
        http_metrics=http_metrics,
        prometheus_exporter=_prometheus_exporter(
            foundation,
            workers,
            http_metrics,
            retention.statistics,
            audit_log_changes=lambda: audit_head_logger.changes,
            certificate_expires_at=certificate_expires_at,
        ),
        audit_head_logger=audit_head_logger,
        notices=_notice_worker(foundation, workers, certificate_expires_at),
        retention=retention,
        refusals=refusals,
    )


@frozen
class Foundation:
    """What the parts of a gateway are built on."""

    resources: Resources
    accounts: ConfiguredAccounts
    known: KnownConfiguration
    authenticator: Authenticator
    engine: Engine


@frozen
class ConfiguredAccounts:
    """Holds every account of the gateway."""

    sandbox: SandboxProvider | None
    """The account with the simulated operator; None without a provider of kind `sandbox`."""
    operator_accounts: Mapping[str, OpenAccount]
    """Accounts with real operators, by the provider's name."""

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Return the adapters of all accounts by the provider's name."""
        providers: dict[str, Provider] = {
            name: account.provider for name, account in self.operator_accounts.items()
        }
        if self.sandbox is not None:
            providers[self.sandbox.name] = self.sandbox
        return providers

    @property
    def simulated(self) -> frozenset[str]:
        """Return the names of those by which no money moves."""
        return frozenset(
            name for name, provider in self.providers.items() if is_simulated(provider)
        )

    @property
    def adapters(self) -> Mapping[str, Provider]:
        """Return the adapters themselves, for what only some kinds can do."""
        operators = {name: account.adapter for name, account in self.operator_accounts.items()}
        return {**self.providers, **operators}

    @property
    def provider_accounts(self) -> Mapping[str, ProviderAccount]:
        """Return the accounts with real operators by the provider's name."""
        return {name: account.account for name, account in self.operator_accounts.items()}

    @property
    def with_listings(self) -> Sequence[OpenAccount]:
        """Return the accounts for which what was paid can be listed."""
        # Only of M-Pesa, and with a number that was registered for it, can payments be listed.
        accounts = [
            (operator_account, operator_account.adapter)
            for operator_account in self.operator_accounts.values()
        ]
        return [
            account
            for account, by in accounts
            if isinstance(by, DarajaProvider) and by.account.pull_number
        ]


def open_configured_accounts(resources: Resources) -> ConfiguredAccounts:
    """Open every configured account. Raises SettingsError."""
    sandbox = _open_sandbox_account(resources)
    settings, clock = resources.settings, resources.clock
    environment = AccountEnvironment(
        send_request=resources.clients.providers.call_provider,
        moment=clock.moment,
        monotonic=clock.monotonic,
        ciphers=SystemCiphers(),
        keyring=resources.keyring,
        webhooks_base_url=resources.urls.webhooks,
        provider_kinds=settings.provider_kinds,
        # Several processes share an operator's tokens through the store.
        store=resources.store.admin if resources.store.ownership is not None else None,
        send_question=resources.clients.providers.ask_provider,
        pages_url=resources.urls.hosted_pages,
    )
    opened = open_accounts(settings.providers, resources.provider_titles, environment)
    for name, account in opened.items():
        # Said at each start, as both are easily forgotten in a configuration.
        if trusts_anybody(account):
            logger.warning("deposits_trusted", provider=name)
        if account.provider.is_simulated:
            logger.warning("provider_simulated", provider=name)

    return ConfiguredAccounts(sandbox, opened)


def trusts_anybody(opened: OpenAccount) -> bool:
    """Return whether anybody who knows an address could report deposits that are booked without a
    question."""
    adapter = opened.adapter
    if not isinstance(adapter, DarajaProvider):
        return False
    return adapter.account.trusts_deposits and not opened.webhook_endpoint.allowed_networks


def _open_sandbox_account(resources: Resources) -> SandboxProvider | None:
    """Open the account with the simulated operator. A sandbox without any provider has one, too."""
    providers, titles = resources.settings.providers, resources.provider_titles

    # A sandbox without any provider has a title and no section.
    names = [name for name in titles if name not in providers or providers[name].kind == "sandbox"]
    if len(names) > 1:
        fault = "there is one sandbox operator, so one provider of that kind is enough."
        raise SettingsError(f"provider.{names[-1]}", fault, "Remove all but one.")

    if not names:
        return None

    [name] = names
    section = providers.get(name) or ProviderSection(name, "sandbox", {})
    return open_sandbox_account(
        section, titles[name], is_lenient=resources.settings.sandbox.lenient
    )


def build_workers(foundation: Foundation) -> Workers:
    """Build one worker of each kind. Raises SettingsError for a provider without an account."""
    resources, accounts, engine = foundation.resources, foundation.accounts, foundation.engine

    # 1. Who talks to operators.
    simulated_operator = _simulated_operator(foundation)
    opened, admin = accounts.operator_accounts.items(), resources.store.admin
    asked = [name for name, account in opened if isinstance(account.adapter, ReportsAvailability)]
    account_checks = AccountChecks(
        admin, accounts.provider_accounts, resources.clock.moment, with_availability=asked
    )
    providers = _provider_worker(foundation, account_checks, simulated_operator)

    # 2. Who delivers to merchants.
    deadline_s = to_seconds(resources.limits.callback_timeout)
    deliver = partial(resources.clients.deliveries.deliver, deadline_s=deadline_s)
    submit = engine.submit
    clock = resources.clock
    find_key = DeliveryKeys(
        resources.store,
        resources.keyring,
        UsedHosts(admin, clock.monotonic),
        resources.master_key_file.reload_if_changed,
    ).find

    # Where several processes share the store, each brand's callbacks are one process's to send.
    ownership = resources.store.ownership
    owned = OwnedChannels(clock.since_boot)
    owns_channel = owns_every_channel if ownership is None else owned.owns
    backlog = DueBacklog()
    callbacks = CallbackWorker(
        deliver=deliver,
        find_key=find_key,
        record_outcome=submit,
        own_time=clock.own_time,
        monotonic=clock.monotonic,
        breaker=resources.settings.breaker.breaker_settings,
        owns_channel=owns_channel,
        active_max=resources.limits.callbacks,
        active_per_brand_max=resources.limits.callbacks_per_merchant,
        stored_bodies_bytes=resources.limits.callback_bodies,
        wait_for_due=backlog.wait_for_end,
    )
    channel_owner = None
    if ownership is not None:
        channel_owner = ChannelOwner(ownership, callbacks, owned)

    qr_codes = QrWorker(deliver=deliver, find_key=find_key, record_outcome=submit)
    float_monitor = _float_monitor(foundation, providers.ask_for)

    # 3. Who brings what is due to the workers above.
    dispatcher = Dispatcher(
        resources.store,
        providers,
        channel_owner or callbacks,
        qr_codes,
        note_result=(providers.note_result, float_monitor.note_result),
    )
    scheduler = Scheduler(
        resources.store,
        engine.enqueue,
        dispatcher.dispatch,
        dispatcher.has_room,
        clock.own_time,
        backlog,
    )
    return Workers(
        store=resources.store,
        simulated_operator=simulated_operator,
        configuration_watch=ConfigurationWatch(resources.store, foundation.known, clock.monotonic),
        providers=providers,
        callbacks=callbacks,
        channel_owner=channel_owner,
        qr_codes=qr_codes,
        account_checks=account_checks,
        payees=_payee_questions(foundation, account_checks, simulated_operator),
        float_monitor=float_monitor,
        recorder=AccountRecorder(
            resources.store.admin,
            accounts.provider_accounts,
            {name: _open_redactor(account) for name, account in accounts.operator_accounts.items()},
            resources.keyring,
            resources.clock.own_time,
        ),
        deposit_claims=_deposit_claims(foundation, account_checks),
        deposit_lister=DepositLister(
            resources.store,
            submit,
            accounts.with_listings,
            clock.moment,
            resources.references.next,
        ),
        reversals=ReversalWorker(
            resources.store,
            providers,
            float_monitor.note_reversal,
            account_checks.holds_reversals,
            partial(account_checks.begin_trial, type=None),
        ),
        dispatcher=dispatcher,
        scheduler=scheduler,
        clock_monitor=ClockMonitor(clock, resources.store),
    )


def _open_redactor(opened: OpenAccount) -> Callable[[bytes], Redactor]:
    kept = KEPT_MEMBERS.union(opened.recorded_members)
    return lambda key: Redactor(key, opened.provider.redact, kept)


@frozen
class Workers:
    """Act on what the engine has decided, each with what it needs, and report to the engine."""

    store: Store
    simulated_operator: SandboxOperatorWorker | None
    """None where no provider of kind `sandbox` is configured."""
    configuration_watch: ConfigurationWatch
    providers: ProviderWorker
    callbacks: CallbackWorker
    channel_owner: ChannelOwner | None
    """Claims the brands' channels where several processes share the store; None elsewhere."""
    qr_codes: QrWorker
    account_checks: AccountChecks
    payees: PayeeQuestions
    float_monitor: FloatMonitor
    recorder: AccountRecorder
    deposit_claims: DepositClaimWorker | None
    """None where every provider's notifications of deposits are signed."""
    deposit_lister: DepositLister
    reversals: ReversalWorker
    dispatcher: Dispatcher
    scheduler: Scheduler
    clock_monitor: ClockMonitor

    async def run(
        self, *, drain: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run all workers until `drain` is set and active conversations and deliveries end.

        The order of the end; what is in the nursery `senders` ends by itself, each within a grace:

            drain ─┬─▶ callbacks: begin none, 20 s for the active ones ──callbacks_ended──▶ channel
                   │                                                       owner: ends its lease
                   ├─▶ QR codes: begin none, 20 s for the active ones
                   ├─▶ reversals: begin none, 20 s for the active ones
                   ├─▶ deposit claims: wake none
                   └─▶ scheduler: 5 s for its round ──nobody_wakes──▶ providers: begin none, 20 s
                                                                       for the active ones
            all `senders` have ended ──▶ `background` is cancelled: what serves them until then
        """
        # The owner of a channel loads its breaker with the claim.
        if self.channel_owner is None:
            for brand, snapshot in (await self.store.breakers()).items():
                self.callbacks.load_breaker(brand, snapshot)

        # Two nurseries: those who send end by themselves once drained, and then all others are
        # cancelled.
        async with trio.open_nursery() as background:
            # First and in the background: conversations ask it until they have ended.
            if self.simulated_operator is not None:
                await background.start(self.simulated_operator.run)

            await background.start(self.configuration_watch.run)
            async with trio.open_nursery() as senders:
                # Leases are given back only after the last callback, or another process might send
                # it again (K3).
                callbacks_ended = trio.Event()
                await senders.start(self._run_callbacks, drain, callbacks_ended)

                # Polls go on until the scheduler wakes nobody: each poll that was used up finds its
                # worker.
                nobody_wakes = trio.Event()
                await senders.start(partial(self.providers.run, drain=nobody_wakes))
                await senders.start(partial(self.qr_codes.run, drain=drain))
                await senders.start(partial(self.reversals.run, drain=drain))
                if self.channel_owner is not None:
                    own = partial(self.channel_owner.run, callbacks_ended=callbacks_ended)
                    await senders.start(partial(own, drain=drain))

                if self.account_checks.accounts:
                    await background.start(self.account_checks.run)
                    await background.start(self.recorder.run)

                if self.deposit_claims is not None:
                    await background.start(partial(self.deposit_claims.run, drain=drain))

                background.start_soon(self.dispatcher.run)
                background.start_soon(self.float_monitor.run)
                await background.start(self.clock_monitor.run)

                # Last, as it hands out work: by then each worker takes it.
                await background.start(self._run_scheduler, drain, nobody_wakes)
                task_status.started()

            background.cancel_scope.cancel()

    async def _run_callbacks(
        self, drain: trio.Event, ended: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        await self.callbacks.run(drain=drain, task_status=task_status)
        ended.set()

    async def _run_scheduler(
        self, drain: trio.Event, ended: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Take on what is due until `drain` is set. `ended` is set once no payment is woken any
        more, so that each poll that was used up finds its worker."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.deposit_lister.run)
            await nursery.start(self.scheduler.run)
            task_status.started()
            await drain.wait()
            # A round that has begun is finished: what it has woken is in nobody else's hands.
            with trio.move_on_after(LAST_ROUND_MAX_S):
                async with self.scheduler.lock:
                    nursery.cancel_scope.cancel()

            nursery.cancel_scope.cancel()

        ended.set()


def _provider_worker(
    foundation: Foundation,
    checks: AccountChecks,
    simulated_operator: SandboxOperatorWorker | None,
) -> ProviderWorker:
    """Return the worker that reaches each provider through its own account."""
    accounts = foundation.accounts
    exchanges: dict[str, SendRequest] = {
        name: account.exchange for name, account in accounts.provider_accounts.items()
    }
    questions: dict[str, SendRequest] = {
        name: partial(checks.ask, name) for name in accounts.provider_accounts
    }

    # The simulated operator has no breaker and no rate: both ways lead to it.
    if accounts.sandbox is not None and simulated_operator is not None:
        exchanges[accounts.sandbox.name] = questions[accounts.sandbox.name] = (
            simulated_operator.exchange
        )

    # A method without a way to its operator would take payments that nobody submits.
    for name in foundation.resources.provider_titles:
        if name not in exchanges:
            fault = "has no account with an operator."
            raise SettingsError(f"provider.{name}", fault, "Remove the provider.")

    resources = foundation.resources
    hint_file = hint_file_of(resources.settings.database.url, resources.config.data_directory)
    return ProviderWorker(
        foundation.engine.submit,
        accounts.providers,
        exchanges.__getitem__,
        questions.__getitem__,
        foundation.resources.clock.moment,
        is_closed=foundation.known.is_closed,
        hold_of=checks.hold_of,
        begin_trial=checks.begin_trial,
        simulated_providers=accounts.simulated,
        hint_file=None if hint_file is None else HintFile(hint_file),
    )


def _payee_questions(
    foundation: Foundation,
    checks: AccountChecks,
    simulated_operator: SandboxOperatorWorker | None,
) -> PayeeQuestions:
    opened, sandbox = foundation.accounts.operator_accounts, foundation.accounts.sandbox
    providers: dict[str, NamesPayees] = {
        name: account.provider
        for name, account in opened.items()
        if isinstance(account.adapter, NamesPayees)
    }
    questions: dict[str, SendRequest] = {
        name: partial(checks.ask_about_payee, name) for name in providers
    }
    if sandbox is not None and simulated_operator is not None:
        providers[sandbox.name] = sandbox
        questions[sandbox.name] = simulated_operator.exchange

    return PayeeQuestions(providers, questions.__getitem__, foundation.resources.clock.moment)


def _float_monitor(foundation: Foundation, ask_for: Callable[[str], SendRequest]) -> FloatMonitor:
    accounts, resources = foundation.accounts, foundation.resources
    opened = accounts.operator_accounts
    providers: dict[str, ReportsBalances] = {
        name: account.provider
        for name, account in opened.items()
        if isinstance(account.adapter, ReportsBalances)
    }
    if accounts.sandbox is not None:
        providers[accounts.sandbox.name] = accounts.sandbox

    watches = {name: account.float_watch for name, account in opened.items()}
    return FloatMonitor(resources.store.admin, providers, ask_for, watches, resources.clock.moment)


def _simulated_operator(foundation: Foundation) -> SandboxOperatorWorker | None:
    """Return the simulated operator, or None where no account with it is configured. Raises
    StoreUnusable while another process runs it."""
    resources, account = foundation.resources, foundation.accounts.sandbox
    if account is None:
        return None

    config = resources.config

    # In production a `sandbox` provider may stand beside real ones, without a data directory.
    directory = config.data_directory or config.settings.keys.master_key_file.parent
    journal = OperatorJournal(directory / OPERATOR_JOURNAL_FILE)
    return SandboxOperatorWorker(
        journal, resources.clock.own_time, account.read_notification, foundation.engine.enqueue
    )


def _deposit_claims(foundation: Foundation, checks: AccountChecks) -> DepositClaimWorker | None:
    """Return the worker that asks about deposits, or None where no provider needs it."""
    accounts, resources = foundation.accounts.operator_accounts, foundation.resources
    opened = {
        name: account
        for name, account in accounts.items()
        if isinstance(account.adapter, VerifiesDeposits)
    }
    if not opened:
        return None

    providers = {name: account.provider for name, account in opened.items()}
    exchanges = {name: partial(checks.ask, name) for name in opened}
    submit, ask = foundation.engine.submit, exchanges.__getitem__
    return DepositClaimWorker(resources.store, submit, providers, ask, resources.clock.moment)


def _api_handler(
    foundation: Foundation,
    workers: Workers,
    note_refusal: Callable[[CreatePayment, Problem], None],
    sandbox_scenarios: Mapping[str, str] | None,
) -> ApiHandler:
    resources, engine, store = foundation.resources, foundation.engine, foundation.resources.store
    accounts = foundation.accounts.operator_accounts.values()
    payees_per_minute = resources.settings.gateway.payees_per_minute or 0
    merchant_api = MerchantApi(
        settings=ApiSettings(
            error_docs_url=resources.urls.error_docs,
            hpp_url=resources.urls.hosted_pages,
            cursor_keys=resources.keyring.cursor_keys,
            egress_rules=resources.egress_rules,
            has_extensions=resources.settings.gateway.extensions,
            has_payees=payees_per_minute > 0,
            sandbox_scenarios=sandbox_scenarios,
        ),
        terms=resources.limits.terms,
        body_limit=resources.limits.body,
        store=store,
        create=PaymentCreator(engine.submit, workers.providers).create,
        authenticator=foundation.authenticator,
        request_rates=RequestRates(store, resources.clock.monotonic),
        references=resources.references,
        page_tokens=resources.page_tokens,
        clock=resources.clock,
        served_windows=ServedWindows(
            resources.clock, save=None if store.ownership else store.save_clock_record
        ),
        note_refusal=note_refusal,
        is_restored=foundation.known.is_restored,
        method_states=MethodStates(
            foundation.accounts.adapters,
            foundation.known.is_closed,
            workers.account_checks.is_held,
        ),
        simulated_providers=foundation.accounts.simulated,
        payees=workers.payees,
        payees_per_minute=payees_per_minute,
    )
    webhooks = Webhooks(
        endpoints={account.webhook_name: account.webhook_endpoint for account in accounts},
        store=store,
        submit=engine.submit,
        learn=workers.account_checks.learn,
        learn_balances=workers.float_monitor.learn,
        references=resources.references,
        moment=resources.clock.moment,
        body_limit=resources.limits.body,
        trusted_proxies=TrustedProxies.of(resources.settings.listen),
        enqueue=engine.enqueue,
        keep=workers.providers.try_keep,
        note_reversal=workers.float_monitor.note_reversal,
        observe=partial(workers.recorder.observe, is_from_operator=True),
    )

    return ApiHandler(
        merchant_api,
        webhooks,
        Readiness(
            store,
            engine.statistics,
            partial(resources.master_key_file.find_fault, store),
            lambda: workers.clock_monitor.fault,
        ),
    )


def _sandbox_context(
    resources: Resources, workers: Workers, api: ApiHandler
) -> SandboxContext | None:
    """Build what only a sandbox can do; None in production."""
    directory, operator = resources.config.data_directory, workers.simulated_operator
    if directory is None:
        return None

    clock = SandboxClock(
        resources.clock,
        resources.store,
        workers.scheduler,
        operator,
        workers.providers,
        directory / CLOCK_OFFSET_FILE,
    )
    find_key = partial(find_demo_key, resources.store, resources.keyring)
    return SandboxContext(
        new_reference=resources.references.next,
        new_page_token=resources.page_tokens.next,
        advance_clock=clock.advance,
        operator=operator,
        terms=resources.limits.terms,
        addresses=resources.addresses,
        request_log=RequestLog(api.admit, resources.clock.own_time),
        find_demo_key=find_key,
        simulated_providers=workers.providers.simulated_providers,
    )


def _console_context(
    foundation: Foundation, workers: Workers, closing: trio.Event
) -> ConsoleContext:
    resources, accounts = foundation.resources, foundation.accounts.provider_accounts
    providers = foundation.accounts.providers
    return ConsoleContext(
        store=resources.store,
        submit=foundation.engine.submit,
        audit_log=resources.audit_log,
        keys=resources.keyring,
        wall_time=resources.clock.wall_time,
        own_time=resources.clock.own_time,
        settings=resources.settings.console,
        provider_titles=resources.provider_titles,
        provider_breakers=lambda: {
            name: account.breaker.state for name, account in accounts.items()
        },
        trusted_proxies=TrustedProxies.of(resources.settings.listen),
        verify_password=PasswordVerifier(resources.password_hasher),
        hosts=frozenset(
            (*resources.settings.console.hosts, resources.settings.listen.console.host.lower())
        ),
        reversal_operation=lambda payment: reversal_operation(
            providers.get(payment.order.provider), payment
        ),
        elsewhere=elsewhere_providers(resources.settings),
        is_sandbox=resources.config.is_sandbox,
        simulated_providers=foundation.accounts.simulated,
        payees=workers.payees if resources.settings.gateway.payees_per_minute else None,
        closing=closing,
    )


def _retention_worker(resources: Resources, engine: Engine) -> RetentionWorker:
    clock = resources.clock
    return RetentionWorker(
        resources.store.retention,
        resources.settings.retention,
        resources.audit_log,
        # Rows are dated by either clock; by the earlier one nothing is removed too soon.
        earlier_time=lambda: min(clock.wall_time(), clock.own_time()),
        is_busy=lambda: engine.queued > RETENTION_QUEUED_MAX,
    )


def _notice_worker(
    foundation: Foundation,
    workers: Workers,
    certificate_expires_at: Callable[[], Instant | None],
) -> NoticeWorker | None:
    """Return the worker that tells staff what waits; None where no webhook is set. Raises
    SettingsError."""
    resources, accounts = foundation.resources, foundation.accounts.provider_accounts
    settings = resources.settings
    own_hosts = resources.egress_rules.own_hosts
    receiver = NoticeReceiver.of(settings, resources.urls.base, own_hosts)
    if receiver is None:
        return None

    matters = WaitingMatters(
        resources.store,
        foundation.accounts.providers.keys(),
        lambda: workers.account_checks.findings,
        lambda: {name: account.breaker.state for name, account in accounts.items()},
        certificate_expires_at,
        settings.notices.failed_callbacks,
        # Staff need to know that a message is about no real money.
        moves_no_money=foundation.accounts.providers.keys() <= foundation.accounts.simulated,
    )
    return NoticeWorker(matters, receiver, resources.clock.moment)


def _prometheus_exporter(
    foundation: Foundation,
    workers: Workers,
    http_metrics: HttpMetrics,
    retention: RetentionStatistics,
    *,
    audit_log_changes: Callable[[], int],
    certificate_expires_at: Callable[[], Instant | None],
) -> PrometheusExporter:
    """Build the exporter of what this process counts and of what the store holds."""
    resources = foundation.resources
    metrics_files = resources.config.metrics_files
    return PrometheusExporter(
        http_metrics=http_metrics,
        engine=foundation.engine,
        providers=workers.providers,
        reversal_reports=workers.reversals.reports,
        payee_outcomes=workers.payees.outcomes,
        callbacks=workers.callbacks.statistics,
        qr_codes=workers.qr_codes.outcomes,
        accounts=foundation.accounts.provider_accounts,
        account_findings=lambda: workers.account_checks.findings,
        float_monitor=workers.float_monitor,
        is_provider_closed=foundation.known.is_closed,
        backlog_cache=BacklogCache(resources.store, resources.clock.own_time),
        retention=retention,
        clock=resources.clock,
        audit_log_changes=audit_log_changes,
        certificate_expires_at=certificate_expires_at,
        ahead_of_store=lambda: workers.clock_monitor.ahead_of_store,
        process_files=metrics_files and ProcessMetricsFiles(*metrics_files),
    )
