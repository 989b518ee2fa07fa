"""Describes a brand for people: as a JSON object, and by what differs between two versions of
it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from mmo_sansio.values.fields import Field
from mmo_sansio.values.model import (
    Brand,
    BrandLimits,
    Limits,
    Logo,
    Method,
    PageAppearance,
    ReusePolicy,
    Type,
)
from mmo_trio.brands.file import (
    BRAND_FIELDS,
    BRAND_LIMIT_FIELDS,
    METHOD_FIELDS,
    PAGE_FIELDS,
    limit_amounts,
)

# The fields of each class of the model; keys of the API are none of it (A5).
_FIELDS: Final[Mapping[type, Sequence[Field]]] = {
    Brand: [brand_field for brand_field in BRAND_FIELDS if brand_field.name != "api_keys"],
    BrandLimits: BRAND_LIMIT_FIELDS,
    PageAppearance: PAGE_FIELDS,
    Method: METHOD_FIELDS,
}


def method_name(method: Method) -> str:
    """Return the name of a method among those of its brand, `mpesa_ke (KE)`."""
    return f"{method.key} ({method.country})"


def brand_to_json(brand: Brand) -> dict[str, Any]:
    """Return a brand as a JSON object."""
    members: dict[str, Any] = _to_json(brand)
    # The file's table is `brand.method`, one for each; in JSON they are a list.
    members["methods"] = members.pop("method")
    return members


def _to_json(value: Any) -> Any:
    match value:
        case Limits():
            daily = {type.value: most.text for type, most in value.daily.items()}
            return {"min": value.minimum.text, "max": value.maximum.text, "daily": daily}
        case Logo():
            return {"type": value.media_type, "bytes": len(value.content)}
        case frozenset():
            return sorted(value)
        case tuple():
            return [_to_json(element) for element in value]

    members = _members(value)
    if members is None:
        return value

    return {_json_name(key): _to_json(member) for key, member in members.items()}


def _members(value: Any) -> Mapping[str, Any] | None:
    """Return the values in a table by their keys in the file; None for what is no table."""
    match value:
        case Brand() | BrandLimits() | PageAppearance() | Method():
            return {field.name: getattr(value, field.attribute) for field in _FIELDS[type(value)]}
        case ReusePolicy():
            return {type_.value: value.for_type(type_) for type_ in Type}
        case Limits():
            return limit_amounts(value)
        case Mapping():
            return value
        case _:
            return None


def _json_name(key: str) -> str:
    first, *others = key.split("_")
    return "".join((first, *map(str.capitalize, others)))


@frozen
class BrandDifference:
    """Describes one value of a brand that changes, is added or is removed."""

    brand: str
    member: str
    """The key of brands.toml, below its method: `name`, `method mpesa_ke (KE), limits.KES.max`."""
    before: str | None
    """None: there was none."""
    after: str | None
    """None: there is none any more."""

    @property
    def text(self) -> str:
        """Return the difference in one line."""
        return f"{self.brand}: {self.member}: {self.before or 'none'} -> {self.after or 'none'}"


def brand_differences(before: Brand, after: Brand) -> list[BrandDifference]:
    """Return what differs between two versions of one brand, method by method."""
    return [
        BrandDifference(
            after.id,
            _member_text(*member),
            None if old is None else value_text(old),
            None if new is None else value_text(new),
        )
        for member, old, new in changed_values(before, after)
    ]


def changed_values(before: Brand, after: Brand) -> list[tuple[Member, Any, Any]]:
    """Return each value that differs between two versions of one brand, old and new, None where
    there is none: those of the brand, then those of each method, in the order of the file."""
    # In the order of the file, with what is only in the new version behind it.
    old, new = dict(_values(before)), dict(_values(after))
    members = [*old, *(member for member in new if member not in old)]
    methods = list(dict.fromkeys(method for method, _ in members))
    changed = [member for member in members if old.get(member) != new.get(member)]

    return [
        (method, old.get(method), new.get(method))
        for method in sorted(changed, key=lambda member: methods.index(member[0]))
    ]


def brand_texts(brand: Brand) -> Iterator[tuple[str, str]]:
    """Yield what a brand has, as texts by their place in the file: `page.colour`, for each method
    its provider as `method mpesa_ke (KE)`, then `method mpesa_ke (KE), limits.KES.max`. What is
    empty is left out."""
    return ((_member_text(*member), value_text(value)) for member, value in _values(brand))


# The name of a method, empty for the brand itself, and the place of a value in it, empty for the
# method's provider.
Member = tuple[str, str]


def _member_text(method: str, place: str) -> str:
    return ", ".join(filter(None, (method and f"method {method}", place)))


def _values(brand: Brand) -> Iterator[tuple[Member, Any]]:
    for field in _FIELDS[Brand]:
        if field.name != "method":
            yield from _leaves("", field.name, getattr(brand, field.attribute))
    for method in brand.methods:
        name = method_name(method)
        # The provider stands for the method itself: it says that there is one.
        yield (name, ""), f"provider {method.provider}"
        for method_field in METHOD_FIELDS:
            if method_field.name not in ("key", "country", "provider"):
                yield from _leaves(name, method_field.name, getattr(method, method_field.attribute))


def _leaves(method: str, place: str, value: Any) -> Iterator[tuple[Member, Any]]:
    """Yield a value, or each value in a table; what is empty is left out."""
    members = _members(value)
    if members is None:
        if value_text(value):
            yield (method, place), value
        return
    for key, member in members.items():
        yield from _leaves(method, f"{place}.{key}", member)


def value_text(value: Any) -> str:
    """Return a value of a brand as text; empty for None."""
    match value:
        case None:
            return ""
        case bool():
            if value:
                return "yes"
            return "no"
        case Logo():
            # Two pictures of one size differ, too.
            digest = hashlib.sha256(value.content).hexdigest()[:16]
            return f"{value.media_type} of {len(value.content)} bytes, SHA-256 {digest}"
        case frozenset():
            return ", ".join(sorted(value))
        case tuple():
            return ", ".join(value)
        case _:
            return str(value)
