"""A version of a brand that allows no more than another one is told from any other."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.payments.brand_changes import only_tightens
from mmo_sansio.testing.builders import KES, a_brand, a_method
from mmo_sansio.values.model import BrandLimits, Limits, Operation, Type

LIMITS = Limits(KES("10"), KES("1000"), {Type.PAYOUT: KES("5000")})
BRAND = a_brand(
    methods=(a_method(limits={"KES": LIMITS}),), limits=BrandLimits(requests_per_second=5)
)


def with_method(**changes: Any) -> Any:
    return evolve(BRAND, methods=(evolve(BRAND.methods[0], **changes),))


def with_limits(**changes: Any) -> Any:
    return with_method(limits={"KES": evolve(LIMITS, **changes)})


TIGHTER = {
    "the same": BRAND,
    "a flow fewer": with_method(operations=BRAND.methods[0].operations - {Operation.DIRECT_PAYOUT}),
    "a currency fewer": with_method(limits={}),
    "a higher minimum": with_limits(minimum=KES("20")),
    "a lower maximum": with_limits(maximum=KES("500")),
    "a lower sum of a day": with_limits(daily={Type.PAYOUT: KES("1")}),
    "another sum of a day": with_limits(daily={Type.PAYOUT: KES("5000"), Type.PAYIN: KES("9")}),
    "fewer requests": evolve(BRAND, limits=BrandLimits(requests_per_second=4)),
    "few pending": evolve(BRAND, limits=BrandLimits(requests_per_second=5, pending_payments=9)),
}
WIDER = {
    "a lower minimum": with_limits(minimum=KES("5")),
    "a higher maximum": with_limits(maximum=KES("1000.01")),
    "a higher sum of a day": with_limits(daily={Type.PAYOUT: KES("5000.01")}),
    "no sum of a day": with_limits(daily={}),
    "any number of requests": evolve(BRAND, limits=BrandLimits()),
    "more at once": evolve(BRAND, limits=BrandLimits(requests_per_second=5, requests_burst=6)),
    "another account": with_method(tax_authority_account="1"),
    "another address": evolve(BRAND, push_result_url="https://b.example/"),
    "no method": evolve(BRAND, methods=()),
}


@pytest.mark.parametrize("name", [*TIGHTER, *WIDER])
def test_what_allows_no_more_is_told_from_what_does(name: str) -> None:
    assert only_tightens(BRAND, {**TIGHTER, **WIDER}[name]) is (name in TIGHTER)
