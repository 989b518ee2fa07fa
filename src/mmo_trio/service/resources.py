"""Builds the resources that all parts of a gateway share: settings, store, keys, clock and HTTP
client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from argon2 import PasswordHasher
from attrs import evolve, frozen

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.clock import Span
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.brands.apply import apply_brands_file
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import MasterKeyFile, open_keyring
from mmo_trio.http.client.client import HttpClient, tls_context
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID, ensure_demo_brand
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.settings import LimitsSection, Settings, SettingsError
from mmo_trio.settings.service import (
    CLOCK_OFFSET_FILE,
    PublicUrls,
    ServiceAddresses,
    ServiceConfig,
    elsewhere_providers,
    provider_titles,
)
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock, read_offset
from mmo_trio.system.ids import PageTokenGenerator, ReferenceGenerator
from mmo_trio.workers.clock_monitor import require_right_clock

# The settings in `[egress]` that name a file of authorities.
AuthoritiesKey = Literal["extra_ca_file", "provider_ca_file"]


@frozen
class Resources:
    """Exists once in each gateway process."""

    config: ServiceConfig
    store: Store
    addresses: ServiceAddresses
    keyring: KeyRing
    master_key_file: MasterKeyFile
    clock: GatewayClock
    references: ReferenceGenerator
    page_tokens: PageTokenGenerator
    provider_titles: Mapping[str, str]
    """Display names of the providers, by name."""
    urls: PublicUrls
    egress_rules: EgressRules
    clients: HttpClients
    password_hasher: PasswordHasher
    """Of the console's users."""

    @property
    def settings(self) -> Settings:
        return self.config.settings

    @property
    def audit_log(self) -> AuditLog:
        return AuditLog(self.store.admin, self.keyring.audit_key, self.clock.wall_time)

    @property
    def limits(self) -> LimitsSection:
        return self.config.settings.limits


@frozen
class HttpClients:
    """Holds the clients of one gateway process."""

    deliveries: HttpClient
    """Sends callbacks and QR codes to merchants' receivers."""
    providers: HttpClient
    """Sends requests to operators: with authorities and name look-ups of its own, so that nothing
    that merchants do or need has a part in it."""


# Opens the clients of a process, with the rules for what merchants name. Raises SettingsError.
OpenClients: TypeAlias = Callable[[ServiceConfig, EgressRules], HttpClients]


def open_system_clients(config: ServiceConfig, rules: EgressRules) -> HttpClients:
    """Return clients that use the system's network and the configured authorities. Raises
    SettingsError."""
    # Apart, as an authority for a merchant's receiver must not vouch for an operator.
    authorities = authorities_file(config.settings, "provider_ca_file")
    return HttpClients(
        deliveries=HttpClient(rules=rules, context=tls_context(*_receiver_authorities(config))),
        providers=HttpClient(rules=EgressRules(), context=tls_context(authorities)),
    )


async def build_resources(
    config: ServiceConfig,
    store: Store,
    addresses: ServiceAddresses,
    *,
    clock: GatewayClock | None = None,
    open_clients: OpenClients = open_system_clients,
    password_hasher: PasswordHasher | None = None,
) -> Resources:
    """Build the resources of a gateway on this store and these addresses, by the clock of the
    machine unless there is another one, and with Argon2id as RFC 9106 recommends it unless there is
    another hasher.

    Raises SettingsError, also when the master key is not that of the store, and StoreUnusable when
    the machine's clock differs too much from the store's."""
    # 1. A clock that differs from the store's would date payments wrongly: looked at first.
    clock = clock or GatewayClock(offset=_stored_clock_offset(config))
    await require_right_clock(clock, store)

    # 2. The keys. Only a sandbox makes its own: in production a new key would open nothing.
    master_key_file = config.settings.keys.master_key_file
    keyring = await open_keyring(
        store, master_key_file, may_create=config.is_sandbox, now=clock.wall_time()
    )

    # 3. What merchants and operators see from outside, and where callbacks may not go.
    urls = PublicUrls.from_settings(config.settings, addresses)
    rules = urls.egress_rules(config.settings)
    return Resources(
        config=config,
        store=store,
        addresses=addresses,
        keyring=keyring,
        master_key_file=MasterKeyFile(master_key_file, keyring),
        clock=clock,
        references=ReferenceGenerator(clock.wall_time),
        page_tokens=PageTokenGenerator(clock.wall_time),
        provider_titles=provider_titles(config.settings, is_sandbox=config.is_sandbox),
        urls=urls,
        egress_rules=rules,
        clients=open_clients(config, rules),
        password_hasher=password_hasher or PasswordHasher(),
    )


async def prepare_store(resources: Resources) -> ServiceAddresses:
    """Apply the configured brands once, before the service serves; return what READY says.

    Raises SettingsError, and StoreUnavailable when the store can't serve.
    """
    config, now = resources.config, resources.clock.wall_time()
    if config.brands_file is not None:
        keyring, titles = resources.keyring, resources.provider_titles
        rules, store = resources.egress_rules, resources.store
        made_keys = await apply_brands_file(
            config.brands_file,
            store,
            keyring,
            titles,
            rules,
            now=now,
            is_sandbox=config.is_sandbox,
            elsewhere=elsewhere_providers(config.settings),
        )
        return evolve(resources.addresses, made_keys=made_keys)

    if not config.has_demo_brand:
        return resources.addresses

    provider, title = next(iter(resources.provider_titles.items()))
    key = await ensure_demo_brand(
        resources.store, resources.keyring, provider=provider, title=title, now=now
    )
    return evolve(resources.addresses, brand=DEMO_BRAND_ID, api_key=key)


def _stored_clock_offset(config: ServiceConfig) -> Span:
    if not config.is_sandbox or config.data_directory is None:
        return Span(0)
    return read_offset(config.data_directory / CLOCK_OFFSET_FILE)


def _receiver_authorities(config: ServiceConfig) -> tuple[Path | None, Path | None]:
    """Return the authorities of receivers: those of the settings, and a sandbox's own, which `mmo
    listen` uses."""
    own = None
    if config.is_sandbox and config.data_directory is not None:
        own = ensure_authority(config.data_directory).certificate_file
    return authorities_file(config.settings, "extra_ca_file"), own


def authorities_file(settings: Settings, key: AuthoritiesKey) -> Path | None:
    """Return the configured file of authorities, if any. Raises SettingsError when it does not
    exist."""
    egress = settings.egress
    file = egress.extra_ca_file if key == "extra_ca_file" else egress.provider_ca_file
    if file is not None and not file.is_file():
        remedy = "Name a PEM file of authorities, or leave the setting out."
        raise SettingsError(f"egress.{key}", f"there is no file {file}.", remedy)
    return file
