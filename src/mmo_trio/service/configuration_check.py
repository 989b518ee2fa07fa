"""Checks a configuration as the start of a gateway does, without listening, storing or sending anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import get_args

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant, MonotonicInstant
from mmo_trio.brands.keyring import MASTER_KEY_BYTES, KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.service.resources import AuthoritiesKey, authorities_file
from mmo_trio.service.sockets import open_certificates
from mmo_trio.settings import Settings, SettingsError
from mmo_trio.settings.service import plaintext_faults, provider_titles
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.open_accounts import AccountEnvironment, open_accounts


def configuration_faults(settings: Settings) -> list[SettingsError]:
    """Return everything for which `mmo serve` would refuse to start, as far as it can be seen without the store."""
    checks: list[Callable[[], object]] = [
        partial(open_certificates, settings.listen),
        partial(load_master_keys, settings.keys.master_key_file),
        *(partial(authorities_file, settings, key) for key in get_args(AuthoritiesKey)),
    ]
    return [*plaintext_faults(settings), *_faults_of(checks), *_provider_faults(settings)]


def _provider_faults(settings: Settings) -> list[SettingsError]:
    """Return the fault of each provider that could not be opened; when there is none, what two of them share."""
    environment = AccountEnvironment(
        _refuse_request,
        lambda: Instant(0),
        lambda: MonotonicInstant(0),
        SystemCiphers(),
        KeyRing(bytes(MASTER_KEY_BYTES)),
        "https://hooks.invalid",
        settings.provider_kinds,
    )
    titles, providers = provider_titles(settings, is_sandbox=False), settings.providers
    alone = [partial(open_accounts, {name: section}, titles, environment) for name, section in providers.items()]
    return list(_faults_of(alone)) or list(_faults_of([partial(open_accounts, providers, titles, environment)]))


def _faults_of(checks: Iterable[Callable[[], object]]) -> Iterator[SettingsError]:
    for check in checks:
        try:
            check()
        except SettingsError as fault:
            yield fault


async def _refuse_request(request: HttpRequest, *, deadline_s: float) -> HttpResponse:
    raise AssertionError(request.method)
