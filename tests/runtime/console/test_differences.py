"""An approver sees what a change does: old and new under each other, and no zero has to be
counted."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.testing import a_brand
from mmo_sansio.values.model import Brand, BrandLimits, Limits, Method, Operation
from mmo_sansio.values.money import Money
from mmo_trio.brands.description import brand_differences
from mmo_trio.console.differences import (
    WHOLE_BRAND,
    MarkedText,
    ShownDifference,
    show_differences,
    summarize,
)


def a_method(
    key: str, *, most: str = "150000.00", flows: frozenset[Operation] = frozenset(Operation)
) -> Method:
    limits = Limits(Money(1_000, "KES"), Money(int(most.replace(".", "")), "KES"))
    return Method(
        key=key,
        provider="test",
        provider_title="Test",
        country="KE",
        operations=flows,
        limits={"KES": limits},
    )


def with_methods(*methods: Method, **changes: Any) -> Brand:
    return evolve(a_brand(), methods=methods, **changes)


def shown_amount(old: str, new: str) -> ShownDifference:
    [(title, [shown])] = show_differences(
        with_methods(a_method("m", most=old)), with_methods(a_method("m", most=new))
    )
    assert title == "m (KE)"
    assert (shown.setting, shown.is_number) == ("Max KES", True)
    return shown


@pytest.mark.parametrize(
    ("old", "new", "before", "after", "note"),
    [
        ("150000.00", "5000.00", ("150", ",000.00"), ("5", ",000.00"), "30 × less"),
        ("100000.00", "1000000.00", ("1", "00,000.00"), ("1,0", "00,000.00"), "10 × as much"),
        ("100.00", "1000000.00", ("1", "00.00"), ("1,000,0", "00.00"), "10,000 × as much"),
        ("10000.00", "12500.00", ("10,0", "00.00"), ("12,5", "00.00"), "+25 %"),
        ("10000.00", "9999.99", ("10,000.00", ""), ("9,999.99", ""), "-0.0001 %"),
    ],
)
def test_the_digits_that_differ_are_marked(
    old: str, new: str, before: tuple[str, str], after: tuple[str, str], note: str
) -> None:
    shown = shown_amount(old, new)
    assert shown.before == MarkedText("KES ", *before)
    assert shown.after == MarkedText("KES ", *after)
    assert shown.note == note


def test_methods_stay_together_and_a_flow_that_goes_is_struck_out() -> None:
    first, second = a_method("mpesa_ke"), a_method("mtn_ug")
    fewer = frozenset({Operation.DIRECT_PAYIN, Operation.WEB_PAYIN})
    daily = evolve(first.limits["KES"], daily={Operation.DIRECT_PAYOUT.type: Money(500_000, "KES")})
    before = with_methods(evolve(first, operations=fewer), second)
    after = with_methods(
        evolve(
            first,
            limits={"KES": daily},
            operations=frozenset({Operation.WEB_PAYIN, Operation.QR_PAYIN}),
        ),
        evolve(second, provider="other"),
        limits=BrandLimits(pending_payments=1_000),
    )
    shown = show_differences(before, after)
    assert [(title, [each.setting for each in some]) for title, some in shown] == [
        (WHOLE_BRAND, ["Pending payments"]),
        ("mpesa_ke (KE)", ["Flows", "Daily payout KES"]),
        ("mtn_ug (KE)", ["Provider"]),
    ]
    [flows, payout] = shown[1][1]
    assert flows.members == [("direct/payin", "removed"), ("qr/payin", "added"), ("web/payin", "")]
    assert (payout.before, payout.after) == (None, MarkedText("", "KES 5,000.00", ""))
    assert [each.member for each in brand_differences(before, after)][-1] == "method mtn_ug (KE)"


def test_a_method_that_goes_has_nothing_after() -> None:
    [(title, some)] = show_differences(with_methods(a_method("m")), with_methods())
    assert title == "m (KE)"
    assert {each.after for each in some} == {None}
    [most] = [each.before for each in some if each.setting == "Max KES"]
    assert most is not None
    assert most.text == "KES 150,000.00"


def test_what_is_applied_is_said_in_a_few_words() -> None:
    before = with_methods(a_method("m", most="250000.00"))
    after = with_methods(a_method("m", most="2500000.00"))
    one = show_differences(before, after)
    assert summarize(one) == "Max KES 250,000.00 → 2,500,000.00"
    assert summarize([*one, *one]) == "2 changes"
