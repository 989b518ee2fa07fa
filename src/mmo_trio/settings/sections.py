"""Defines the settings: a class for each section of `mmo.toml`, each key with default and meaning.

Limits of the specification that may be set have the specification's values as defaults (V1).
Durations are spans of the core, in microseconds; sizes are octets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import asdict, evolve, field, fields, frozen, has

from mmo_sansio.api.incoming.creation_body import LARGEST_BODY_BYTES
from mmo_sansio.http.exchange import DELIVERY_TIMEOUT_S
from mmo_sansio.http.listener_limits import DEFAULT_LISTENER_LIMITS, ListenerLimits
from mmo_sansio.providers.registry import PROVIDER_KINDS, ProviderKind
from mmo_sansio.resilience.circuit_breaker import DEFAULT_BREAKER_SETTINGS, BreakerSettings
from mmo_sansio.resilience.fair_queue import DELIVERY_SLOTS, DELIVERY_SLOTS_PER_BRAND
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_sansio.values.fields import SWITCH, Field, fields_of, one_of, setting
from mmo_sansio.values.model import Terms
from mmo_trio.settings.providers import ProviderSection
from mmo_trio.settings.values import (
    COUNT,
    DATABASE,
    FILE,
    HOST_NAMES,
    LISTEN_ADDRESS,
    NETWORKS,
    PORTS,
    RATIO,
    REVERSAL_LIMITS,
    SECONDS,
    SIZE,
    SPAN,
    SPAN_OR_OFF,
    TITLE,
    URL,
    WEBHOOK_URL,
    ListenAddress,
    Network,
    ReversalLimit,
    from_seconds,
    to_seconds,
)

_TERMS, _BREAKER, _LISTENER = Terms(), DEFAULT_BREAKER_SETTINGS, DEFAULT_LISTENER_LIMITS

# The time after which a retired key or disabled brand is rejected everywhere (A3).
API_KEY_CACHE_MAX = Span(60 * clock.SECOND)

# Inputs that may wait for the engine's next batches; further ones are rejected at once (P5).
ENGINE_QUEUE_MAX = 4096

# Inputs in one commit: above this the store gains nothing and the first caller waits longer.
ENGINE_BATCH_MAX = 256


@frozen
class GatewaySection:
    """Sets the name and the public addresses of the gateway."""

    title: str | None = setting(
        TITLE,
        None,
        "Who runs the gateway, in the last line of the payment page.",
        default_text="the host of hpp_url",
    )
    base_url: str | None = setting(
        URL,
        None,
        "Scheme and host of the merchant API, as merchants see it.",
        default_text="the address of the API listener",
    )
    hpp_url: str | None = setting(
        URL,
        None,
        "Scheme and host of the hosted payment page, as payers see it.",
        default_text="the address of the pages listener",
    )
    error_docs_url: str | None = setting(
        URL, None, "Base of the type URIs of errors.", default_text="`/errors` under hpp_url"
    )
    hooks_url: str | None = setting(
        URL,
        None,
        "Scheme and host under which providers send their notifications.",
        default_text="base_url",
    )
    extensions: bool = setting(
        SWITCH,
        True,
        "Whether merchants may read, beside the specification, their methods and reversals "
        "(`/extensions/v1`).",
    )
    payees_per_minute: int | None = setting(
        COUNT,
        None,
        "How often in a minute each brand may ask whose account is behind a number, where "
        "operators tell it (`/extensions/v1/payees`, and the console).",
        default_text="nobody may ask",
    )


@frozen
class ListenSection:
    """Sets where the gateway listens; port 0 picks a free one."""

    # Only this machine by default: nothing is reachable by accident.
    api: ListenAddress = setting(
        LISTEN_ADDRESS, ListenAddress("127.0.0.1", 8080), "The merchant API and provider hooks."
    )
    http2: ListenAddress | None = setting(
        LISTEN_ADDRESS,
        None,
        "The same by HTTP/2, with the same certificate; without one only for clients that "
        "know (h2c).",
        default_text="no HTTP/2",
    )
    pages: ListenAddress = setting(
        LISTEN_ADDRESS,
        ListenAddress("127.0.0.1", 8081),
        "The hosted payment page, error pages and API documentation.",
    )
    console: ListenAddress = setting(
        LISTEN_ADDRESS,
        ListenAddress("127.0.0.1", 8082),
        "The console and metrics; keep it private.",
    )
    tls_certificate: Path | None = setting(
        FILE,
        None,
        "Certificate chain (PEM) of the API, HTTP/2 and pages listeners; read again on SIGHUP.",
        default_text="clear HTTP",
    )
    tls_key: Path | None = setting(
        FILE, None, "Private key (PEM) of that certificate.", default_text="clear HTTP"
    )
    proxy_trusted: tuple[Network, ...] = setting(
        NETWORKS, (), "Proxies in front of the gateway whose `X-Forwarded-For` is trusted (A6)."
    )
    proxy_host: bool = setting(
        SWITCH,
        False,
        "Whether they write `X-Forwarded-Host` and `X-Forwarded-Proto`, too, so that no client's "
        "own comes through.",
    )
    allow_clear: bool = setting(
        SWITCH, False, "Whether clear HTTP may be served beyond this machine, to anybody."
    )
    hsts: Span | None = setting(
        SPAN_OR_OFF,
        Span(365 * clock.DAY),
        "How long browsers may use only TLS after a visit, where TLS is the gateway's own; "
        '"off": no such rule.',
    )


@frozen
class DatabaseSection:
    """Sets where everything is stored."""

    url: str = setting(
        DATABASE,
        "sqlite:///gateway.db",
        'A SQLite file ("sqlite:///FILE") or PostgreSQL ("postgresql://USER@HOST/DATABASE").',
    )
    allow_clear: bool = setting(
        SWITCH,
        False,
        "Whether PostgreSQL on another machine may be used without `sslmode=verify-full`.",
    )
    mark_file: Path | None = setting(
        FILE,
        None,
        "How far this machine has seen the store come, by which a restored backup is recognised: a "
        "file outside of what a backup takes, on a disk that stays.",
        default_text="beside `keys.master_key_file`, with `.mark` after its name; where a SQLite "
        "store is there or nothing can be written, beside the SQLite file; none for PostgreSQL",
    )
    # 0: a store that lacks anything is refused.
    failover_loss_s: int = setting(
        SECONDS,
        0,
        "How much an asynchronous standby of PostgreSQL may lack when it is promoted, for the "
        "gateway to serve it: at least 1 for any, as within a second nobody can tell.",
    )


@frozen
class LimitsSection:
    """Sets the limits of time, size and number."""

    pending_timeout: Span = setting(
        SPAN,
        _TERMS.pending_timeout,
        "How long a transaction may stay pending before it fails with `transaction_expired` (S3); "
        "at least 10m30s.",
    )
    idempotency_window: Span = setting(
        SPAN,
        _TERMS.idempotency_window,
        "How long a used merchantReference is refused in any case; then the brand's "
        "`reference_reuse` decides (C12); at least 60s.",
    )
    api_key_cache: Span = setting(
        SPAN, API_KEY_CACHE_MAX, "How long a verified key is trusted; at most 60s (A3)."
    )
    callback_timeout: Span = setting(
        SPAN,
        from_seconds(DELIVERY_TIMEOUT_S),
        "How long one callback may take in all (K2); at least 1s.",
    )
    page_session: Span | None = setting(
        SPAN_OR_OFF,
        _TERMS.page_session,
        'How long a hosted payment page can be used; "off": as long as the transaction is '
        "pending (W1).",
    )
    body: int = setting(SIZE, LARGEST_BODY_BYTES, "The largest request body (G7).")
    handshake_timeout: Span = setting(
        SPAN,
        from_seconds(_LISTENER.handshake_timeout_s),
        "From an accepted connection to the end of its handshake.",
    )
    idle_timeout: Span = setting(
        SPAN,
        from_seconds(_LISTENER.idle_timeout_s),
        "How long a connection may wait between requests.",
    )
    head_timeout: Span = setting(
        SPAN,
        from_seconds(_LISTENER.head_timeout_s),
        "From the first byte of a request to the end of its head.",
    )
    body_timeout: Span = setting(
        SPAN,
        from_seconds(_LISTENER.body_timeout_s),
        "From the end of the head to the end of the body.",
    )
    write_timeout: Span = setting(
        SPAN, from_seconds(_LISTENER.write_timeout_s), "To send one answer."
    )
    drain_timeout: Span = setting(
        SPAN,
        from_seconds(_LISTENER.drain_timeout_s),
        "How long active requests may take during a shutdown.",
    )
    connections: int = setting(COUNT, _LISTENER.connections, "Open connections in all.")
    connections_per_address: int = setting(
        COUNT,
        _LISTENER.connections_per_address,
        "Open connections from one address, or from one /64 of IPv6.",
    )
    pages_connections: int = setting(
        COUNT, 2048, "Open connections to the pages in all; one address may have an eighth of them."
    )
    # Staff are few, and Prometheus keeps one.
    console_connections: int = setting(
        COUNT, 256, "Open connections to the console in all; one address may have half of them."
    )
    # Pages are rendered in the event loop that merchants' requests need.
    pages_share: float = setting(
        RATIO,
        0.1,
        "Share of a process's time that requests to the pages may take, and half as much those to "
        "the console; 1: all.",
    )
    write_buffer: int = setting(
        SIZE,
        2 * _LISTENER.write_buffer_bytes,
        "Large responses to slow readers, and large bodies of slow senders: half for the API, the "
        "rest for the others.",
    )
    callbacks_per_merchant: int = setting(
        COUNT, DELIVERY_SLOTS_PER_BRAND, "Simultaneous callbacks to one merchant (K6)."
    )
    callbacks: int = setting(COUNT, DELIVERY_SLOTS, "Simultaneous callbacks in all (K6).")
    callback_bodies: int = setting(
        SIZE,
        16 * 1024 * 1024,
        "Answers of receivers that are stored whole for each merchant in an hour; of others the "
        "first 4 KiB (K4).",
    )
    queue: int = setting(
        COUNT,
        ENGINE_QUEUE_MAX,
        "Requests waiting to be decided; the next one is answered 503 (P5).",
    )
    batch: int = setting(COUNT, ENGINE_BATCH_MAX, "Decisions that are made durable in one commit.")

    @property
    def terms(self) -> Terms:
        """Return the time limits of new payments."""
        return Terms(self.pending_timeout, self.idempotency_window, self.page_session)

    @property
    def pages_listener_limits(self) -> ListenerLimits:
        """Return the limits of the pages listener."""
        return self._limits_for_people(self.pages_connections, self.pages_connections // 8)

    @property
    def console_listener_limits(self) -> ListenerLimits:
        """Return the limits of the console listener."""
        return self._limits_for_people(self.console_connections, self.console_connections // 2)

    def _limits_for_people(self, connections: int, per_address: int) -> ListenerLimits:
        return evolve(
            self.listener_limits,
            connections=connections,
            # A crowd behind one address may read pages, and not all of them.
            connections_per_address=min(self.connections_per_address, max(1, per_address)),
            # A quarter each for pages and console; the API has the other half.
            write_buffer_bytes=self.write_buffer // 4,
        )

    @property
    def listener_limits(self) -> ListenerLimits:
        """Return the limits of the API listener."""
        return ListenerLimits(
            handshake_timeout_s=to_seconds(self.handshake_timeout),
            idle_timeout_s=to_seconds(self.idle_timeout),
            head_timeout_s=to_seconds(self.head_timeout),
            body_timeout_s=to_seconds(self.body_timeout),
            write_timeout_s=to_seconds(self.write_timeout),
            drain_timeout_s=to_seconds(self.drain_timeout),
            connections=self.connections,
            connections_per_address=self.connections_per_address,
            write_buffer_bytes=self.write_buffer // 2,
        )


@frozen
class BreakerSection:
    """Configures the circuit breaker of each merchant's callbacks (K5)."""

    window: Span = setting(
        SPAN, _BREAKER.window, "How long an outcome counts; a tenth of it is one step."
    )
    minimum_requests: int = setting(
        COUNT,
        _BREAKER.minimum_requests,
        "The number of outcomes in the window below which it stays closed.",
    )
    failure_ratio: float = setting(
        RATIO, _BREAKER.failure_ratio, "Share of failures among them at which it opens."
    )
    open_for: Span = setting(SPAN, _BREAKER.open_for, "How long it stays open.")

    @property
    def breaker_settings(self) -> BreakerSettings:
        """Return the settings of one merchant's breaker."""
        return BreakerSettings(
            self.window, self.minimum_requests, self.failure_ratio, self.open_for
        )


