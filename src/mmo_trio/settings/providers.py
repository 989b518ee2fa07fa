"""Defines and parses the providers of `mmo.toml`, a table for each, whose keys its kind checks;
finds the kinds that other distributions bring as entry points.

    [project.entry-points."mmo_gateway.providers"]
    pesaplus = "mmo_pesaplus:PESAPLUS"

The name of an entry point is the `kind` of a `[provider.NAME]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from mmo_sansio.providers.registry import PROVIDER_KINDS, ProviderKind
from mmo_sansio.resilience.circuit_breaker import DEFAULT_BREAKER_SETTINGS as _BREAKER
from mmo_sansio.values.clock import SECOND
from mmo_sansio.values.fields import SettingsError, collected
from mmo_sansio.values.near_match import near_match
from mmo_trio.settings.values import COUNT

PROVIDER_PREFIX = "MMO_PROVIDER__"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@frozen
class ProviderSection:
    """Holds a configured provider: `[provider.NAME]`."""

    name: str
    kind: str
    """One of the settings' `provider_kinds`."""
    options: Mapping[str, Any] = field(repr=False)
    """The keys of that kind, as written (from the environment: as text); its adapter checks
    them."""


@frozen
class CommonOption:
    """Describes a whole number that every kind of provider but `sandbox` accepts."""

    key: str
    default: int
    minimum: int
    maximum: int
    meaning: str

    @property
    def kind(self) -> str:
        """Return the allowed values, as the documentation names them."""
        is_open = self.maximum == COMMON_OPTION_MAX
        if is_open:
            return COUNT.name
        return f"{self.minimum} to {self.maximum}"


COMMON_OPTION_MAX = 1_000_000
ANSWER_TIMEOUT = CommonOption("answer_within_s", 15, 1, 18, "How long one request to it may take.")
BREAKER_WINDOW = CommonOption(
    "breaker_window_s", _BREAKER.window // SECOND, 10, 3600, "How far back its failures count."
)
BREAKER_MINIMUM_REQUESTS = CommonOption(
    "breaker_minimum_requests",
    _BREAKER.minimum_requests,
    1,
    COMMON_OPTION_MAX,
    "Fewer requests in that time never stop others.",
)
BREAKER_FAILURE_PERCENT = CommonOption(
    "breaker_failure_percent",
    round(_BREAKER.failure_ratio * 100),
    1,
    100,
    "The share of failures from which on nothing is sent to it.",
)
BREAKER_OPEN_FOR = CommonOption(
    "breaker_open_for_s", _BREAKER.open_for // SECOND, 1, 3600, "How long nothing is sent then."
)
HOOKS_GENERATION = CommonOption(
    "hooks_generation",
    1,
    1,
    COMMON_OPTION_MAX,
    "Raise it by 1 to change the secret part of its addresses for notifications; those of the "
    "generation before are accepted as well.",
)
BALANCE_INTERVAL = CommonOption(
    "balance_interval_s",
    300,
    0,
    3600,
    "How often our balance with it is asked for, where it offers that; 0: never.",
)
FLOAT_HOURS = CommonOption(
    "float_hours",
    6,
    0,
    1000,
    "A float that lasts for fewer hours at the rate of the last six is low; 0: that does "
    "not count.",
)

# The number options of every kind of provider, in the order of the documentation.
COMMON_OPTIONS = (
    HOOKS_GENERATION,
    ANSWER_TIMEOUT,
    BREAKER_WINDOW,
    BREAKER_MINIMUM_REQUESTS,
    BREAKER_FAILURE_PERCENT,
    BREAKER_OPEN_FOR,
    BALANCE_INTERVAL,
    FLOAT_HOURS,
)


def parse_providers(
    tables: Any,
    file: str,
    environment: Mapping[str, str],
    kinds: Collection[str],
    faults: list[SettingsError],
) -> Mapping[str, ProviderSection]:
    """Return the providers by name; the environment's values replace the file's.

    `MMO_PROVIDER__MPESA_KE__PASSKEY` is the key `passkey` of `[provider.mpesa_ke]` or
    `[provider.mpesa-ke]`, depending on the file. What is unusable, a name, table or kind, is left
    out, and is among the `faults` then."""
    # 1. The file's tables.
    if not isinstance(tables, dict):
        remedy = "Write [provider.NAME] above it."
        faults.append(SettingsError(f"{file}: provider", "is a section, not a value.", remedy))
        tables = {}

    found: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        with collected(faults):
            found[name] = _read_table(f"{file}: [provider.{name}]", name, table)

    # 2. The environment, which may name a provider that the file does not have.
    for variable in sorted(environment):
        if variable.startswith(PROVIDER_PREFIX):
            with collected(faults):
                name, key = _split_variable(variable, found)
                found.setdefault(name, {})[key] = environment[variable]

    # 3. The kind of each. Its other keys are checked by its adapter, which knows them.
    sections: dict[str, ProviderSection] = {}
    for name, table in found.items():
        with collected(faults):
            sections[name] = _parse_provider(name, table, kinds)

    return MappingProxyType(sections)


