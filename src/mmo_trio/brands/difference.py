"""Says what differs between two versions of a brand, for people who decide and for the audit log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from attrs import fields, frozen

from mmo_sansio.values.model import Brand, Limits, Logo, Method


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
    """Return what differs between two versions of one brand, in the order of the file."""
    old, new = _brand_values(before), _brand_values(after)
    members = [*old, *(each for each in new if each not in old)]
    return [
        BrandDifference(after.id, each, old.get(each), new.get(each))
        for each in members
        if old.get(each) != new.get(each)
    ]


def removed_methods(before: Brand, after: Brand) -> list[Method]:
    """Return the methods that the second version does not have any more."""
    kept = {(each.key, each.country) for each in after.methods}
    return [each for each in before.methods if (each.key, each.country) not in kept]


def _brand_values(brand: Brand) -> Mapping[str, str]:
    values = {
        "name": brand.name,
        "enabled": "yes" if brand.enabled else "no",
        "push_result_url": brand.push_result_url or "",
        "host": brand.host or "",
        "redirect_schemes": ", ".join(sorted(brand.redirect_schemes)),
        "result_hosts": ", ".join(brand.result_hosts),
        "page.colour": brand.appearance.colour or "",
        "page.logo": "" if brand.appearance.logo is None else _describe_logo(brand.appearance.logo),
        "page.order_label": brand.appearance.order_label or "",
    }
    for section, table in (("reference_reuse", brand.reference_reuse), ("limits", brand.limits)):
        for each in fields(type(table)):
            value = getattr(table, each.name)
            values[f"{section}.{each.name}"] = "" if value is None else str(value)
    for method in brand.methods:
        name = f"method {method.key} ({method.country})"
        values |= {f"{name}{member}": value for member, value in _method_values(method)}
    return {member: value for member, value in values.items() if value}


def _describe_logo(logo: Logo) -> str:
    return f"{logo.media_type} of {len(logo.content)} bytes, SHA-256 {hashlib.sha256(logo.content).hexdigest()[:16]}"


def _method_values(method: Method) -> Iterator[tuple[str, str]]:
    """Yield the members of a method; the first, without a name, is its provider, which each method has."""
    yield "", f"provider {method.provider}"
    yield ", flows", ", ".join(sorted(method.operations))
    yield ", tax_authority_id", method.tax_authority_id or ""
    yield ", tax_authority_account", method.tax_authority_account
    yield ", push_accounts", ", ".join(method.push_accounts)
    for currency, limits in method.limits.items():
        for member, value in _limit_values(limits):
            yield f", limits.{currency}.{member}", value


def _limit_values(limits: Limits) -> Iterator[tuple[str, str]]:
    yield "min", str(limits.minimum)
    yield "max", str(limits.maximum)
    for type_, most in limits.daily.items():
        yield f"daily_{type_.value}", str(most)
