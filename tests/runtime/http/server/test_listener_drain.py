"""Draining: what has begun is answered, what has not begun is let go, and there is an end to it."""

from __future__ import annotations

import socket

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.http.listener_limits import ListenerLimits
from tests.support.http_listener import Client, RunningListener, get, listening, post
from tests.support.time_limits import HANGS_AFTER_S

LIMITS = ListenerLimits(idle_timeout_s=9, linger_timeout_s=9, drain_timeout_s=9)


async def test_draining_answers_what_has_begun_and_closes_the_rest() -> None:
    async with listening(LIMITS) as here:
        idle, fresh, busy, late = [await here.connect() for _ in range(4)]
        await idle.ask(get())
        await busy.send(get(b"/wait"))
        await here.service.at_work.wait()
        await late.ask(get())
        await late.send(post(b"abc")[:-1])
        await here.ask(get())  # by now the listener has read what `late` has sent so far
        here.drain.set()
        assert await idle.is_closed()
        assert await fresh.is_closed()
        here.service.go_on.set()
        await late.send(b"c")
        for client in (busy, late):
            answer = await client.answer()
            assert answer.status == 200
            assert answer.is_last
            assert await client.rest() == b""
            await client.stream.aclose()
        await here.ended.wait()


async def test_a_patient_listener_leaves_the_idle_one_last_request(
    jumping_clock: MockClock,
) -> None:
    async with listening(LIMITS) as here:
        idle, fresh = await here.connect(), await here.connect()
        await idle.ask(get())
        await here.ask(get())  # by now the fresh one is accepted, too
        here.patience_s = 9
        here.drain.set()
        with pytest.raises(OSError):
            await connect_until_refused(here)
        for client in (idle, fresh):
            answer = await client.ask(get())
            assert answer.status == 200
            assert answer.is_last
            assert await client.is_closed()
            await client.stream.aclose()
        await here.ended.wait()


async def test_connections_that_wait_when_a_patient_listener_closes_are_answered() -> None:
    async with listening(LIMITS) as here:
        here.patience_s = 9
        waiting = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(3)]
        for each in waiting:
            each.sendall(get())
        here.drain.set()  # Nothing has accepted them yet.
        for each in waiting:
            client = Client(trio.SocketStream(trio.socket.from_stdlib_socket(each)))
            answer = await client.answer()
            assert answer.status == 200
            assert answer.is_last
            await client.stream.aclose()
        await here.ended.wait()


async def test_the_grace_of_idle_connections_ends() -> None:
    async with listening(LIMITS) as here:
        idle = await here.connect()
        await idle.ask(get())
        here.patience_s = 0.05
        here.drain.set()
        assert await idle.is_closed()
        await here.ended.wait()


async def test_a_draining_listener_accepts_nobody() -> None:
    async with listening(LIMITS) as here:
        busy = await here.connect()
        await busy.send(get(b"/wait"))
        await here.service.at_work.wait()
        here.drain.set()
        with pytest.raises(OSError):
            await connect_until_refused(here)
        assert not here.ended.is_set()


async def connect_until_refused(here: RunningListener) -> None:
    while True:  # the first may still come in time
        await here.connect()


async def test_pipelined_requests_behind_the_last_answer_are_left_for_another_connection() -> None:
    async with listening(LIMITS) as here:
        client = await here.connect()
        await client.send(get(b"/wait") + get(b"/next"))
        await here.service.at_work.wait()
        here.drain.set()
        here.service.go_on.set()
        answer = await client.answer()
        assert answer.json["target"] == "/wait"
        assert answer.is_last
        assert await client.rest() == b""
        assert len(here.service.heads) == 1


async def test_draining_comes_to_an_end_though_somebody_never_does() -> None:
    async with listening(ListenerLimits(drain_timeout_s=0.1)) as here:
        client = await here.connect()
        await client.send(get(b"/wait"))
        await here.service.at_work.wait()
        here.drain.set()
        await here.ended.wait()
        assert await client.is_closed()


async def test_draining_an_idle_listener_ends_at_once() -> None:
    async with listening(LIMITS) as here:
        here.drain.set()
        await here.ended.wait()


async def test_a_cancelled_listener_leaves_no_connection_open() -> None:
    async with listening(LIMITS) as here:
        stream = await trio.open_tcp_stream("127.0.0.1", here.port)
        client = Client(stream)
        assert (await client.ask(get())).status == 200
    with trio.fail_after(HANGS_AFTER_S):
        assert await client.is_closed()
    await stream.aclose()
