"""Opens the configured accounts with real operators and with the simulated one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from attrs import frozen

from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_trio.service.wiring.resources import Resources
from mmo_trio.settings import SettingsError
from mmo_trio.settings.providers import ProviderSection
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.account import ProviderAccount
from mmo_trio.workers.providers.open_accounts import (
    AccountEnvironment,
    OpenAccount,
    open_accounts,
    open_sandbox_account,
)

logger = structlog.get_logger(__name__)


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
        providers: dict[str, Provider] = {name: each.provider for name, each in self.operator_accounts.items()}
        if self.sandbox is not None:
            providers[self.sandbox.name] = self.sandbox
        return providers

    @property
    def provider_accounts(self) -> Mapping[str, ProviderAccount]:
        """Return the accounts with real operators by the provider's name."""
        return {name: each.account for name, each in self.operator_accounts.items()}

    @property
    def with_listings(self) -> Sequence[OpenAccount]:
        """Return the accounts for which what was paid can be listed."""
        accounts = [(each, each.adapter) for each in self.operator_accounts.values()]
        return [each for each, by in accounts if isinstance(by, DarajaProvider) and by.account.pull_number]


def open_configured_accounts(resources: Resources) -> ConfiguredAccounts:
    """Open every configured account. Raises SettingsError."""
    sandbox = _open_sandbox_account(resources)
    settings, clock = resources.settings, resources.clock
    environment = AccountEnvironment(
        resources.provider_client.call_provider,
        clock.time,
        clock.monotonic,
        SystemCiphers(),
        resources.keyring,
        resources.urls.webhooks,
        settings.provider_kinds,
    )
    opened = open_accounts(settings.providers, resources.provider_titles, environment)
    for name, each in opened.items():
        if trusts_anybody(each):
            logger.warning("deposits_trusted", provider=name)
    return ConfiguredAccounts(sandbox, opened)


def trusts_anybody(opened: OpenAccount) -> bool:
    """Return whether anybody who knows an address could report deposits that are booked without a question."""
    adapter = opened.adapter
    if not isinstance(adapter, DarajaProvider):
        return False
    return adapter.account.trusts_deposits and not opened.webhook_endpoint.allowed_networks


def _open_sandbox_account(resources: Resources) -> SandboxProvider | None:
    """Open the account with the simulated operator. A sandbox without any provider has one, too."""
    providers, titles = resources.settings.providers, resources.provider_titles
    names = [name for name in titles if name not in providers or providers[name].kind == "sandbox"]
    if len(names) > 1:
        fault = "there is one sandbox operator, so one provider of that kind is enough."
        raise SettingsError(f"provider.{names[-1]}", fault, "Remove all but one.")
    if not names:
        return None
    [name] = names
    section = providers.get(name) or ProviderSection(name, "sandbox", {})
    return open_sandbox_account(section, titles[name], is_lenient=resources.settings.sandbox.lenient)
