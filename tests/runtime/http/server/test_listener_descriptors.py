"""Descriptors after many clients have gone: none is left open."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Awaitable, Callable
from itertools import cycle

import pytest
import trio

from mmo_sansio.http.listener_limits import ListenerLimits
from tests.support.effort import by_effort
from tests.support.http_listener import (
    KEY,
    Client,
    RunningListener,
    get,
    listening,
    open_descriptors,
    post,
    wait_for_descriptors,
)

pytestmark = pytest.mark.long

REQUESTS = by_effort(500, 10_000)
VISITORS = 16
LIMITS = ListenerLimits(idle_timeout_s=5, head_timeout_s=5, body_timeout_s=5)
"""Far longer than a busy machine makes a visitor wait."""


async def in_http_1_0(client: Client) -> None:
    assert (await client.ask(b"GET / HTTP/1.0\r\n" + KEY + b"\r\n")).status == 200


async def closing(client: Client) -> None:
    assert (await client.ask(get(b"/", b"Connection: close"))).status == 200
    assert await client.is_closed()


async def left_idle(client: Client) -> None:
    assert (await client.ask(post(b"abc"))).status == 200
    assert await client.is_closed()


async def many_in_a_row(client: Client) -> None:
    for _ in range(20):
        assert (await client.ask(get())).status == 200


async def refused(client: Client) -> None:
    assert (await client.ask(b"nonsense\r\n")).status == 400


async def aborted(client: Client) -> None:
    """Cut off in the middle of a request, with a reset."""
    assert isinstance(client.stream, trio.SocketStream)
    await client.send(post(b"x" * 1000)[: random.Random(1).randrange(1000)])
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def unread(client: Client) -> None:
    await client.send(get() * 10)


WAYS: tuple[Callable[[Client], Awaitable[None]], ...] = (
    left_idle,
    *(in_http_1_0, closing, many_in_a_row, refused, aborted, unread, in_http_1_0) * 40,
)
"""Each visitor is left idle once: that takes the whole idle time."""


async def keep_visiting(here: RunningListener) -> None:
    """One connection after the other, each in another way, until there were enough requests."""
    for way in cycle(WAYS):
        client = Client(await trio.open_tcp_stream("127.0.0.1", here.port))
        await way(client)
        await trio.aclose_forcefully(client.stream)
        if len(here.service.heads) >= REQUESTS:
            break


async def test_after_the_crowd_has_gone_no_descriptor_is_left_open() -> None:
    async with listening(LIMITS, patience_s=120) as here:
        assert (await here.ask(get())).status == 200
        before = open_descriptors()
        async with trio.open_nursery() as nursery:
            for _ in range(VISITORS):
                nursery.start_soon(keep_visiting, here)
        await wait_for_descriptors(before)
