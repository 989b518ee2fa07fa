"""Turns of an application's requests: few at a time, clients by turns, and not more than their
share of time."""

from __future__ import annotations

import pytest
import trio
from attrs import define
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.values.problems import ProblemError
from mmo_trio.http.asgi import host as pacing
from mmo_trio.http.asgi.host import BURST_S, PLACES, Pacer, Turn

COST_S = 0.01


@define(eq=False)
class Processor:
    """Counts processor time."""

    used_s: float = 0.0

    def __call__(self) -> float:
        return self.used_s


async def handle(pacer: Pacer, processor: Processor, client: str, done: list[str]) -> None:
    """Handle one request, which takes processor time."""
    turn = await pacer.take_turn(client)
    processor.used_s += COST_S
    done.append(client)
    turn.end()


async def test_the_share_is_kept(autojump_clock: MockClock) -> None:
    processor, done = Processor(), list[str]()
    pacer = Pacer(0.2, processor)
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(400):
            nursery.start_soon(handle, pacer, processor, "a", done)
    took_s = trio.current_time() - begin
    assert len(done) == 400
    assert processor.used_s == pytest.approx(4)
    assert 0.1 < (processor.used_s - BURST_S) / took_s < 0.21, (
        "what runs meanwhile is counted as well"
    )


async def test_after_a_quiet_time_nobody_waits(autojump_clock: MockClock) -> None:
    processor, done = Processor(), list[str]()
    pacer = Pacer(0.2, processor)
    await trio.sleep(60)
    begin = trio.current_time()
    for _ in range(int(BURST_S / COST_S)):
        await handle(pacer, processor, "a", done)
    assert trio.current_time() == begin


async def test_without_a_limit_nobody_waits(autojump_clock: MockClock) -> None:
    processor, done = Processor(), list[str]()
    begin = trio.current_time()
    for _ in range(500):
        await handle(Pacer(1.0, processor), processor, "a", done)
    assert trio.current_time() == begin


async def test_a_client_with_many_requests_does_not_hold_up_another_one(
    autojump_clock: MockClock,
) -> None:
    processor, done = Processor(), list[str]()
    pacer = Pacer(0.2, processor)
    async with trio.open_nursery() as nursery:
        for _ in range(300):
            nursery.start_soon(handle, pacer, processor, "greedy", done)
        await wait_all_tasks_blocked()
        before = len(done)
        nursery.start_soon(handle, pacer, processor, "modest", done)
    assert done.index("modest") - before <= PLACES


async def test_a_request_that_is_given_up_leaves_its_place(autojump_clock: MockClock) -> None:
    processor, done = Processor(), list[str]()
    pacer = Pacer(0.2, processor)
    busy = [await pacer.take_turn(client) for client in "abcd"]
    with trio.move_on_after(1) as given_up:
        await pacer.take_turn("a")
    assert given_up.cancelled_caught
    for turn in busy:
        turn.end()
        turn.end()
    for _ in range(PLACES + 1):
        await handle(pacer, processor, "a", done)
    assert len(done) == PLACES + 1


async def test_a_place_is_free_again_though_its_pause_was_cut_off(
    autojump_clock: MockClock,
) -> None:
    processor, done = Processor(used_s=0), list[str]()
    pacer = Pacer(0.001, processor)
    turn = await pacer.take_turn("a")
    processor.used_s += 1
    turn.end()
    for _ in range(PLACES + 1):
        with trio.move_on_after(0.001) as given_up:
            await pacer.take_turn("a")
        assert given_up.cancelled_caught
    await handle(pacer, processor, "a", done)
    assert done == ["a"]


async def test_who_has_gone_has_no_turn() -> None:
    pacer, present = Pacer(1.0), {"a": True, "b": True}
    busy = [await pacer.take_turn(client) for client in "wxyz"]
    turns = dict[str, Turn]()

    async def wait(client: str) -> None:
        turns[client] = await pacer.take_turn(client, is_wanted=lambda: present[client])

    async with trio.open_nursery() as nursery:
        for client in "ab":
            nursery.start_soon(wait, client)
            await wait_all_tasks_blocked()
        present["a"] = False
        busy[0].end()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert (turns["a"].is_over, turns["b"].is_over) == (True, False)


async def test_who_goes_in_the_pause_before_its_turn_has_none(autojump_clock: MockClock) -> None:
    processor = Processor()
    pacer = Pacer(0.1, processor)
    first = await pacer.take_turn("a")
    processor.used_s += 1
    first.end()
    turn = await pacer.take_turn("a", is_wanted=iter([True, False]).__next__)
    assert turn.is_over
    await handle(pacer, processor, "a", [])


async def test_what_waits_too_long_for_its_turn_is_refused(autojump_clock: MockClock) -> None:
    pacer, done = Pacer(1.0), list[str]()
    busy = [await pacer.take_turn(client) for client in "wxyz"]
    with pytest.raises(ProblemError) as refused:
        await pacer.take_turn("a", timeout_s=30)
    assert refused.value.problem.status == 503
    busy[0].end()
    await handle(pacer, Processor(), "b", done)
    assert done == ["b"]


async def test_one_client_leaves_places_to_others() -> None:
    pacer = Pacer(0.2)
    for client in "aabc":
        await pacer.take_turn(client)
    with trio.move_on_after(0) as waiting:
        await pacer.take_turn("d")
    assert waiting.cancelled_caught


async def test_a_crowd_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "WAITING_MAX", 3)
    pacer = Pacer(0.2)
    for client in "abcd":
        await pacer.take_turn(client)
    async with trio.open_nursery() as nursery:
        for client in ("a", "b"):
            nursery.start_soon(pacer.take_turn, client)
        await wait_all_tasks_blocked()
        with pytest.raises(ProblemError, match="Too many requests"):
            await pacer.take_turn("a")
        nursery.cancel_scope.cancel()