@frozen
class EgressSection:
    """Sets where merchant-supplied URLs may lead (K7)."""

    allow_private: bool = setting(
        SWITCH,
        False,
        "Whether loopback, private and unique-local addresses are allowed (sandbox: true).",
    )
    extra_ca_file: Path | None = setting(
        FILE,
        None,
        "Further authorities (PEM) that may have signed a receiver's certificate; a sandbox "
        "trusts its own, too.",
        default_text="the system's only",
    )
    provider_ca_file: Path | None = setting(
        FILE,
        None,
        "Further authorities (PEM) that may have signed an operator's certificate; `extra_ca_file` "
        "is not trusted for operators.",
        default_text="the system's only",
    )
    allowed_ports: tuple[int, ...] = setting(PORTS, (), "The only allowed ports; none listed: any.")


@frozen
class ConsoleSection:
    """Configures the console."""

    four_eyes: bool = setting(
        SWITCH,
        True,
        "Whether a second user has to approve before a payment is ended by hand or its money "
        "asked back.",
    )
    commands_approve: bool = setting(
        SWITCH,
        False,
        "Whether commands count as a second user where four eyes are required: `mmo tx reversals "
        "approve` and `resolve`, and `mmo tx resolve`, which otherwise proposes. A person with a "
        "shell and an account of the console would be two.",
    )
    hosts: tuple[str, ...] = setting(
        HOST_NAMES,
        (),
        "Names under which browsers and Prometheus reach the console; addresses and `localhost` "
        "need no entry.",
    )
    reversal_limits: tuple[ReversalLimit, ...] = setting(
        REVERSAL_LIMITS,
        (),
        "What one user of a role may ask back in a day (UTC) of one brand's payments, in one "
        "currency; commands have the role `admin`. With any limit, a role without one in a "
        "currency may ask nothing back in it.",
    )
    second_factor: str = setting(
        one_of("off", "optional", "required"),
        "optional",
        "Whether users sign in with a code of a device as well; `required` shows a user without "
        "one nothing else.",
    )
    session_idle: Span = setting(
        SPAN, 30 * clock.MINUTE, "How long a session may be idle before it ends."
    )
    session_life: Span = setting(
        SPAN, 12 * clock.HOUR, "How long a session lasts, even if it is in use."
    )


