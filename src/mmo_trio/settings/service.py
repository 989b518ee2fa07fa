"""Defines how a gateway process is started, the addresses that it reports, and its public URLs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from attrs import field, frozen

from mmo_sansio.http.egress_rules import EgressRules, parse_url
from mmo_trio.settings import Settings, SettingsError
from mmo_trio.settings.values import ListenAddress
from mmo_trio.storage.open_store import is_shared_store, url_scheme

# The file in a sandbox's data directory with the offset of its clock; see `read_offset`.
CLOCK_OFFSET_FILE = "clock-offset"

# The file in a sandbox's data directory with its addresses while it serves: a JSON object with
# `api`, `pages`, `console`.
RUNNING_FILE = "running.json"


# What to use instead of the sandbox's operator, which is one process's own.
SHARED_OPERATOR_ADVICE = "an operator that processes can share: `mmo simulate mtn`"


@frozen
class ServiceConfig:
    """Says how a gateway process runs."""

    settings: Settings
    data_directory: Path | None = None
    """The directory of a sandbox's store, keys, authority, clock and `running.json`; None in
    production."""
    is_sandbox: bool = False
    """Whether sandbox provider, virtual phone and sandbox controls run; never in production."""
    has_demo_brand: bool = False
    """Whether a missing demo brand is created."""
    brands_file: Path | None = None
    """`brands.toml`, applied before serving."""
    workers: int = 1
    """Serving processes; more than one needs PostgreSQL."""
    metrics_files: tuple[Path, str] | None = None
    """The directory of the metrics of a service's processes, and this one's name; None for a single
    process."""


@frozen
class ServiceAddresses:
    """Holds the actual addresses of a gateway, with port 0 replaced."""

    api: str
    """`http://127.0.0.1:8080`, no slash at the end."""
    pages: str
    console: str
    http2: str | None = field(default=None, kw_only=True)
    """The address of the merchant API by HTTP/2, where there is one."""
    brand: str | None = None
    """The demo brand, when there is one."""
    api_key: str | None = field(default=None, repr=False)
    """The API key of that brand: in the sandbox only (A5)."""
    made_keys: Mapping[str, str] = field(factory=dict, repr=False)
    """The keys that a sandbox has made for brands of a file without one, by brand."""

    def ready_line(self) -> str:
        """Return the line for standard output that says that the gateway serves."""
        words = [f"READY api={self.api} pages={self.pages} console={self.console}"]
        if self.http2 is not None:
            words.append(f"http2={self.http2}")
        if self.brand is not None:
            words.append(f"brand={self.brand}")
        if self.api_key is not None:
            words.append(f"api_key={self.api_key}")
        return " ".join(words)


@frozen
class PublicUrls:
    """Holds URLs that begin with a scheme and do not end with a slash."""

    base: str
    hosted_pages: str
    error_docs: str
    webhooks: str

    @classmethod
    def from_settings(cls, settings: Settings, addresses: ServiceAddresses) -> PublicUrls:
        """Return the URLs that are set, and the listeners' own for the others."""
        # Without a public URL the listener's own serves, as in a sandbox.
        pages = (settings.gateway.hpp_url or addresses.pages).rstrip("/")
        base = (settings.gateway.base_url or addresses.api).rstrip("/")
        return cls(
            base=base,
            hosted_pages=pages,
            error_docs=(settings.gateway.error_docs_url or f"{pages}/errors").rstrip("/"),
            webhooks=(settings.gateway.hooks_url or base).rstrip("/"),
        )

    def egress_rules(self, settings: Settings) -> EgressRules:
        """Return where merchants' URLs may lead: as set, and never to the gateway itself (K7)."""
        return EgressRules(
            allow_private=settings.egress.allow_private,
            allowed_ports=frozenset(settings.egress.allowed_ports),
            own_hosts=frozenset(
                parse_url(url).authority for url in (self.base, self.hosted_pages, self.webhooks)
            ),
        )


def sandbox_presets(data_directory: Path, *, free_ports: bool = False) -> dict[str, str]:
    """Return the settings that differ in a sandbox, which all other layers override."""
    presets = {
        "database.url": f"sqlite:///{data_directory / 'gateway.db'}",
        "egress.allow_private": "true",
        "keys.master_key_file": str(data_directory / "master.key"),
        "limits.pages_share": "1",
    }
    if free_ports:
        presets |= {f"listen.{part}": "127.0.0.1:0" for part in ("api", "pages", "console")}
    return presets


def sandbox_provider(settings: Settings) -> str | None:
    """Return the name of the provider whose operator the gateway simulates in its own process;
    None without one."""
    kinds = {name: provider.kind for name, provider in settings.providers.items()}
    return next((name for name, kind in kinds.items() if kind == "sandbox"), None)


def check_production(settings: Settings, *, workers: int) -> None:
    """Raise SettingsError for settings that are not allowed in production."""
    # One process has a SQLite file to itself.
    if workers > 1 and not is_shared_store(settings.database.url):
        raise SettingsError(
            "--workers",
            f"{workers} processes can't serve from one {url_scheme(settings.database.url)} store.",
            "Use --workers 1, or PostgreSQL in database.url.",
        )

    if workers > 1 and (name := sandbox_provider(settings)) is not None:
        raise SettingsError(
            f"provider.{name}",
            f"its simulated operator lives in one process, and --workers asks for {workers}.",
            f"Use --workers 1, or {SHARED_OPERATOR_ADVICE}.",
        )

    check_plaintext_http(settings)


def check_plaintext_http(settings: Settings) -> None:
    """Raise SettingsError when keys and payments would leave this machine unencrypted."""
    for fault in plaintext_faults(settings):
        raise fault


def plaintext_faults(settings: Settings) -> Iterator[SettingsError]:
    """Yield a fault for each listener through which keys and payments would leave this machine
    unencrypted."""
    listen = settings.listen

    # In front of a trusted proxy there is TLS; the way behind it is a private one.
    allowed = bool(listen.proxy_trusted) or listen.allow_clear

    # The console never has a certificate of its own.
    addresses: dict[str, ListenAddress | None] = {"listen.console": listen.console}
    if listen.tls_certificate is None:
        addresses |= {
            "listen.api": listen.api,
            "listen.http2": listen.http2,
            "listen.pages": listen.pages,
        }

    for key, endpoint in addresses.items():
        if endpoint is not None and not endpoint.is_loopback and not allowed:
            yield SettingsError(
                key,
                f"{endpoint} would serve clear HTTP beyond this machine.",
                "Set listen.tls_certificate and listen.tls_key, name the proxy in front of it in"
                " listen.proxy_trusted, or set listen.allow_clear = true.",
            )


def elsewhere_providers(settings: Settings) -> frozenset[str]:
    """Return the names of the providers whose payers confirm at a page of the operator, or with a
    code of it."""
    kinds = settings.provider_kinds
    return frozenset(
        name
        for name, provider in settings.providers.items()
        if kinds[provider.kind].confirms_elsewhere(provider.options)
    )


def provider_titles(settings: Settings, *, is_sandbox: bool) -> Mapping[str, str]:
    """Return the display names of the configured providers by name; a sandbox without any has
    `sandbox`."""
    kinds = settings.provider_kinds

    # A sandbox works without any configuration.
    if is_sandbox and not settings.providers:
        titles = {"sandbox": kinds["sandbox"].title}
    else:
        titles = {}
    for name, provider in settings.providers.items():
        titles[name] = str(provider.options.get("title", kinds[provider.kind].title))
    return MappingProxyType(titles)
