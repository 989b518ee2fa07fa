"""The accounts with operators that a gateway has: of real ones, and of the sandbox operator."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_trio.service.wiring.resources import Resources
from mmo_trio.settings import SettingsError
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.account import ProviderAccount
from mmo_trio.workers.providers.open_accounts import (
    AccountEnvironment,
    OpenAccount,
    open_accounts,
    open_sandbox_account,
)


@frozen
class ConfiguredAccounts:
    """By the provider's name."""

    sandboxes: Mapping[str, SandboxProvider]
    """One at most."""
    operator_accounts: Mapping[str, OpenAccount]

    @property
    def providers(self) -> Mapping[str, Provider]:
        """All of them."""
        return {
            **self.sandboxes,
            **{name: each.provider for name, each in self.operator_accounts.items()},
        }

    @property
    def provider_accounts(self) -> Mapping[str, ProviderAccount]:
        """Those with real operators."""
        return {name: each.account for name, each in self.operator_accounts.items()}


def open_configured_accounts(resources: Resources) -> ConfiguredAccounts:
    """As they are configured. Raises SettingsError."""
    sandboxes = _open_sandbox_accounts(resources)
    outside = AccountEnvironment(
        resources.http_client.call_provider,
        resources.clock.now,
        resources.clock.monotonic,
        SystemCiphers(),
        resources.keyring,
        resources.urls.webhooks,
    )
    return ConfiguredAccounts(
        sandboxes, open_accounts(resources.settings.providers, resources.provider_titles, outside)
    )


def _open_sandbox_accounts(resources: Resources) -> Mapping[str, SandboxProvider]:
    """The account with the sandbox operator, of which there is one; a sandbox without any provider has it, too."""
    providers, titles = resources.settings.providers, resources.provider_titles
    names = [name for name in titles if name not in providers or providers[name].kind == "sandbox"]
    if len(names) > 1:
        raise SettingsError(
            f"provider.{names[-1]}",
            "there is one sandbox operator, so one provider of that kind is enough.",
            "Remove all but one.",
        )
    return {name: open_sandbox_account(name, providers.get(name), titles[name]) for name in names}
