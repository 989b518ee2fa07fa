"""The limits of the HTTP/2 listener: connections, streams, frames that only make work, and bytes
that nobody reads."""

from __future__ import annotations

from contextlib import suppress

import h2.connection
import h2.exceptions
import trio

from mmo_sansio.http.http2_frames import FRAMES_BURST
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.asgi.http2_protocol import STREAMS_MAX
from tests.runtime.http.asgi.test_http2_connection import (
    RIGHT,
    client_of,
    http2_listening,
    is_served,
)
from tests.support.http2_client import Http2Client
from tests.support.time_limits import HANGS_AFTER_S

LARGE = 20_000_000
"""What the service answers to `/large`."""
HEADERS = [
    (b":method", b"GET"),
    (b":scheme", b"http"),
    (b":authority", b"h"),
    (b":path", b"/"),
    RIGHT,
]


async def is_closed(stream: trio.SocketStream) -> bool:
    """Wait until the server closes; it may send what it had to say."""
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass
    return True


async def test_a_full_listener_makes_room_and_one_address_has_its_share() -> None:
    async with (
        http2_listening(ListenerLimits(connections=2)) as here,
        client_of(here) as idle,
        client_of(here) as busy,
    ):
        await busy.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        assert (await idle.ask(b"GET", b"/", [RIGHT])).status == 200
        assert await is_served(here)
        await idle.wait_ended()
    async with (
        http2_listening(ListenerLimits(connections_per_address=1)) as here,
        client_of(here) as first,
    ):
        assert (await first.ask(b"GET", b"/", [RIGHT])).status == 200
        async with client_of(here) as second:
            assert (await second.stream.receive_some()).startswith(b"HTTP/1.1 503")
        await trio.aclose_forcefully(first.stream)
        with trio.fail_after(HANGS_AFTER_S):
            while True:
                async with client_of(here) as client:
                    with suppress(h2.exceptions.ProtocolError, trio.BrokenResourceError):
                        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200
                        break


async def test_a_client_that_opens_and_resets_streams_is_sent_away() -> None:
    async with http2_listening() as here:
        async with await trio.open_tcp_stream("127.0.0.1", here.port) as stream:
            talk = h2.connection.H2Connection()
            talk.initiate_connection()
            for number in range(1, 4 * int(FRAMES_BURST), 2):
                talk.send_headers(number, HEADERS, end_stream=True)
                talk.reset_stream(number)
            with suppress(trio.BrokenResourceError):
                await stream.send_all(talk.data_to_send())
            assert await is_closed(stream)
        assert await is_served(here)
        assert len(here.service.heads) <= FRAMES_BURST + 1


async def test_a_connection_has_few_streams() -> None:
    async with http2_listening() as here:
        async with await trio.open_tcp_stream("127.0.0.1", here.port) as stream:
            client = await Http2Client.start(stream)
            numbers = [
                await client.begin(b"GET", b"/wait", [RIGHT], ends=True) for _ in range(STREAMS_MAX)
            ]
            await here.service.at_work.wait()
            here.service.go_on.set()
            assert [(await client.answer(number)).status for number in numbers] == [
                200
            ] * STREAMS_MAX
        async with await trio.open_tcp_stream("127.0.0.1", here.port) as stream:
            here.service.go_on = trio.Event()
            client = await Http2Client.start(stream)
            for _ in range(STREAMS_MAX + 1):
                await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
            assert await is_closed(stream)


async def test_one_connection_cannot_hold_more_than_its_share() -> None:
    async with http2_listening(
        ListenerLimits(write_buffer_bytes=4 * LARGE, write_timeout_s=2)
    ) as here:
        async with await trio.open_tcp_stream("127.0.0.1", here.port) as stream:
            client = await Http2Client.start(stream)
            for _ in range(2):
                await client.begin(b"GET", b"/large", [RIGHT], ends=True)
            assert await is_closed(stream)
        assert await is_served(here)


async def test_all_together_cannot_hold_more_than_the_budget() -> None:
    async with http2_listening(
        ListenerLimits(write_buffer_bytes=LARGE * 5 // 2, write_timeout_s=2)
    ) as here:
        streams = [await trio.open_tcp_stream("127.0.0.1", here.port) for _ in range(3)]
        for stream in streams:
            client = await Http2Client.start(stream)
            await client.begin(b"GET", b"/large", [RIGHT], ends=True)
        async with trio.open_nursery() as nursery:

            async def end_with(stream: trio.SocketStream) -> None:
                assert await is_closed(stream)
                nursery.cancel_scope.cancel()

            for stream in streams:
                nursery.start_soon(end_with, stream)
        assert await is_served(here)
        for stream in streams:
            await trio.aclose_forcefully(stream)
