"""Limits of a brand, through the merchant's door."""

from __future__ import annotations

import pytest

from tests.support.merchants import a_brand, developer
from tests.support.rejections import assert_problem
from tests.support.sandbox_gateway import Serve

FEW_KEY, MANY_KEY = "the-key-of-few", "the-key-of-many"
BOUNDS = "limits = { requests_per_second = 1, requests_burst = 3, pending_payments = 2 }\n"
BRANDS = a_brand("few", FEW_KEY, more=BOUNDS) + a_brand("many", MANY_KEY)


@pytest.mark.spec("P1", "P2")
@pytest.mark.usefixtures("standing_clock")
async def test_a_merchant_is_told_which_limit_it_has_reached(serve: Serve) -> None:
    async with serve(brands=BRANDS) as sandbox:
        few = developer(sandbox, FEW_KEY)
        for _ in range(2):
            await few.accepted(scenario="never")
        refused = await few.create(scenario="never")
        assert_problem(refused, 422, "brand_pending_limit")
        flooded = await few.get("status/01ARZ3NDEKTSV4RRFFQ69G5FAV")
        assert_problem(flooded, 429, "too_many_requests")
        assert int(flooded.headers["retry-after"]) >= 1
        many = developer(sandbox, MANY_KEY)
        for _ in range(20):
            await many.accepted(scenario="never")