@frozen
class KeysSection:
    """Sets how API keys are sealed (A5)."""

    master_key_file: Path = setting(
        FILE,
        Path("master.key"),
        "The file with the key that seals API keys. Commands that need one create it, such as `mmo "
        "brands apply`; `mmo serve` does not. Every node needs the same.",
    )


@frozen
class RetentionSection:
    """Sets how long what is stored is kept; see `docs/retention.md`."""

    callback_bodies: Span | None = setting(
        SPAN_OR_OFF,
        Span(30 * clock.DAY),
        'How long the bodies of answers to callbacks are kept (K4); "off": for ever.',
    )
    # More than a year, as its books are closed after its end.
    personal_data: Span | None = setting(
        SPAN_OR_OFF,
        Span(400 * clock.DAY),
        'How long after its creation a payment that has ended keeps personal data; "off": '
        "for ever.",
    )
    hourly_counts: Span | None = setting(
        SPAN_OR_OFF,
        Span(90 * clock.DAY),
        "How long numbers of payments by the hour, changes of breakers and balances are kept; "
        '"off": for ever.',
    )
    time_share: float = setting(
        RATIO, 0.1, "Share of the time that the removal of old rows may take while it runs."
    )


@frozen
class NoticesSection:
    """Sets where staff are told of what waits for a person; see `docs/monitoring.md`."""

    webhook_url: str | None = setting(
        WEBHOOK_URL,
        None,
        "Where messages are sent to, by POST as JSON; only https.",
        default_text="no messages",
    )
    webhook_key_file: Path | None = setting(
        FILE,
        None,
        "A file with the key that the receiver is shown, as `Authorization: Bearer KEY`.",
        default_text="no key",
    )
    console_url: str | None = setting(
        URL,
        None,
        "Scheme and host of the console, as staff see it, for the links in messages.",
        default_text="no links",
    )
    allow_private: bool = setting(
        SWITCH,
        False,
        "Whether `webhook_url` may lead to loopback, private and unique-local addresses.",
    )
    messages_per_hour: int = setting(COUNT, 6, "The most messages in an hour.")
    repeat_after: Span = setting(
        SPAN, Span(12 * clock.HOUR), "When what still waits is told again."
    )
    failed_callbacks: int = setting(
        COUNT, 20, "How many callbacks of an hour have to fail before that is told."
    )


