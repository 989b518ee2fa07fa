"""Defines the kinds of provider: each says what `kind = "..."` in a `[provider.NAME]` of the
settings opens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from attrs import frozen

from mmo_sansio.providers.airtel_money import account as airtel_money
from mmo_sansio.providers.airtel_money.adapter import open_airtel_money
from mmo_sansio.providers.airtel_money.rehearsal import AIRTEL_REHEARSAL
from mmo_sansio.providers.common.emv_qr import QrOptions, qr_merchant
from mmo_sansio.providers.common.interface import Ciphers, HasBaseUrl, MayBeSimulated, Provider
from mmo_sansio.providers.common.rehearsal import Rehearsal
from mmo_sansio.providers.mpesa_daraja import account as mpesa_daraja
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mpesa_daraja.rehearsal import MPESA_REHEARSAL
from mmo_sansio.providers.mtn_momo import account as mtn_momo
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.providers.mtn_momo.rehearsal import MTN_REHEARSAL
from mmo_sansio.providers.sandbox.adapter import DEFAULT_QR_MERCHANT, SandboxProvider
from mmo_sansio.values.fields import Field, fields_of, read_fields, read_table

# Host without port. An address in brackets fits no pattern of `production_hosts`, as it must.
_HOST: Final = re.compile("https?://([^/:]+)", re.ASCII)


@frozen
class AdapterContext:
    """Holds what the shell gives to an adapter in addition to its options."""

    hooks_url: str
    """The address of this account's notifications: `https://HOST/hooks/NAME/TOKEN`. An adapter may
    append further segments; they come back in the target of the notification's request."""
    ciphers: Ciphers
    checks_sender: bool = False
    """Whether notifications are accepted from listed networks only (`hooks_from`)."""
    pages_url: str = ""
    """The address of the payment pages, no slash at the end: `return_url` makes of it where the
    operator sends a payer back."""


class AdapterFactory(Protocol):
    """Makes the adapter of one account."""

    def __call__(
        self, name: str, title: str, options: Mapping[str, Any], context: AdapterContext
    ) -> Provider:
        """Return the adapter. Raises SettingsError for options that are missing or unusable."""


@frozen
class ProviderKind:
    """A kind of provider is an adapter with the options that its accounts take."""

    title: str
    """The display name of accounts that set none of their own."""
    factory: AdapterFactory
    options: Sequence[Field]
    """What `[provider.NAME]` may have, besides the keys of every kind."""
    origin: str = ""
    """The distribution that brings this kind; empty for a built-in one."""
    recorded: tuple[str, ...] = ()
    """The members of its answers, besides the common ones, whose codes, ids, amounts and times a
    recording keeps; in small letters, without marks."""
    production_hosts: tuple[str, ...] = ()
    """The hosts at which its operator moves money, where `?` stands for any one letter: at any
    other its accounts are simulated. Empty: not known, so none is."""
    confirms_elsewhere: Callable[[Mapping[str, Any]], bool] = lambda _: False
    """Tells by its options whether the payers of an account confirm at a page of the operator, or
    with a code of it: then a pay-in needs a page, and `direct/payin` has none."""
    rehearsal: Rehearsal | None = None
    """How its accounts are rehearsed; None: they are not."""

    @property
    def secrets(self) -> Sequence[str]:
        """Return the options whose values must never be shown."""
        return [option.name for option in self.options if option.kind.is_secret]

    def is_simulated(self, adapter: Provider) -> bool:
        """Tell whether no money moves by an account of this kind, as far as its address tells."""
        # An aggregator has one address for both: its account is told by its token, say.
        if isinstance(adapter, MayBeSimulated):
            return adapter.is_simulated

        # Unknown counts as money, so that nobody mistakes real payments for play.
        if not self.production_hosts or not isinstance(adapter, HasBaseUrl):
            return False

        host = _HOST.match(adapter.base_url.lower())
        if host is None:
            return False
        return not any(_fits(host[1], pattern) for pattern in self.production_hosts)

    def open_adapter(
        self, name: str, title: str, options: Mapping[str, Any], context: AdapterContext
    ) -> Provider:
        """Return the adapter of one account. Raises SettingsError for an option that is unknown,
        missing or unusable."""
        # What the kind declares holds, whatever its factory reads.
        read_fields(self.options, options)
        return self.factory(name, title, options, context)


def _fits(host: str, pattern: str) -> bool:
    """Tell whether a host is one of those that a pattern names, as `production_hosts` has it."""
    # `?` is a letter only, as in Airtel's hosts by country: a digit or a dot could name another
    # host.
    return len(host) == len(pattern) and all(
        asked == found or (asked == "?" and found.isalpha())
        for asked, found in zip(pattern, host, strict=True)
    )


def open_sandbox(
    name: str, title: str, options: Mapping[str, Any], *, is_lenient: bool = False
) -> SandboxProvider:
    """Return the account with the sandbox operator. Raises SettingsError."""
    merchant = qr_merchant(read_table(QrOptions, options), DEFAULT_QR_MERCHANT)
    return SandboxProvider(name, title, merchant, is_lenient)


def _open_mpesa_daraja(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    account = mpesa_daraja.read_account(
        options,
        hooks_url=context.hooks_url,
        ciphers=context.ciphers,
        checks_sender=context.checks_sender,
    )
    return DarajaProvider(name, title, account)


def _open_mtn_momo(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    account = mtn_momo.read_account(options, hooks_url=context.hooks_url)
    return MtnMomoProvider(name, title, account)


# The built-in kinds, by the name that `kind` has in the settings.
PROVIDER_KINDS: Final[Mapping[str, ProviderKind]] = MappingProxyType(
    {
        "sandbox": ProviderKind(
            "Sandbox",
            lambda name, title, options, context: open_sandbox(name, title, options),
            fields_of(QrOptions),
        ),
        "mpesa_daraja": ProviderKind(
            "M-Pesa",
            _open_mpesa_daraja,
            fields_of(mpesa_daraja.MpesaOptions),
            production_hosts=mpesa_daraja.PRODUCTION_HOSTS,
            rehearsal=MPESA_REHEARSAL,
        ),
        "mtn_momo": ProviderKind(
            "MTN MoMo",
            _open_mtn_momo,
            fields_of(mtn_momo.MtnOptions),
            production_hosts=mtn_momo.PRODUCTION_HOSTS,
            rehearsal=MTN_REHEARSAL,
        ),
        "airtel_money": ProviderKind(
            "Airtel Money",
            lambda name, title, options, context: open_airtel_money(
                name, title, options, context.ciphers
            ),
            fields_of(airtel_money.AirtelAccount),
            production_hosts=airtel_money.PRODUCTION_HOSTS,
            rehearsal=AIRTEL_REHEARSAL,
        ),
    }
)
