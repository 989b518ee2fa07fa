"""Finds kinds of provider that other distributions bring, as entry points.

    [project.entry-points."mmo_gateway.providers"]
    pesaplus = "mmo_pesaplus:PESAPLUS"

The name of an entry point is the `kind` of a `[provider.NAME]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from attrs import evolve

from mmo_sansio.providers.registry import PROVIDER_KINDS, ProviderKind
from mmo_trio.settings.errors import SettingsError

PROVIDERS_GROUP: Final = "mmo_gateway.providers"
"""Group of entry points; a value is a ProviderKind or a function without parameters that returns one."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


def find_extensions(given: Collection[str]) -> Mapping[str, EntryPoint]:
    """Return the entry points by name; none is loaded.

    `given` are names that the caller brings itself. Raises SettingsError for a name that is unusable or taken.
    """
    for name in given:
        if name in PROVIDER_KINDS:
            raise SettingsError(f"{name!r} ({PROVIDERS_GROUP})", "is built in.", "Give it another name.")
    found: dict[str, EntryPoint] = {}
    for each in _installed():
        if _NAME.fullmatch(each.name) is None:
            remedy = "It must be lower-case letters and digits: rename it, or uninstall that."
            raise SettingsError(_describe(each), "has no usable name.", remedy)
        if each.name in PROVIDER_KINDS:
            remedy = "Rename the entry point, or uninstall that distribution."
            raise SettingsError(_describe(each), "has the name of a built-in kind.", remedy)
        if each.name in found or each.name in given:
            other = f"by {origin_of(found[each.name])}" if each.name in found else "by the caller"
            raise SettingsError(_describe(each), f"is brought {other}, too.", "Remove one of them.")
        found[each.name] = each
    return found


def load_provider_kind(entry_point: EntryPoint) -> ProviderKind:
    """Return the kind that an entry point names. Raises SettingsError."""
    value = _run(entry_point, entry_point.load)
    if callable(value) and not isinstance(value, ProviderKind):
        value = _run(entry_point, value)
    if not isinstance(value, ProviderKind):
        remedy = "It must be a ProviderKind, or a function without parameters that returns one."
        raise SettingsError(_describe(entry_point), f"is a {type(value).__name__}.", remedy)
    return evolve(value, origin=origin_of(entry_point))


def origin_of(entry_point: EntryPoint) -> str:
    """Return name and version of the distribution that brings an entry point."""
    dist = entry_point.dist
    return "an unnamed distribution" if dist is None else f"{dist.name} {dist.version}"


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """Return what is installed when it is first needed: searching takes some milliseconds."""
    return tuple(entry_points(group=PROVIDERS_GROUP))


def _run(entry_point: EntryPoint, action: Any) -> Any:
    try:
        return action()
    except Exception as error:  # Whatever somebody else's module raises names its entry point.
        fault = f"can't be loaded: {type(error).__name__}: {error}."
        remedy = "Install what it needs, or uninstall it."
        raise SettingsError(_describe(entry_point), fault, remedy) from error


def _describe(entry_point: EntryPoint) -> str:
    return f"entry point {entry_point.name!r} ({entry_point.group}) of {origin_of(entry_point)}"
