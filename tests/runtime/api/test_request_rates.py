"""The rate of a brand's requests, over all processes that share a store."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from attrs import evolve

from mmo_sansio.values import clock
from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_sansio.values.model import Brand, BrandLimits
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api.request_limits import RequestRates
from tests.conformance.inputs import brand
from tests.simulation.stores.shared_store import open_shared_store
from tests.simulation.stores.simulated_run import quiet_server
from tests.support.sqlite_store import StoreFile


class Clock:
    """A monotonic clock that a test moves."""

    now = MonotonicInstant(1_000 * clock.SECOND)

    def __call__(self) -> MonotonicInstant:
        return self.now


def limited(rate: int | None, burst: int | None = None) -> Brand:
    return evolve(brand("acme"), limits=BrandLimits(rate, burst))


async def passes(rates: RequestRates, of: Brand) -> bool:
    """Whether the request passes; one that doesn't is told when to come again."""
    try:
        await rates.check(of)
    except ProblemError as error:
        problem = error.problem
    else:
        return True
    assert (problem.status, problem.segment) == (429, "too_many_requests")
    assert (problem.retry_after_s or 0) >= 1
    return False


@pytest.mark.parametrize("processes", [1, 2, 5])
async def test_all_processes_together_grant_the_rate(processes: int) -> None:
    server, time = quiet_server(), Clock()
    async with AsyncExitStack() as stack:
        every = []
        for number in range(processes):
            store = await stack.enter_async_context(open_shared_store(server, str(number)))
            assert store.ownership is not None
            await store.ownership.renew_lease()
            every.append(RequestRates(store, time))
        granted = 0
        for _ in range(100):  # Ten seconds, with forty requests a second in all.
            time.now = later(time.now, Span(clock.SECOND // 10))
            for rates in every:
                granted += sum([await passes(rates, limited(20)) for _ in range(20)])
        assert 190 <= granted <= 20 + 10 * 20


async def test_brands_have_buckets_of_their_own_and_one_without_a_limit_has_none() -> None:
    async with StoreFile().open() as store:
        rates = RequestRates(store, Clock())
        assert [await passes(rates, limited(1)) for _ in range(2)] == [True, False]
        assert await passes(rates, evolve(limited(1), id="globex"))
        assert all([await passes(rates, limited(None)) for _ in range(100)])
        assert [await passes(rates, evolve(limited(5, 2), id="duka")) for _ in range(3)] == [
            True,
            True,
            False,
        ]


async def test_questions_about_payees_have_a_pace_of_their_own_for_each_brand() -> None:
    async with StoreFile().open() as store:
        time = Clock()
        rates = RequestRates(store, time)

        async def asks(of: Brand) -> bool:
            try:
                await rates.check_payees(of, 30)
            except ProblemError as error:
                problem = error.problem
            else:
                return True
            assert (problem.status, problem.segment) == (429, "too_many_requests")
            assert (problem.retry_after_s or 0) >= 1
            assert "30 questions about payees a minute" in problem.detail
            return False

        assert [await asks(limited(None)) for _ in range(4)] == [True, True, True, False]
        assert await asks(evolve(limited(None), id="globex"))
        assert await passes(rates, limited(1))
        time.now = later(time.now, Span(2 * clock.SECOND))
        assert [await asks(limited(None)) for _ in range(2)] == [True, False]
