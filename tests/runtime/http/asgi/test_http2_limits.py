"""The limits of the HTTP/2 listener: connections, streams, frames that only make work, and bytes
that nobody reads."""

from __future__ import annotations

from contextlib import suppress

import h2.connection
import h2.errors
import h2.exceptions
import pytest
import trio
import trio.testing

from mmo_sansio.http.http2_frames import (
    DATA,
    END_STREAM,
    FRAMES_BURST,
    NEEDED_COST,
    WINDOW_UPDATE,
)
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.asgi.http2_protocol import STREAMS_MAX
from tests.runtime.http.asgi.test_http2_connection import (
    PING,
    RIGHT,
    client_of,
    http2_listening,
    is_served,
)
from tests.support.http2_client import Http2Client
from tests.support.http_listener import BODY_LIMIT
from tests.support.time_limits import HANGS_AFTER_S

UNKNOWN = 0xEE
"""A type of frames that no document has."""
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
                    # h2 waits for the rest of a frame whose head is the beginning of a 503.
                    refused = (h2.exceptions.ProtocolError, trio.BrokenResourceError)
                    with suppress(*refused, AssertionError):
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


@pytest.mark.parametrize("more", [1, 12])
async def test_a_client_that_does_not_know_the_limit_yet_may_send_the_excess_again(
    more: int,
) -> None:
    """RFC 9113, 5.1.2: as Node's client does, which opens all of its streams at once."""
    async with http2_listening() as here, client_of(here) as client:
        numbers = [
            await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
            for _ in range(STREAMS_MAX + more)
        ]
        await here.service.at_work.wait()
        taken, excess = numbers[:STREAMS_MAX], numbers[STREAMS_MAX:]
        here.service.go_on.set()
        assert [(await client.answer(each)).status for each in taken] == [200] * STREAMS_MAX
        assert client.resets == dict.fromkeys(excess, h2.errors.ErrorCodes.REFUSED_STREAM)
        assert len(here.service.heads) == STREAMS_MAX
        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200


async def test_a_client_that_only_makes_work_gets_what_it_was_promised_and_a_goodbye() -> None:
    """RFC 9113, 5.4.1: it learns which of its requests it may send again."""
    async with http2_listening() as here, client_of(here) as client:
        slow = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        await client.send_frame(PING, payload=b"12345678", times=int(FRAMES_BURST) + 1)
        late = await client.begin(b"GET", b"/", [RIGHT], ends=True)
        await trio.testing.wait_all_tasks_blocked()
        here.service.go_on.set()
        assert (await client.answer(slow)).status == 200
        await client.wait_ended()
        assert client.goodbye == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert client.last_taken == slow < late
        assert len(here.service.heads) == 1


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(WINDOW_UPDATE, b"\0\0\0\1"), (DATA, b""), (UNKNOWN, b"")],
    ids=["WINDOW_UPDATE", "empty DATA", "unknown"],
)
async def test_every_frame_is_counted(kind: int, payload: bytes) -> None:
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"POST", b"/", [RIGHT], ends=False)
        number = stream if kind == DATA else 0
        with suppress(trio.BrokenResourceError):
            await client.send_frame(
                kind, number, payload, times=2 * int(FRAMES_BURST / NEEDED_COST)
            )
        await client.wait_ended()
        assert client.goodbye in (h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, None)
        assert await is_served(here)
        assert len(here.service.bodies) == 1


async def test_bodies_that_come_slowly_count_against_the_budget() -> None:
    """As by HTTP/1.1; the client learns that nothing of them was done."""
    body = b"x" * 60_000
    async with (
        http2_listening(ListenerLimits(write_buffer_bytes=3 * BODY_LIMIT)) as here,
        client_of(here) as first,
        client_of(here) as second,
    ):
        uploads = []
        for client in (first, first, first, second):
            stream = await client.begin(b"POST", b"/", [RIGHT], ends=False)
            await client.send_frame(DATA, stream, body[:16_384])
            uploads.append(stream)
            await trio.testing.wait_all_tasks_blocked()
        assert (await first.ask(b"GET", b"/", [RIGHT])).status == 200
        assert first.resets == {uploads[0]: h2.errors.ErrorCodes.REFUSED_STREAM}

        await first.send_frame(DATA, uploads[1], b"x", END_STREAM)
        assert (await first.answer(uploads[1])).json["length"] == 16_385
        await second.send_frame(DATA, uploads[3], b"x", END_STREAM)
        assert (await second.answer(uploads[3])).json["length"] == 16_385


async def test_a_body_that_nobody_admits_fills_no_more_than_a_window() -> None:
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"POST", b"/wait", [RIGHT], ends=False)
        await here.service.at_work.wait()
        with trio.move_on_after(0.2) as sending:
            await client.send_body(stream, b"x" * 70_000)
        assert sending.cancelled_caught
        assert client.room(stream) == 0


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


async def test_who_holds_too_much_loses_that_answer_and_no_other() -> None:
    async with (
        http2_listening(ListenerLimits(write_buffer_bytes=4 * LARGE)) as here,
        client_of(here) as client,
    ):
        waiting = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        # Two that arrive at once are answered in any order.
        large = {await client.begin(b"GET", b"/large", [RIGHT], ends=True) for _ in range(2)}
        while not client.resets:
            await client.ask(b"GET", b"/nothing", [RIGHT])
        here.service.go_on.set()
        assert (await client.answer(waiting)).status == 200
        [(excess, code)] = client.resets.items()
        assert excess in large
        assert code == h2.errors.ErrorCodes.CANCEL


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
