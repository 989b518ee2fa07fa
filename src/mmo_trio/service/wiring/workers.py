"""Wires the workers of a gateway: each is given what it needs, and reports to the engine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.common.interface import VerifiesDeposits
from mmo_sansio.providers.common.redaction import find_secrets
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_trio.api.authentication import Authenticator
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.engine.batch import PendingInput
from mmo_trio.engine.engine import Engine
from mmo_trio.sandbox.operator_journal import OperatorJournal
from mmo_trio.sandbox.operator_process import OperatorClient
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.service.components import Workers
from mmo_trio.service.wiring.providers import ConfiguredAccounts
from mmo_trio.service.wiring.resources import Resources
from mmo_trio.settings import SettingsError, to_seconds
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.workers.channel_owner import ChannelOwner, OwnedChannels
from mmo_trio.workers.clock_monitor import ClockMonitor
from mmo_trio.workers.configuration_watch import ConfigurationWatch
from mmo_trio.workers.deliveries import CallbackWorker, QrWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.account import SendRequest
from mmo_trio.workers.providers.account_notes import AccountChecks, AccountRecorder
from mmo_trio.workers.providers.deposits import DepositClaimWorker, DepositLister
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import DueBacklog, Scheduler

OPERATOR_JOURNAL_FILE = "sandbox-provider.ndjson"
"""The simulated operator's journal, in the data directory or next to the master key."""


def build_workers(
    resources: Resources,
    accounts: ConfiguredAccounts,
    authenticator: Authenticator,
    known: KnownConfiguration,
    engine: Engine,
) -> Workers:
    """Build one worker of each kind. Raises SettingsError for a provider without an account."""
    simulated_operator = _simulated_operator(resources, accounts.sandbox, engine)
    account_checks = AccountChecks(resources.store.admin, accounts.provider_accounts, resources.clock.time)
    providers = _provider_worker(resources, accounts, account_checks, simulated_operator, known, engine)
    deadline_s = to_seconds(resources.limits.callback_timeout)
    deliver = partial(resources.delivery_client.deliver, deadline_s=deadline_s)
    find_key, submit, clock = authenticator.delivery_key, engine.submit, resources.clock
    ownership = resources.store.ownership
    owned = OwnedChannels(is_store_shared=ownership is not None, clock=clock.since_boot)
    backlog = DueBacklog()
    callbacks = CallbackWorker(
        deliver=deliver,
        find_key=find_key,
        record_outcome=submit,
        now=clock.time,
        monotonic=clock.monotonic,
        breaker=resources.settings.breaker.breaker_settings,
        owns_channel=owned.owns,
        active_max=resources.limits.callbacks,
        active_per_brand_max=resources.limits.callbacks_per_merchant,
        stored_bodies_bytes=resources.limits.callback_bodies,
        wait_for_due=backlog.wait_for_end,
    )
    channel_owner = None if ownership is None else ChannelOwner(ownership, callbacks, owned)
    qr_codes = QrWorker(deliver=deliver, find_key=find_key, record_outcome=submit)
    dispatcher = Dispatcher(resources.store, providers, channel_owner or callbacks, qr_codes)
    scheduler = Scheduler(
        resources.store, engine.enqueue, dispatcher.dispatch, dispatcher.has_room, clock.time, backlog
    )
    return Workers(
        store=resources.store,
        simulated_operator=simulated_operator,
        configuration_watch=ConfigurationWatch(resources.store, known, clock.monotonic),
        providers=providers,
        callbacks=callbacks,
        channel_owner=channel_owner,
        qr_codes=qr_codes,
        account_checks=account_checks,
        recorder=AccountRecorder(
            resources.store.admin,
            accounts.provider_accounts,
            {name: tuple(find_secrets(each.adapter)) for name, each in accounts.operator_accounts.items()},
            resources.clock.time,
        ),
        deposit_claims=_deposit_claims(resources, accounts, account_checks, engine),
        deposit_lister=DepositLister(
            resources.store, submit, accounts.with_listings, clock.time, clock.now, resources.references.next
        ),
        dispatcher=dispatcher,
        scheduler=scheduler,
        clock_monitor=ClockMonitor(clock, resources.store),
    )


def operator_journal_file(config: ServiceConfig) -> Path:
    """Return the path of the simulated operator's journal."""
    directory = config.data_directory or config.settings.keys.master_key_file.parent
    return directory / OPERATOR_JOURNAL_FILE


def _simulated_operator(
    resources: Resources, account: SandboxProvider | None, engine: Engine
) -> SandboxOperatorWorker | OperatorClient | None:
    """Return the simulated operator, a client of the process in which it runs, or None where no account with it is
    configured."""
    if account is None:
        return None

    def notify(notification: HttpRequest) -> PendingInput:
        return engine.enqueue(account.read_notification(notification))

    if resources.config.operator_socket is not None:
        return OperatorClient(resources.config.operator_socket, notify)
    journal = OperatorJournal(operator_journal_file(resources.config))
    return SandboxOperatorWorker(journal, resources.clock.time, notify)


def _deposit_claims(
    resources: Resources, accounts: ConfiguredAccounts, checks: AccountChecks, engine: Engine
) -> DepositClaimWorker | None:
    """Return the worker that asks about deposits, or None where no provider needs it."""
    opened = {
        name: each for name, each in accounts.operator_accounts.items() if isinstance(each.adapter, VerifiesDeposits)
    }
    if not opened:
        return None
    providers = {name: each.provider for name, each in opened.items()}
    exchanges = {name: partial(checks.ask, name) for name in opened}
    return DepositClaimWorker(resources.store, engine.submit, providers, exchanges.__getitem__, resources.clock.time)


def _provider_worker(
    resources: Resources,
    accounts: ConfiguredAccounts,
    checks: AccountChecks,
    simulated_operator: SandboxOperatorWorker | OperatorClient | None,
    known: KnownConfiguration,
    engine: Engine,
) -> ProviderWorker:
    """Return the worker that reaches each provider through its own account."""
    exchanges: dict[str, SendRequest] = {name: each.exchange for name, each in accounts.provider_accounts.items()}
    questions: dict[str, SendRequest] = {name: partial(checks.ask, name) for name in accounts.provider_accounts}
    if accounts.sandbox is not None and simulated_operator is not None:
        exchanges[accounts.sandbox.name] = questions[accounts.sandbox.name] = simulated_operator.exchange
    for name in resources.provider_titles:
        if name not in exchanges:
            fault = "has no account with an operator."
            raise SettingsError(f"provider.{name}", fault, "Remove the provider.")
    return ProviderWorker(
        engine.submit,
        accounts.providers,
        exchanges.__getitem__,
        questions.__getitem__,
        resources.clock.time,
        is_closed=known.is_closed,
    )
