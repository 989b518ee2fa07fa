"""Checks a configuration as the start of a gateway does, without listening, storing or sending
anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import get_args

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant, Moment, MonotonicInstant
from mmo_trio.brands.keyring import MASTER_KEY_BYTES, KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.service.resources import AuthoritiesKey, authorities_file
from mmo_trio.service.sockets import open_certificates
from mmo_trio.settings import Settings, SettingsError
from mmo_trio.settings.sections import ListenSection
from mmo_trio.settings.service import plaintext_faults, provider_titles
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.notices import read_key
from mmo_trio.workers.providers.open_accounts import AccountEnvironment, open_accounts


def configuration_faults(
    settings: Settings, *, known: Sequence[SettingsError] = ()
) -> list[SettingsError]:
    """Return everything for which `mmo serve` would refuse to start, as far as it can be seen
    without the store.

    `known` are the faults that were found when the settings were read. The settings have the
    default in the place of such a key, which says nothing about what people have written: so no
    fault at a place of a known one is returned."""
    # Each check is what the start does, so that both find the same.
    checks: list[Callable[[], object]] = [
        partial(open_certificates, settings.listen),
        partial(load_master_keys, settings.keys.master_key_file),
        partial(read_key, settings.notices),
        *(partial(authorities_file, settings, key) for key in get_args(AuthoritiesKey)),
    ]
    found = [*plaintext_faults(settings), *_faults_of(checks), *_provider_faults(settings)]
    return [fault for fault in found if not any(fault.location in one.location for one in known)]


def account_notes(settings: Settings) -> Iterator[str]:
    """Yield a sentence about each account that is simulated, and about each that `production =
    true` says to be real although its address looks simulated. The settings have no faults."""
    titles = provider_titles(settings, is_sandbox=False)
    opened = open_accounts(settings.providers, titles, _environment(settings))
    for name, account in opened.items():
        kind = settings.provider_kinds[settings.providers[name].kind]
        # `production` decides for an account where it is set; its kind tells by the address.
        if account.provider.is_simulated:
            yield (
                f"provider.{name}: no money moves by this account, and its payments are marked as "
                "simulated. Where it is reached by a proxy of your own, set production = true."
            )
        elif kind.is_simulated(account.adapter):
            yield (
                f"provider.{name}: by production = true money moves by this account, though its "
                "address is none of the operator's own."
            )


def simulated_accounts(settings: Settings, titles: Mapping[str, str]) -> Mapping[str, bool | None]:
    """Return for each provider whether no money moves by it; None where its options cannot be read
    here."""
    found: dict[str, bool | None] = {}
    environment = _environment(settings)
    for name, title in titles.items():
        section = settings.providers.get(name)
        if section is None or section.kind == "sandbox":
            found[name] = True
            continue

        try:
            [account] = open_accounts({name: section}, {name: title}, environment).values()
        except SettingsError:
            found[name] = None
        else:
            found[name] = account.provider.is_simulated

    return found


def _environment(settings: Settings) -> AccountEnvironment:
    """Return stand-ins for what accounts need of a process: to open one reads its options and
    files, and neither sends a request nor looks at a clock."""
    return AccountEnvironment(
        send_request=_refuse_request,
        moment=lambda: Moment.at(Instant(0)),
        monotonic=lambda: MonotonicInstant(0),
        ciphers=SystemCiphers(),
        # Of zeros: it makes addresses for notifications, which are neither served nor shown here.
        keyring=KeyRing(bytes(MASTER_KEY_BYTES)),
        webhooks_base_url="https://hooks.invalid",
        provider_kinds=settings.provider_kinds,
        pages_url=settings.gateway.hpp_url or _pages_listener(settings.listen),
    )


def _pages_listener(listen: ListenSection) -> str:
    """Return the address that `mmo serve` takes for the payment pages where none is set."""
    scheme = "http" if listen.tls_certificate is None else "https"
    return f"{scheme}://{listen.pages}"


def _provider_faults(settings: Settings) -> list[SettingsError]:
    """Return the faults of each provider that could not be opened; when there is none, those of all
    together, such as what two of them share and may not."""
    environment = _environment(settings)
    titles, providers = provider_titles(settings, is_sandbox=False), settings.providers
    alone = _faults_of(
        partial(open_accounts, {name: provider}, titles, environment)
        for name, provider in providers.items()
    )
    together = partial(open_accounts, providers, titles, environment)
    return list(alone) or list(_faults_of([together]))


def _faults_of(checks: Iterable[Callable[[], object]]) -> Iterator[SettingsError]:
    for check in checks:
        try:
            check()
        except SettingsError as error:
            yield from error.each


async def _refuse_request(request: HttpRequest, *, deadline_s: float) -> HttpResponse:
    raise AssertionError(request.method)
