"""What every part of a gateway stands on: settings, store, keys, clock, and how it and the world reach each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.clock import Span
from mmo_trio.brands.keyring import KeyRing, load_master_key
from mmo_trio.http.client.client import HttpClient, tls_context
from mmo_trio.settings import LimitsSection, Settings, SettingsError, to_seconds
from mmo_trio.settings.service import (
    CLOCK_OFFSET_FILE,
    ServiceAddresses,
    ServiceConfig,
    provider_titles,
)
from mmo_trio.settings.urls import PublicUrls
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import WallClock, read_offset
from mmo_trio.system.ids import ReferenceGenerator


@frozen
class Resources:
    """One for each gateway process."""

    config: ServiceConfig
    store: Store
    addresses: ServiceAddresses
    keyring: KeyRing
    clock: WallClock
    references: ReferenceGenerator
    provider_titles: Mapping[str, str]
    """Display names of the providers, by name."""
    urls: PublicUrls
    egress_rules: EgressRules
    http_client: HttpClient
    """The way out, for callbacks and to operators."""

    @property
    def settings(self) -> Settings:
        return self.config.settings

    @property
    def limits(self) -> LimitsSection:
        return self.config.settings.limits

    @property
    def callback_deadline_s(self) -> float:
        """For callbacks and QR codes, each as a whole (K2)."""
        return to_seconds(self.limits.callback_timeout)


def build_resources(config: ServiceConfig, store: Store, addresses: ServiceAddresses) -> Resources:
    """For a gateway on this store, reached at these addresses. Raises SettingsError."""
    keyring = KeyRing(master_key(config))
    clock = WallClock(offset=Span(_stored_clock_offset(config)))
    urls = PublicUrls.from_settings(config.settings, addresses)
    rules = urls.egress_rules(config.settings)
    return Resources(
        config=config,
        store=store,
        addresses=addresses,
        keyring=keyring,
        clock=clock,
        references=ReferenceGenerator(clock.now),
        provider_titles=provider_titles(config.settings, is_sandbox=config.is_sandbox),
        urls=urls,
        egress_rules=rules,
        http_client=HttpClient(rules=rules, context=tls_context(_extra_ca_file(config.settings))),
    )


def master_key(config: ServiceConfig) -> bytes:
    """The key under which merchants' keys are sealed; a sandbox makes one. Raises SettingsError."""
    return load_master_key(master_key_file(config), create=config.is_sandbox)


def master_key_file(config: ServiceConfig) -> Path:
    """Where it is kept."""
    return config.settings.keys.master_key_file or Path("master.key")


def _stored_clock_offset(config: ServiceConfig) -> int:
    if not config.is_sandbox or config.data_directory is None:
        return 0
    return read_offset(config.data_directory / CLOCK_OFFSET_FILE)


def _extra_ca_file(settings: Settings) -> Path | None:
    file = settings.egress.extra_ca_file
    if file is not None and not file.is_file():
        raise SettingsError(
            "egress.extra_ca_file",
            f"there is no file {file}.",
            "Name a PEM file of authorities, or leave the setting out.",
        )
    return file
