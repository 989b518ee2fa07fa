"""The accounts with operators that a gateway has: of real ones, and of the sandbox operator."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_trio.service.wiring.resources import Ground
from mmo_trio.settings import SettingsError
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.account import Account
from mmo_trio.workers.providers.open_accounts import (
    Opened,
    Outside,
    open_accounts,
    open_sandbox_account,
)


@frozen
class Accounts:
    """By the provider's name."""

    sandboxes: Mapping[str, SandboxProvider]
    """One at most."""
    opened: Mapping[str, Opened]

    @property
    def providers(self) -> Mapping[str, Provider]:
        """All of them."""
        return {**self.sandboxes, **{name: each.provider for name, each in self.opened.items()}}

    @property
    def real(self) -> Mapping[str, Account]:
        """Those with real operators."""
        return {name: each.account for name, each in self.opened.items()}


def open_all(ground: Ground) -> Accounts:
    """As they are configured. Raises SettingsError."""
    sandboxes = _sandboxes(ground)
    outside = Outside(
        ground.client.ask,
        ground.clock.now,
        ground.clock.monotonic,
        SystemCiphers(),
        ground.keyring,
        ground.urls.hooks,
    )
    return Accounts(sandboxes, open_accounts(ground.settings.providers, ground.titles, outside))


def _sandboxes(ground: Ground) -> Mapping[str, SandboxProvider]:
    """The account with the sandbox operator, of which there is one; a sandbox without any provider has it, too."""
    providers, titles = ground.settings.providers, ground.titles
    names = [name for name in titles if name not in providers or providers[name].kind == "sandbox"]
    if len(names) > 1:
        raise SettingsError(
            f"provider.{names[-1]}",
            "there is one sandbox operator, so one provider of that kind is enough.",
            "Remove all but one.",
        )
    return {name: open_sandbox_account(name, providers.get(name), titles[name]) for name in names}
