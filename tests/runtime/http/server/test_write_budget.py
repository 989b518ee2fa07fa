"""Bytes that wait for slow readers: counted, bounded, and taken from whoever holds most of them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import attrs
import pytest
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.server.connection_limits import WriteBudget
from tests.support.http_listener import SmallService, get, listening, post

LARGE = 20_000_000
"""What the service answers to `/large`."""
LIMITS = ListenerLimits(write_timeout_s=9, linger_timeout_s=9, write_buffer_bytes=LARGE * 5 // 2)


def test_below_its_limit_everybody_waits() -> None:
    budget = WriteBudget(100)
    with budget.hold(60, "a", _not_expected), budget.hold(40, "b", _not_expected):
        assert budget.waiting_bytes == 100
    assert budget.waiting_bytes == 0


async def test_beyond_it_the_largest_holder_loses_its_oldest_response() -> None:
    budget, lost = WriteBudget(100), list[str]()
    with ExitStack() as held, capture_logs() as lines:
        for name, holder, size in (
            ("modest", "b", 30),
            ("old", "a", 20),
            ("young", "a", 40),
            ("last", "c", 20),
        ):
            held.enter_context(budget.hold(size, holder, partial(lost.append, name)))
        assert lost == ["old"]
        assert budget.waiting_bytes == 90
        assert [line["event"] for line in lines] == ["response_broken_off"]
    assert budget.waiting_bytes == 0


async def test_one_response_alone_may_be_larger_than_the_budget() -> None:
    budget, lost = WriteBudget(100), list[str]()
    with budget.hold(500, "a", lambda: lost.append("large")):
        assert lost == []
        with budget.hold(10, "b", _not_expected):
            assert lost == ["large"]
            assert budget.waiting_bytes == 10


def _not_expected() -> None:
    pytest.fail("nothing had to make room")


async def test_slow_readers_lose_their_responses_and_others_are_answered(
    jumping_clock: MockClock,
) -> None:
    async with listening(LIMITS) as here:
        slow = [await here.connect() for _ in range(3)]
        for client in slow:
            await client.send(get(b"/large"))
            await wait_all_tasks_blocked()  # They are as old as they are sent.
        assert len(await slow[0].rest()) < LARGE
        assert (await here.ask(get())).status == 200
        for client in slow[1:]:
            assert len((await client.answer()).body) == LARGE


async def test_slow_senders_of_large_bodies_lose_their_requests_and_others_are_answered(
    jumping_clock: MockClock,
) -> None:
    """Two bodies of 256 KiB fit into the budget; the third makes the oldest end."""
    size = 256 * 1024
    limits = attrs.evolve(LIMITS, body_timeout_s=30, write_buffer_bytes=2 * size)
    async with listening(limits, service=SmallService(body_limit=size)) as here:
        chunked = (
            get(b"/", b"Transfer-Encoding: chunked", method=b"POST")
            + b"%x\r\n" % size
            + b"x" * size
        )
        slow = [await here.connect() for _ in range(3)]
        for client, begin in zip(
            slow, (chunked[:-9], post(b"x" * size)[:-9], post(b"x" * size)[:-9]), strict=True
        ):
            await client.send(begin)
            await wait_all_tasks_blocked()
        assert (await slow[0].answer()).status == 408
        assert (await here.ask(post(b"abc"))).status == 200
        for client in slow[1:]:
            assert (await client.ask(b"x" * 9)).status == 200


async def test_a_large_response_arrives_whole_and_the_connection_goes_on() -> None:
    async with listening(
        attrs.evolve(LIMITS, write_buffer_bytes=1), service=SmallService()
    ) as here:
        client = await here.connect()
        assert (await client.ask(get(b"/large"))).body == b"x" * LARGE
        assert (await client.ask(get(b"/large", method=b"HEAD"))).headers["content-length"] == str(
            LARGE
        )
        assert (await client.ask(get())).status == 200
