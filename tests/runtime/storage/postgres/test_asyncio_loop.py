"""Asyncio code that a Trio task waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest
import trio

from mmo_trio.storage.postgres.asyncio_loop import run_in_asyncio
from tests.support.time_limits import HANGS_AFTER_S


async def test_its_result_and_its_error_reach_the_trio_task() -> None:
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        return one + other

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("found nothing")

    assert await run_in_asyncio(lambda: add(1, 2)) == 3
    with pytest.raises(LookupError, match="found nothing"):
        await run_in_asyncio(fail)


async def test_a_cancellation_waits_until_it_has_ended() -> None:
    began, ended = threading.Event(), threading.Event()

    async def hang() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with trio.fail_after(HANGS_AFTER_S), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_in_asyncio, hang)
            await trio.to_thread.run_sync(began.wait)
            scope.cancel()
    assert scope.cancelled_caught
    assert ended.is_set()


async def test_what_ends_in_spite_of_a_cancellation_is_returned() -> None:
    """A connection that was made all the same can be closed by whoever asked for it."""

    async def finish() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "connection"
        raise AssertionError

    with trio.fail_after(HANGS_AFTER_S), trio.CancelScope() as scope:
        scope.cancel()
        found = await run_in_asyncio(finish)
    assert found == "connection"


async def test_a_cancellation_of_its_own_is_no_cancellation_of_trio() -> None:
    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_in_asyncio(cancel_itself)