@frozen
class LogSection:
    """Configures what a serving process writes to standard error."""

    format: str = setting(
        one_of("console", "json"), "console", "For people, or one JSON object in each line."
    )
    level: str = setting(
        one_of("debug", "info", "warning", "error"),
        "info",
        "The lowest level that is written; `info` includes rejected requests, `debug` also "
        "delivered callbacks.",
    )


@frozen
class SandboxSection:
    """Configures the simulated operator behind a provider of kind `sandbox`; see
    `docs/sandbox.md`."""

    lenient: bool = setting(
        SWITCH, False, "Whether it takes fractions of a shilling, which real operators reject."
    )


@frozen
class Settings:
    """Holds all settings."""

    gateway: GatewaySection = GatewaySection()
    listen: ListenSection = ListenSection()
    database: DatabaseSection = DatabaseSection()
    limits: LimitsSection = LimitsSection()
    breaker: BreakerSection = BreakerSection()
    egress: EgressSection = EgressSection()
    keys: KeysSection = KeysSection()
    console: ConsoleSection = ConsoleSection()
    retention: RetentionSection = RetentionSection()
    notices: NoticesSection = NoticesSection()
    log: LogSection = LogSection()
    sandbox: SandboxSection = SandboxSection()
    providers: Mapping[str, ProviderSection] = MappingProxyType({})
    """The configured providers, by name."""
    provider_kinds: Mapping[str, ProviderKind] = PROVIDER_KINDS
    """The kinds that a provider may have, by name."""


# The sections by their names in the file, in the order of the documentation.
SECTIONS: Mapping[str, type[Any]] = MappingProxyType(
    {
        section.name: type(section.default)
        for section in fields(Settings)
        if has(type(section.default))
    }
)

ENV_PREFIX = "MMO_"


@frozen
class Setting(Field):
    """Describes one key."""

    section: str = field(kw_only=True)

    @property
    def key(self) -> str:
        """Return `section.name`, as messages and the command line name it."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """Return its environment variable."""
        return f"{ENV_PREFIX}{self.section.upper()}_{self.name.upper()}"


# All keys, in the order of the documentation.
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.key: setting
        for section, table in SECTIONS.items()
        for setting in (
            Setting(**asdict(declared, recurse=False), section=section)
            for declared in fields_of(table)
        )
    }
)
