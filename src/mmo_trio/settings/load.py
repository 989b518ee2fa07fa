"""Loads settings from the file, the environment and the command line, and reports every error
before anything starts.

Each layer overrides the one before: the defaults, the presets of the sandbox, the file, the
environment, the command line. Every value has its location, so that an error can name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.providers.registry import PROVIDER_KINDS, ProviderKind
from mmo_sansio.values.clock import MINUTE, SECOND, Span
from mmo_sansio.values.fields import (
    SettingsError,
    collected,
    fields_of,
    raise_faults,
    unknown_names,
)
from mmo_sansio.values.near_match import near_match
from mmo_trio.settings.providers import (
    PROVIDER_PREFIX,
    find_extensions,
    load_provider_kind,
    parse_providers,
)
from mmo_trio.settings.sections import (
    API_KEY_CACHE_MAX,
    ENV_PREFIX,
    SECTIONS,
    SETTINGS,
    Setting,
    Settings,
)
from mmo_trio.settings.toml_files import read_toml
from mmo_trio.settings.values import format_span
from mmo_trio.storage.open_store import POSTGRES_SCHEMES, url_scheme

TEST_ENV_PREFIX = "MMO_TEST_"

# The shortest time for which a payment may be pending: nothing is submitted that might be in flight
# at its expiry, and each payment is polled once more ten minutes before that.
PENDING_TIMEOUT_MIN = Span(10 * MINUTE + SUBMISSION_TIMEOUT)

IDEMPOTENCY_WINDOW_MIN = Span(MINUTE)
CALLBACK_TIMEOUT_MIN = Span(SECOND)


@frozen
class _RawSetting:
    location: str
    value: Any


def load_settings(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    presets: Mapping[str, str] | None = None,
    provider_kinds: Mapping[str, ProviderKind] | None = None,
    found_faults: list[SettingsError] | None = None,
) -> Settings:
    """Return the settings in force.

    `options` (command line) and `presets` (of the sandbox) are text by dotted key: `{"listen.api":
    "[::1]:0"}`. `provider_kinds` are kinds by name, besides the built-in and installed ones. Raises
    SettingsError for an unreadable file; for unknown keys, unusable values, and values that
    contradict each other, it names all of them. Where `found_faults` is given, they are added to it
    instead, and each faulty key has its default."""
    # 1. Texts and values by their keys, each layer over the one before.
    faults: list[SettingsError] = []
    if file is None:
        document = {}
    else:
        document = read_toml(file, "Name an existing file with --config, or leave it out.")

    variables = environment or {}
    found = {
        **{key: _RawSetting(f"preset {key}", text) for key, text in (presets or {}).items()},
        **_from_document(document, str(file), faults),
        **_from_environment(variables, faults),
        **{
            key: _RawSetting(f"command line ({key})", text) for key, text in (options or {}).items()
        },
    }

    # 2. Providers, whose keys depend on their kinds. Only kinds that are used are imported.
    kinds = {**PROVIDER_KINDS, **(provider_kinds or {})}
    installed = find_extensions(provider_kinds or {})
    names = (*kinds, *installed)
    providers = parse_providers(document.get("provider", {}), str(file), variables, names, faults)
    for name in {provider.kind for provider in providers.values()} & installed.keys():
        kinds[name] = load_provider_kind(installed[name])

    # 3. Each value by its own kind; a faulty one is left out, so that others are read, too.
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, setting in SETTINGS.items():
        if key in found:
            with collected(faults):
                sections[setting.section][setting.name] = _parse(setting, found[key])

    parsed = {name: section(**sections[name]) for name, section in SECTIONS.items()}
    settings = Settings(**parsed, providers=providers, provider_kinds=MappingProxyType(kinds))

    # 4. Contradictions only where each value is good: others would follow from a default.
    faults = faults or list(_contradictions(settings, found))
    if found_faults is None:
        raise_faults(faults)
    else:
        found_faults += faults

    return settings


def _from_document(
    document: Mapping[str, Any], file: str, faults: list[SettingsError]
) -> dict[str, _RawSetting]:
    # The keys of a provider are those of its kind, and are read apart.
    tables = {name: table for name, table in document.items() if name != "provider"}
    faults += [
        SettingsError(f"{file}: [{fault.location}]", "is no section.", fault.remedy)
        for fault in unknown_names(tables, [*SECTIONS, "provider"])
    ]
    found: dict[str, _RawSetting] = {}
    for section, table in tables.items():
        if section not in SECTIONS:
            continue

        if not isinstance(table, dict):
            remedy = f"Write [{section}] above it."
            faults.append(SettingsError(f"{file}: {section}", "is a section, not a value.", remedy))
            continue

        where = f"{file}: {section}"
        names = [field.name for field in fields_of(SECTIONS[section])]
        faults += [fault.within(where) for fault in unknown_names(table, names)]
        found |= {
            f"{section}.{name}": _RawSetting(f"{where}.{name}", table[name])
            for name in names
            if name in table
        }

    return found


def _from_environment(
    environment: Mapping[str, str], faults: list[SettingsError]
) -> dict[str, _RawSetting]:
    # An unknown variable is a fault, as a misspelt limit would silently not apply.
    known = {setting.variable: key for key, setting in SETTINGS.items()}
    found = {}
    for name in sorted(environment):
        if not name.startswith(ENV_PREFIX) or name.startswith((TEST_ENV_PREFIX, PROVIDER_PREFIX)):
            continue

        if name not in known:
            fault = "is no setting; it comes from the environment."
            faults.append(SettingsError(name, fault, near_match(name, known)))
            continue

        found[known[name]] = _RawSetting(name, environment[name])

    return found


def _parse(setting: Setting, raw: _RawSetting) -> Any:
    try:
        return setting.kind.read(raw.value)
    except SettingsError as error:
        # Of several layers this one is in force. The address of a database holds a password: no
        # message repeats it (A5).
        now = "" if setting.kind.is_secret else f" It is {raw.value!r} now."
        raise SettingsError(raw.location, error.fault, f"{error.remedy}{now}".strip()) from None


def _contradictions(
    settings: Settings, found: Mapping[str, _RawSetting]
) -> Iterator[SettingsError]:
    """Yield a fault for values that contradict each other."""

    def fault_of(key: str, fault: str, remedy: str) -> SettingsError:
        return SettingsError(found[key].location if key in found else key, fault, remedy)

    limits, listen = settings.limits, settings.listen
    if limits.api_key_cache > API_KEY_CACHE_MAX:
        fault = "is longer than 60s, the longest that a retired key may still be accepted."
        yield fault_of("limits.api_key_cache", fault, 'Set it to "60s" or less.')

    # A payment that expires while it is submitted could be told "failed" and be paid.
    if limits.pending_timeout < PENDING_TIMEOUT_MIN:
        least = format_span(PENDING_TIMEOUT_MIN)
        fault = f"is shorter than {least}: a submission takes up to 30s, and the last poll is due"
        remedy = f'10m before the end. Set it to "{least}" or more.'
        yield fault_of("limits.pending_timeout", fault, remedy)

    if limits.idempotency_window < IDEMPOTENCY_WINDOW_MIN:
        least = format_span(IDEMPOTENCY_WINDOW_MIN)
        fault = f"is shorter than {least}: what a client repeats could be paid twice (C12)."
        yield fault_of("limits.idempotency_window", fault, f'Set it to "{least}" or more.')

    if limits.callback_timeout < CALLBACK_TIMEOUT_MIN:
        least = format_span(CALLBACK_TIMEOUT_MIN)
        fault = f"is shorter than {least}: hardly a receiver answers within that."
        yield fault_of("limits.callback_timeout", fault, f'Set it to "{least}" or more.')

    if limits.page_session is not None and limits.page_session > limits.pending_timeout:
        fault = "is longer than limits.pending_timeout, after which there is nothing to pay."
        yield fault_of("limits.page_session", fault, 'Lower it, or set it to "off".')

    console = settings.console
    if console.session_idle > console.session_life:
        fault = "is longer than console.session_life, after which each session ends."
        yield fault_of("console.session_idle", fault, "Lower it, or raise console.session_life.")

    for key, count, total_key, total in (
        ("callbacks_per_merchant", limits.callbacks_per_merchant, "callbacks", limits.callbacks),
        (
            "connections_per_address",
            limits.connections_per_address,
            "connections",
            limits.connections,
        ),
    ):
        if count > total:
            fault = f"is more than limits.{total_key} ({total})."
            yield fault_of(f"limits.{key}", fault, f"Lower it, or raise limits.{total_key}.")

    # First of the two about the address, whose host would be read wrongly.
    is_misread = _has_unescaped_user(settings.database.url)
    if is_misread:
        fault = "has an @ or a / in the user name or the password."
        yield fault_of("database.url", fault, "Write %40 for @ and %2F for /.")

    host = None
    if not (settings.database.allow_clear or is_misread):
        host = _unverified_postgres_host(settings.database.url)

    if host is not None:
        fault = f"would reach PostgreSQL on {host} without checking who answers, or in the clear."
        remedy = (
            "Add sslmode=verify-full (and sslrootcert, the authority that signed its certificate) "
            "to the address,"
        )
        yield fault_of("database.url", fault, f"{remedy} or set database.allow_clear = true.")

    if settings.notices.webhook_key_file is not None and settings.notices.webhook_url is None:
        fault = "is of no use without an address."
        yield fault_of("notices.webhook_key_file", fault, "Set notices.webhook_url, too.")

    # Else one forgotten line would let the gateway serve in the clear.
    if (listen.tls_certificate is None) != (listen.tls_key is None):
        files = ("listen.tls_certificate", "listen.tls_key")
        present, missing = files[::-1] if listen.tls_certificate is None else files
        yield fault_of(present, f"needs {missing} as well.", f"Set {missing}, too.")


def _has_unescaped_user(url: str) -> bool:
    """Return whether the user name or the password in a PostgreSQL address has an `@` or a `/` as
    it is: what follows would be read as the host, and shown in messages."""
    scheme, _, rest = url.partition("://")
    address = rest.partition("?")[0]
    return scheme in POSTGRES_SCHEMES and (
        address.count("@") > 1 or "@" in address.partition("/")[2]
    )


def _unverified_postgres_host(url: str) -> str | None:
    """Return the host of another machine to which this address connects without
    `sslmode=verify-full`, so that somebody between could read and change everything; None when
    there is none. Other databases than PostgreSQL have none."""
    if url_scheme(url) not in POSTGRES_SCHEMES:
        return None

    # Imported here, as no other setting needs it: libpq itself reads the address, its own variables
    # and its services.
    import trio_asyncio  # noqa: F401  Before psycopg: see `mmo_trio.storage.postgres.asyncio_loop`.
    from psycopg import ProgrammingError, pq
    from psycopg.conninfo import conninfo_to_dict

    defaults = {
        default.keyword.decode(): default.val.decode()
        for default in pq.Conninfo.get_defaults()
        if default.val
    }
    try:
        given = {**defaults, **conninfo_to_dict(url)}
    except ProgrammingError:
        return None  # The store says what is wrong with it.

    # With `sslrootcert=system` libpq itself insists on verify-full.
    if given.get("sslmode") == "verify-full" or given.get("sslrootcert") == "system":
        return None

    # libpq takes several hosts; each of them has to be on this machine.
    hosts = str(given.get("hostaddr") or given.get("host") or "").split(",")
    return next((host for host in hosts if not _is_on_this_machine(host)), None)


def _is_on_this_machine(host: str) -> bool:
    """Whether the host is a socket's directory, an abstract socket, or a loopback name or
    address."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
