"""Changes the limits and the flows of a brand, by the same rules as brands.toml."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from mmo_sansio.values.model import Brand, BrandLimits, Limits, Method, Operation
from mmo_trio.brands.file import parse_brand_limits, parse_method_limits
from mmo_trio.settings.values import SettingsError

BRAND_LIMITS = ("requests_per_second", "requests_burst", "pending_payments")
"""The limits of a brand that can be edited."""
METHOD_LIMITS = ("min", "max", "daily_payin", "daily_payout", "daily_tax")
"""The limits of a method in one currency that can be edited."""


class InvalidEdit(Exception):
    """Reports a limit that cannot be used; the message names the fault and the remedy."""

    def __init__(self, field: LimitField, error: SettingsError) -> None:
        sentences = f"{error.fault} {error.remedy}".rstrip()
        super().__init__(sentences[0].upper() + sentences[1:])
        self.field = field


@frozen
class LimitField:
    """Names a limit that a user has edited."""

    name: str
    """One of BRAND_LIMITS or METHOD_LIMITS."""
    method: str | None = None
    """The name of the method; None for a limit of the brand as a whole."""
    currency: str | None = None


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

    @classmethod
    def of(cls, brand: Brand) -> BrandEdit:
        """Return the edit that changes nothing."""
        limits = {name: getattr(brand.limits, name) for name in BRAND_LIMITS}
        return cls(
            {name: "" if number is None else str(number) for name, number in limits.items()},
            {method_name(each): MethodEdit(each.operations, _limit_texts(each)) for each in brand.methods},
        )


def method_name(method: Method) -> str:
    """Return the name of a method among those of its brand, `mpesa_ke (KE)`."""
    return f"{method.key} ({method.country})"


def edit_brand(brand: Brand, edit: BrandEdit) -> Brand:
    """Return the brand with these limits and flows; all else stays. Raises InvalidEdit."""
    brand_limits = _brand_limits(brand, edit.limits)
    method_limits = {name: _method_limits(brand, name, each.limits) for name, each in edit.methods.items()}
    methods = tuple(
        evolve(each, operations=edit.methods[name].flows, limits=method_limits[name])
        if (name := method_name(each)) in edit.methods
        else each
        for each in brand.methods
    )
    return evolve(brand, limits=brand_limits, methods=methods)


def _limit_texts(method: Method) -> Mapping[str, Mapping[str, str]]:
    """Return the limits of a method by currency as texts; empty where there is no limit."""
    return {
        currency: {
            "min": each.minimum.text,
            "max": each.maximum.text,
            **{f"daily_{type.value}": most.text for type, most in each.daily.items()},
        }
        for currency, each in method.limits.items()
    }


def _brand_limits(brand: Brand, texts: Mapping[str, str]) -> BrandLimits:
    for name, text in texts.items():
        if text and not (text.isascii() and text.isdigit() and len(text) <= 9):
            error = SettingsError(name, f"{text!r} is no whole number.", "Write digits only.")
            raise InvalidEdit(LimitField(name), error)
    try:
        return parse_brand_limits(brand.id, {name: int(text) for name, text in texts.items() if text})
    except SettingsError as error:
        raise InvalidEdit(LimitField(error.location.rpartition(", ")[2]), error) from None


def _method_limits(brand: Brand, method: str, texts: Mapping[str, Mapping[str, str]]) -> Mapping[str, Limits]:
    tables = {
        currency: {member: text for member, text in members.items() if text} for currency, members in texts.items()
    }
    for currency, members in tables.items():
        for name in ("min", "max"):
            if name not in members:
                error = SettingsError(name, "it is missing.", "Give a smallest and a largest amount.")
                raise InvalidEdit(LimitField(name, method, currency), error)
    try:
        return parse_method_limits(brand.id, method, tables)
    except SettingsError as error:
        # The location ends with the key of the file: `limits.KES.max`, or `limits.KES` for what concerns several.
        currency, _, name = error.location.rpartition("limits.")[2].partition(".")
        raise InvalidEdit(LimitField(name or "min", method, currency), error) from None
