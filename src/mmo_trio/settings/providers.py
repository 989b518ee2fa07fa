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

from mmo_sansio.providers.common.balances import FloatWatch
from mmo_sansio.providers.registry import PROVIDER_KINDS, ProviderKind
from mmo_sansio.resilience.circuit_breaker import DEFAULT_BREAKER_SETTINGS as _BREAKER
from mmo_sansio.resilience.circuit_breaker import BreakerSettings
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.fields import (
    SWITCH,
    TEXT,
    Kind,
    SettingsError,
    among,
    collected,
    fields_of,
    matching,
    read_table,
    setting,
    whole_number,
)
from mmo_sansio.values.money import Money
from mmo_sansio.values.near_match import near_match
from mmo_trio.settings.operator_signs import SIGN_FIELDS
from mmo_trio.settings.values import AMOUNTS, COUNT, NETWORKS, Network

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


_HOOKS_NAME = re.compile(r"[_-]*[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)

# Counters and limits that are open above.
_LARGEST = 1_000_000


def _number(least: int, most: int) -> Kind:
    return whole_number(least, most, name=f"{least} to {most}")


@frozen
class SharedSettings:
    """Declares what every kind of provider but `sandbox` accepts, besides an operator's sign."""

    title: str | None = setting(
        TEXT, None, "The display name, as merchants see it.", default_text="by kind"
    )
    production: bool | None = setting(
        SWITCH,
        None,
        "Whether money moves by the account; by default at the operator's own hosts of production "
        "only. Behind a proxy of your own, write true. Payments by other accounts are marked as "
        "simulated.",
        default_text="by `base_url`",
    )
    hooks_name: str | None = setting(
        matching(_HOOKS_NAME, "letters and digits, - and _", '"kenya"'),
        None,
        "Its name in the addresses of notifications, `/hooks/NAME/TOKEN`.",
        default_text="NAME",
    )
    hooks_from: tuple[Network, ...] = setting(
        NETWORKS,
        (),
        "The networks that may send its notifications.",
        default_text="from anywhere",
    )
    hooks_generation: int = setting(
        whole_number(1, _LARGEST),
        1,
        "Raise it by 1 to change the secret part of its addresses for notifications; those of the "
        "generation before are accepted as well.",
    )
    requests_per_minute: int | None = setting(
        COUNT, None, "The rate limit of requests to it.", default_text="no limit"
    )
    answer_within_s: int = setting(_number(1, 18), 15, "How long one request to it may take.")
    breaker_window_s: int = setting(
        _number(10, 3600), _BREAKER.window // SECOND, "How far back its failures count."
    )
    breaker_minimum_requests: int = setting(
        whole_number(1, _LARGEST),
        _BREAKER.minimum_requests,
        "Fewer requests in that time never stop others.",
    )
    breaker_failure_percent: int = setting(
        _number(1, 100),
        round(_BREAKER.failure_ratio * 100),
        "The share of failures from which on nothing is sent to it.",
    )
    breaker_open_for_s: int = setting(
        _number(1, 3600), _BREAKER.open_for // SECOND, "How long nothing is sent then."
    )
    balance_interval_s: int = setting(
        _number(0, 3600),
        300,
        "How often our balance with it is asked for, where it offers that; 0: never.",
    )
    float_minimums: tuple[Money, ...] = setting(
        AMOUNTS, (), "A float with less is low.", default_text="none"
    )
    float_hours: int = setting(
        _number(0, 1000),
        6,
        "A float that lasts for fewer hours at the rate of the last six is low; 0: that does "
        "not count.",
    )

    @property
    def breaker_settings(self) -> BreakerSettings:
        """Return the settings of the breaker of requests to the operator."""
        return BreakerSettings(
            window=Span(self.breaker_window_s * SECOND),
            minimum_requests=self.breaker_minimum_requests,
            failure_ratio=self.breaker_failure_percent / 100,
            open_for=Span(self.breaker_open_for_s * SECOND),
            # Every permit ends with its request, which has a deadline of its own.
            permit_deadline=None,
        )

    @property
    def float_watch(self) -> FloatWatch:
        """Return how the balance is watched."""
        interval = Span(self.balance_interval_s * SECOND)
        return FloatWatch(interval, self.float_minimums, self.float_hours)


# The settings of every kind of provider, in the order of the documentation.
SHARED_FIELDS: Final = (*fields_of(SharedSettings), *SIGN_FIELDS)


def read_shared_settings(options: Mapping[str, Any]) -> SharedSettings:
    """Read what every kind of provider accepts, among the options of one. Raises SettingsError."""
    return read_table(SharedSettings, among(fields_of(SharedSettings), options))


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


def provider_kind(name: str) -> ProviderKind:
    """Return a kind that is built in or installed. Raises SettingsError."""
    installed = find_extensions(())
    if name in installed:
        return load_provider_kind(installed[name])
    if name not in PROVIDER_KINDS:
        raise SettingsError(
            name,
            "is no kind of provider that is installed.",
            near_match(name, (*PROVIDER_KINDS, *installed)),
        )
    return PROVIDER_KINDS[name]


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
