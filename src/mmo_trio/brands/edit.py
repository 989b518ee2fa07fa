"""Changes the limits and the flows of a brand, by the same rules as brands.toml."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from mmo_sansio.values.model import Brand, Method, Operation
from mmo_trio.brands.file import parse_edited_limits
from mmo_trio.settings.errors import SettingsError

BRAND_LIMITS = ("requests_per_second", "requests_burst", "pending_payments")
"""The limits of a brand that can be edited."""
METHOD_LIMITS = ("min", "max", "daily_payin", "daily_payout", "daily_tax")
"""The limits of a method in one currency that can be edited."""


@frozen
class MethodEdit:
    """Holds what a user wants of a method: its flows, none to switch it off, and its limits by currency, as text."""

    flows: frozenset[Operation]
    limits: Mapping[str, Mapping[str, str]]
    """By currency; an empty text leaves a limit out."""


@frozen
class BrandEdit:
    """Holds what a user wants of a brand."""

    limits: Mapping[str, str]
    """The limits of the brand as a whole, as text; an empty text leaves one out."""
    methods: Mapping[str, MethodEdit]
    """By the methods' names (`method_name`)."""


def method_name(method: Method) -> str:
    """Return the name of a method among those of its brand, `mpesa_ke (KE)`."""
    return f"{method.key} ({method.country})"


def edit_brand(brand: Brand, edit: BrandEdit) -> Brand:
    """Return the brand with these limits and flows; all else stays. Raises SettingsError, which names the field."""
    limits = {name: _to_number(brand.id, name, text) for name, text in edit.limits.items() if text}
    tables = {
        name: {
            currency: {member: text for member, text in members.items() if text}
            for currency, members in each.limits.items()
        }
        for name, each in edit.methods.items()
    }
    brand_limits, method_limits = parse_edited_limits(brand.id, limits, tables)
    methods = tuple(
        evolve(each, operations=edit.methods[name].flows, limits=method_limits[name])
        if (name := method_name(each)) in edit.methods
        else each
        for each in brand.methods
    )
    return evolve(brand, limits=brand_limits, methods=methods)


def limit_texts(method: Method) -> Mapping[str, Mapping[str, str]]:
    """Return the limits of a method by currency as the texts that can be edited; empty where there is no limit."""
    return {
        currency: {
            "min": each.minimum.text,
            "max": each.maximum.text,
            **{f"daily_{type.value}": most.text for type, most in each.daily.items()},
        }
        for currency, each in method.limits.items()
    }


def _to_number(brand: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise SettingsError(f"brand {brand}, limits, {name}", f"{text!r} is no whole number.", "Write digits only.")
    return int(text)
