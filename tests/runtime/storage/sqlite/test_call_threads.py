"""Threads for calls that wait for a disk."""

from __future__ import annotations

import os
import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sqlite.connection import CallThreads
from tests.support.time_limits import HANGS_AFTER_S


async def test_results_and_errors_come_back_and_calls_run_in_one_other_thread() -> None:
    thread, seen = CallThreads("test"), list[str]()

    def note() -> str:
        seen.append(threading.current_thread().name)
        return "done"

    def fail() -> str:
        raise ValueError("wrong")

    assert await thread.run(note) == "done"
    with pytest.raises(ValueError, match="wrong"):
        await thread.run(fail)
    assert await thread.run(note) == "done"
    assert seen == ["test", "test"]
    thread.end()


async def test_calls_run_in_the_order_in_which_they_came() -> None:
    thread, gate, seen = CallThreads("test"), threading.Event(), list[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, gate.wait)
        await wait_all_tasks_blocked()
        for number in range(5):
            nursery.start_soon(thread.run, lambda number=number: seen.append(number))
            await wait_all_tasks_blocked()
        gate.set()
    assert seen == list(range(5))
    thread.end()


async def test_several_threads_begin_as_they_are_needed_and_run_calls_at_once() -> None:
    threads, both, names = CallThreads("test", 3), threading.Barrier(2), set[int]()

    def meet() -> None:
        names.add(threading.get_ident())
        both.wait(timeout=HANGS_AFTER_S)

    for _ in range(4):
        await threads.run(lambda: names.add(threading.get_ident()))
    assert len(names) == 1
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(threads.run, meet)
            nursery.start_soon(threads.run, meet)
    assert len(names) == 2
    threads.end()


async def test_a_cancelled_caller_goes_on_at_once_and_the_thread_goes_on_after_it() -> None:
    thread, gate, seen = CallThreads("test"), threading.Event(), list[bool]()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run, lambda: seen.append(gate.wait()))
            await wait_all_tasks_blocked()
            scope.cancel()
    assert seen == []
    gate.set()
    assert await thread.run(lambda: list(seen)) == [True]
    thread.end()


async def test_a_task_that_is_cancelled_already_starts_no_call() -> None:
    thread, seen = CallThreads("test"), list[int]()
    with trio.CancelScope() as scope:
        scope.cancel()
        await thread.run(lambda: seen.append(1))
    await thread.run(lambda: None)
    assert seen == []
    thread.end()


async def test_who_gives_up_before_the_turn_of_a_call_leaves_the_queue() -> None:
    thread, gate, seen = CallThreads("test"), threading.Event(), list[str]()

    async def give_up(turn_within_s: float) -> None:
        with pytest.raises(StoreUnavailable, match="no turn for it within"):
            await thread.run(lambda: seen.append("run for nobody"), turn_within_s=turn_within_s)
        seen.append("gave up")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, gate.wait)
        await wait_all_tasks_blocked()
        with trio.move_on_after(0.01):
            await thread.run(lambda: seen.append("run for nobody"))
        await give_up(0.01)
        gate.set()
    assert await thread.run(lambda: list(seen)) == ["gave up"]
    thread.end()


async def test_calls_that_wait_need_no_descriptor() -> None:
    thread, gate = CallThreads("test"), threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, gate.wait)
        await wait_all_tasks_blocked()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(100):
            nursery.start_soon(thread.run, lambda: None)
        await wait_all_tasks_blocked()
        # Others may be closed meanwhile, as what an earlier test has left is collected.
        assert len(os.listdir("/proc/self/fd")) <= before
        gate.set()
    thread.end()


async def test_calls_that_wait_are_dropped_and_the_one_that_has_begun_goes_on() -> None:
    thread, gate, seen = CallThreads("test"), threading.Event(), list[str]()

    async def wait_in_queue() -> None:
        with pytest.raises(StoreUnavailable, match="the store is closed"):
            await thread.run(lambda: seen.append("begun"))
        seen.append("dropped")

    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run, gate.wait)
            await wait_all_tasks_blocked()
            async with trio.open_nursery() as dropped:
                for _ in range(3):
                    dropped.start_soon(wait_in_queue)
                await wait_all_tasks_blocked()
                thread.drop_waiting()
            assert seen == ["dropped"] * 3
            gate.set()
        assert await thread.run(lambda: "goes on") == "goes on"
    thread.end()


async def test_no_call_waits_in_a_queue_that_nobody_reads_any_more() -> None:
    thread = CallThreads("test")
    await thread.run(lambda: None)
    thread.end()
    with trio.fail_after(HANGS_AFTER_S), pytest.raises(StoreUnavailable):
        await thread.run(lambda: None)


def test_the_thread_outlives_the_loop_of_a_caller_that_did_not_wait() -> None:
    thread, gate, ended = CallThreads("test", ahead=1), threading.Event(), threading.Event()

    def wait() -> None:
        gate.wait()

    async def leave() -> None:
        with trio.move_on_after(0.01):
            await thread.run(wait)

    trio.run(leave)
    gate.set()

    async def return_later() -> None:
        await thread.run(ended.set)

    trio.run(return_later)
    assert ended.is_set()
    thread.end()
