"""Tells whether one version of a brand allows no more than another: one person alone may bring it into force again."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.values.model import Brand, BrandLimits, Limits, Method


def only_tightens(before: Brand, after: Brand) -> bool:
    """Tell whether the second version differs in limits and flows only, of which none allows more than in the first."""
    if len(before.methods) != len(after.methods):
        return False
    others = evolve(after, limits=before.limits, methods=before.methods)
    pairs = list(zip(before.methods, after.methods, strict=True))
    return (
        others == before
        and _is_within(before.limits.requests_per_second, after.limits.requests_per_second)
        and _is_within(before.limits.pending_payments, after.limits.pending_payments)
        and _is_within(_burst(before.limits), _burst(after.limits))
        and all(_is_tighter_method(old, new) for old, new in pairs)
    )


def _is_tighter_method(before: Method, after: Method) -> bool:
    others = evolve(after, operations=before.operations, limits=before.limits)
    return (
        others == before
        and after.operations <= before.operations
        and all(
            currency in before.limits and _are_tighter_limits(before.limits[currency], limits)
            for currency, limits in after.limits.items()
        )
    )


def _are_tighter_limits(before: Limits, after: Limits) -> bool:
    return (
        before.minimum.minor <= after.minimum.minor
        and after.maximum.minor <= before.maximum.minor
        and all(
            _is_within(most.minor, after.daily[each].minor if each in after.daily else None)
            for each, most in before.daily.items()
        )
    )


def _is_within(before: int | None, after: int | None) -> bool:
    return before is None or (after is not None and after <= before)


def _burst(limits: BrandLimits) -> int | None:
    return limits.requests_burst or limits.requests_per_second