def _read_table(where: str, name: str, table: Any) -> dict[str, Any]:
    if _NAME.fullmatch(name) is None:
        raise SettingsError(
            where, "is no good name.", "Use letters, digits, - and _, at most 64 of them."
        )
    if not isinstance(table, dict):
        raise SettingsError(where, "must be a table.", f"Write [provider.{name}] above its keys.")
    return dict(table)


def provider_variable(name: str, key: str) -> str:
    """Return the environment variable for a provider's key."""
    return f"{PROVIDER_PREFIX}{name.replace('-', '_').upper()}__{key.upper()}"


def _split_variable(variable: str, known: Mapping[str, Any]) -> tuple[str, str]:
    name, separator, key = variable.removeprefix(PROVIDER_PREFIX).partition("__")
    if not separator or not name or not key:
        remedy = f"Write {PROVIDER_PREFIX}NAME__KEY."
        raise SettingsError(variable, "names no provider's key.", remedy)
    # Variables have no dash, so the file says how the name is written.
    same = (other for other in known if other.replace("-", "_").upper() == name.upper())
    return next(same, name.lower()), key.lower()


def _parse_provider(name: str, table: Mapping[str, Any], kinds: Collection[str]) -> ProviderSection:
    where = f"provider.{name}.kind ({provider_variable(name, 'kind')})"
    kind = table.get("kind")
    if kind is None:
        raise SettingsError(where, "is missing.", f"Known are: {', '.join(kinds)}.")
    if kind not in kinds:
        hint = near_match(str(kind), kinds)
        raise SettingsError(where, f"{kind!r} is no kind of provider that is installed.", hint)
    rest = {key: value for key, value in table.items() if key != "kind"}
    return ProviderSection(name, str(kind), MappingProxyType(rest))


# Group of entry points; a value is a ProviderKind or a function without parameters that returns
# one.
PROVIDERS_GROUP: Final = "mmo_gateway.providers"

_KIND_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


def find_extensions(given: Collection[str]) -> Mapping[str, EntryPoint]:
    """Return the entry points by name; none is loaded.

    `given` are names that the caller brings itself. Raises SettingsError for a name that is
    unusable or taken."""
    for name in given:
        if name in PROVIDER_KINDS:
            raise SettingsError(
                f"{name!r} ({PROVIDERS_GROUP})", "is built in.", "Give it another name."
            )

    found: dict[str, EntryPoint] = {}

    # Two packages with one name would make it a matter of luck whose adapter moves the money.
    for provider in _installed():
        if _KIND_NAME.fullmatch(provider.name) is None:
            remedy = "It must be lower-case letters and digits: rename it, or uninstall that."
            raise SettingsError(_describe(provider), "has no usable name.", remedy)

        if provider.name in PROVIDER_KINDS:
            remedy = "Rename the entry point, or uninstall that distribution."
            raise SettingsError(_describe(provider), "has the name of a built-in kind.", remedy)

        if provider.name in found or provider.name in given:
            if provider.name in found:
                other = f"by {origin_of(found[provider.name])}"
            else:
                other = "by the caller"
            raise SettingsError(
                _describe(provider), f"is brought {other}, too.", "Remove one of them."
            )

        found[provider.name] = provider

    return found


def load_provider_kind(entry_point: EntryPoint) -> ProviderKind:
    """Return the kind that an entry point names. Raises SettingsError."""
    value = _run(entry_point, entry_point.load)
    # A function lets a package import its adapter only where it is used.
    if callable(value) and not isinstance(value, ProviderKind):
        value = _run(entry_point, value)
    if not isinstance(value, ProviderKind):
        remedy = "It must be a ProviderKind, or a function without parameters that returns one."
        raise SettingsError(_describe(entry_point), f"is a {type(value).__name__}.", remedy)
    return evolve(value, origin=origin_of(entry_point))


def origin_of(entry_point: EntryPoint) -> str:
    """Return name and version of the distribution that brings an entry point."""
    dist = entry_point.dist
    if dist is None:
        return "an unnamed distribution"
    return f"{dist.name} {dist.version}"


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """Return what is installed when it is first needed: searching takes some milliseconds."""
    return tuple(entry_points(group=PROVIDERS_GROUP))


def _run(entry_point: EntryPoint, action: Any) -> Any:
    try:
        return action()
    except Exception as error:  # Whatever somebody else's module raises names its entry point.
        fault = f"can't be loaded: {type(error).__name__}: {error}."
        remedy = "Install what it needs, mend its entry point, or uninstall it."
        raise SettingsError(_describe(entry_point), fault, remedy) from error


def _describe(entry_point: EntryPoint) -> str:
    return f"entry point {entry_point.name!r} ({entry_point.group}) of {origin_of(entry_point)}"
