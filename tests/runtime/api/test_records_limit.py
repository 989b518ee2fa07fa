"""Pages of records are read a few at a time, and no brand's pages hold back another's."""

from __future__ import annotations

import gc

import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.messages.queries import RECORDS_BYTES_MAX
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api.request_limits import (
    PAGE_MEMORY_BYTES,
    PAGES_MAX,
    PAGES_MEMORY_BYTES,
    PAGES_PER_BRAND_MAX,
    WAIT_MAX_S,
    RecordsLimit,
)


@define(eq=False)
class Readers:
    """Read pages, each for `read_s` seconds, and count what is in memory."""

    limit: RecordsLimit = Factory(RecordsLimit)
    read_s: float = 10.0
    bytes_under_way: int = 0
    bytes_peak: int = 0
    read: list[str] = Factory(list)
    rejected: list[ProblemError] = Factory(list)

    async def read_page(self, brand: str) -> None:
        try:
            async with self.limit.turn(brand):
                self.bytes_under_way += PAGE_MEMORY_BYTES
                self.bytes_peak = max(self.bytes_peak, self.bytes_under_way)
                await trio.sleep(self.read_s)
                self.bytes_under_way -= PAGE_MEMORY_BYTES
                self.read.append(brand)
        except ProblemError as error:
            self.rejected.append(error)


async def test_a_brand_reads_two_pages_at_once_and_the_others_are_told_to_come_again(
    autojump_clock: MockClock,
) -> None:
    readers = Readers()
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(readers.read_page, "acme")
        await trio.sleep(WAIT_MAX_S + 0.1)
        assert len(readers.rejected) == 98
        await readers.read_page("globex")
    assert readers.read.count("acme") == PAGES_PER_BRAND_MAX
    assert readers.read.count("globex") == 1
    problem = readers.rejected[0].problem
    assert problem.status == 503
    assert problem.retry_after_s is not None


async def test_all_brands_together_have_a_limit_in_bytes(autojump_clock: MockClock) -> None:
    readers = Readers()
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(readers.read_page, f"brand-{number}")
    assert readers.bytes_peak == PAGES_MAX * 2 * RECORDS_BYTES_MAX <= PAGES_MEMORY_BYTES
    assert len(readers.read) == PAGES_MAX


async def test_pages_that_are_read_quickly_wait_for_their_turn(autojump_clock: MockClock) -> None:
    readers = Readers(read_s=0.01)
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(readers.read_page, f"brand-{number % 5}")
    assert not readers.rejected
    assert len(readers.read) == 100
    assert readers.bytes_under_way == 0


async def test_nothing_is_kept_of_a_brand_that_reads_no_more() -> None:
    limit = RecordsLimit()
    for number in range(100):
        async with limit.turn(f"brand-{number}"):
            pass
    gc.collect()
    assert not limit._brands


async def test_a_turn_is_given_back_after_an_error() -> None:
    limit = RecordsLimit()
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            async with limit.turn("acme"):
                raise ZeroDivisionError
