"""The kinds of provider: which adapter a `[provider.NAME]` of the settings opens."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from attrs import frozen

from mmo_sansio.providers.airtel_money.adapter import open_airtel_money
from mmo_sansio.providers.common.ciphers import Ciphers
from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.common.options import Options
from mmo_sansio.providers.common.qr_options import read_qr_merchant
from mmo_sansio.providers.mpesa_daraja import account as mpesa_daraja
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mtn_momo import account as mtn_momo
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.providers.sandbox.adapter import DEFAULT_QR_MERCHANT, SandboxProvider


@frozen
class AdapterContext:
    """What an adapter is given beside its own options."""

    hooks_url: str
    """Under which address this account's notifications arrive: `https://HOST/hooks/NAME/TOKEN`. Further segments may be
    appended; they come back in the target of the notification's request."""
    ciphers: Ciphers


class AdapterFactory(Protocol):
    """Makes the adapter of one account."""

    def __call__(
        self, name: str, title: str, options: Mapping[str, Any], context: AdapterContext
    ) -> Provider:
        """Raises OptionError for an option that is unknown, missing or can't be used."""
        ...


def open_sandbox(name: str, title: str, options: Mapping[str, Any]) -> SandboxProvider:
    """The account with the sandbox operator. Raises OptionError."""
    given = Options(options)
    merchant = read_qr_merchant(given, DEFAULT_QR_MERCHANT)
    given.check_unknown()
    return SandboxProvider(name, title, merchant)


def _open_sandbox(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    return open_sandbox(name, title, options)


def _open_mpesa_daraja(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    account = mpesa_daraja.read_account(
        options, hooks_url=context.hooks_url, ciphers=context.ciphers
    )
    return DarajaProvider(name, title, account)


def _open_mtn_momo(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    account = mtn_momo.read_account(options, hooks_url=context.hooks_url)
    return MtnMomoProvider(name, title, account)


def _open_airtel_money(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    return open_airtel_money(name, title, options, context.ciphers)


ADAPTER_FACTORIES: Mapping[str, AdapterFactory] = MappingProxyType(
    {
        "airtel_money": _open_airtel_money,
        "mpesa_daraja": _open_mpesa_daraja,
        "mtn_momo": _open_mtn_momo,
        "sandbox": _open_sandbox,
    }
)
"""By the name that `kind` has in the settings."""


def open_provider(
    kind: str, name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    """The adapter of one account. Raises KeyError for a kind that isn't there, OptionError for a bad option."""
    return ADAPTER_FACTORIES[kind](name, title, options, context)
