"""Questions that wait together are asked together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing
from attrs import Factory, define

from mmo_trio.storage.interface.store import HANGS_AFTER_S, StoreUnavailable
from mmo_trio.storage.sql.coalescing import Coalescer

pytestmark = pytest.mark.spec("L1", "L2")


@define
class Far:
    """Where the rows are: it answers one hop at a time, when it is let."""

    hops: list[list[int]] = Factory(list)
    may_answer: trio.Semaphore = Factory(lambda: trio.Semaphore(0))
    broken: bool = False

    async def ask(self, numbers: Sequence[int]) -> Sequence[str]:
        self.hops.append(list(numbers))
        await self.may_answer.acquire()
        if self.broken:
            raise StoreUnavailable("down")
        return [f"the answer to {number}" for number in numbers]


async def test_whoever_is_alone_is_asked_for_at_once(autojump_clock: trio.abc.Clock) -> None:
    far = Far()
    gathering = Coalescer[int, str](far.ask)
    for number in (1, 2):
        far.may_answer.release()
        assert await gathering(number) == f"the answer to {number}"
    assert far.hops == [[1], [2]]


async def test_who_comes_meanwhile_is_asked_for_together_next(
    autojump_clock: trio.abc.Clock,
) -> None:
    far = Far()
    gathering = Coalescer[int, str](far.ask, coalesced_max=3)
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        answers[number] = await gathering(number)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
        # A question is never put into a hop that began before it: what it finds is as new as the
        # question.
        assert far.hops == [[0]]
        for _ in range(3):
            far.may_answer.release()
            await trio.testing.wait_all_tasks_blocked()
    assert far.hops == [[0], [1, 2, 3], [4, 5]]
    assert answers == {number: f"the answer to {number}" for number in range(6)}


async def test_who_has_waited_for_a_store_that_hangs_does_not_wait_for_it_again(
    autojump_clock: trio.abc.Clock,
) -> None:
    far = Far(broken=True)
    gathering = Coalescer[int, str](far.ask, coalesced_max=1)
    failed = list[int]()

    async def ask(number: int) -> None:
        with pytest.raises(StoreUnavailable):
            await gathering(number)
        failed.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            await trio.sleep(2 * HANGS_AFTER_S)
            far.may_answer.release()
            await trio.testing.wait_all_tasks_blocked()
        assert far.hops == [[0], [1]]
        assert sorted(failed) == list(range(20))


async def test_whoever_stops_waiting_costs_nobody_else_an_answer(
    autojump_clock: trio.abc.Clock,
) -> None:
    far = Far()
    gathering = Coalescer[int, str](far.ask)
    answers: dict[int, str] = {}
    scopes = {number: trio.CancelScope() for number in range(4)}

    async def ask(number: int) -> None:
        with scopes[number]:
            answers[number] = await gathering(number)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
        scopes[0].cancel()  # The one that asks, for itself alone so far.
        scopes[1].cancel()  # The one whose turn it is next.
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            far.may_answer.release()
            await trio.testing.wait_all_tasks_blocked()
        assert far.hops == [[0], [2, 3]]
        assert {2, 3} <= answers.keys()
        assert 1 not in answers

    # And the next one finds the way free.
    far.may_answer.release()
    assert await gathering(9) == "the answer to 9"


async def test_the_one_whose_turn_it_is_may_stop_in_the_same_moment(
    autojump_clock: trio.abc.Clock,
) -> None:
    far = Far()
    gathering = Coalescer[int, str](far.ask)
    answers: dict[int, str] = {}
    scopes = {number: trio.CancelScope() for number in range(3)}

    async def ask(number: int) -> None:
        with scopes[number]:
            answers[number] = await gathering(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            far.may_answer.release()
        await trio.lowlevel.cancel_shielded_checkpoint()
        scopes[1].cancel()
    assert {0, 2} <= answers.keys()


async def test_a_store_that_is_down_is_down_for_all_who_wait(
    autojump_clock: trio.abc.Clock,
) -> None:
    far = Far(broken=True)
    gathering = Coalescer[int, str](far.ask)
    raised: list[StoreUnavailable] = []

    async def ask(number: int) -> None:
        try:
            await gathering(number)
        except StoreUnavailable as error:
            raised.append(error)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
        far.may_answer.release()
        await trio.testing.wait_all_tasks_blocked()
        far.may_answer.release()
    assert [str(each) for each in raised] == ["down"] * 3
    assert len({id(each) for each in raised}) == 3
    far.broken = False
    far.may_answer.release()
    assert await gathering(4) == "the answer to 4"
