"""A simulator's server over real sockets, byte by byte: requests, what it rejects, and each
fault."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import SECOND, Span
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.server.connection import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    REQUEST_TIMEOUT_S,
    SimulatorConnection,
)
from mmo_simulators.server.serving import serve, system_now
from tests.simulators.server.echo import Echo
from tests.support.time_limits import HANGS_AFTER_S

GET = b"GET /a HTTP/1.1\r\nHost: simulator.example\r\n\r\n"
LAST_GET = b"GET /last HTTP/1.1\r\nHost: simulator.example\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def connected(simulator: Echo) -> AsyncIterator[trio.SocketStream]:
    """A connection to the simulator's server."""
    with trio.fail_after(HANGS_AFTER_S):
        async with (
            serve(simulator) as origin,
            await trio.open_tcp_stream("127.0.0.1", int(origin.rpartition(":")[2])) as stream,
        ):
            yield stream


async def connect(origin: str) -> trio.SocketStream:
    """A connection to a server of this machine."""
    return await trio.open_tcp_stream("127.0.0.1", int(origin.rpartition(":")[2]))


async def read_all(stream: trio.SocketStream) -> bytes:
    """All that the server sends until it closes."""
    return b"".join([bytes(each) async for each in stream])


async def exchange(*pieces: bytes, simulator: Echo | None = None) -> bytes:
    """All that the server sends to a client that sends these pieces on one connection."""
    async with connected(simulator or Echo()) as stream:
        for piece in pieces:
            await stream.send_all(piece)
            await wait_all_tasks_blocked(0.01)
        return await read_all(stream)


def parse(received: bytes, methods: str = "GET") -> list[tuple[h11.Response, bytes]]:
    """The responses to requests with these methods, each with its body."""
    client, found = h11.Connection(h11.CLIENT), []
    client.receive_data(received)
    for method in methods.split():
        client.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        client.send(h11.EndOfMessage())
        head, body = client.next_event(), b""
        assert isinstance(head, h11.Response)
        while isinstance(data := client.next_event(), h11.Data):
            body += data.data
        assert isinstance(data, h11.EndOfMessage)
        found.append((head, body))
        if client.our_state is h11.DONE:
            client.start_next_cycle()
    return found


def field(head: h11.Response, name: bytes) -> bytes | None:
    """The value of a field of a response."""
    return dict(head.headers).get(name)


async def test_a_request_is_answered_with_the_servers_own_fields() -> None:
    [(head, body)] = parse(await exchange(LAST_GET))
    assert (head.status_code, json.loads(body)["target"]) == (200, "/last")
    assert field(head, b"connection") == b"close"
    assert re.fullmatch(rb"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", field(head, b"date") or b"")


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with connected(Echo()) as stream:
        for _ in range(3):
            await stream.send_all(GET)
            [(head, _)] = parse(bytes(await stream.receive_some()))
            assert (head.status_code, field(head, b"connection")) == (200, None)


async def test_requests_in_one_piece_are_answered_in_their_order() -> None:
    found = parse(await exchange(GET + GET.replace(b"/a", b"/b") + LAST_GET), "GET GET GET")
    assert [json.loads(body)["target"] for _, body in found] == ["/a", "/b", "/last"]


async def test_a_request_may_come_byte_by_byte() -> None:
    [(head, _)] = parse(await exchange(*(bytes([each]) for each in LAST_GET)))
    assert head.status_code == 200


async def test_a_chunked_body_is_put_together() -> None:
    head = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    [(_, body)] = parse(
        await exchange(head, b"3\r\nabc\r\n", b"2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"), "POST"
    )
    assert json.loads(body) == {"method": "POST", "target": "/c", "body": "abcde"}


async def test_a_client_that_waits_to_send_its_body_is_told_to_go_on() -> None:
    head = (
        b"POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: "
        b"close\r\n\r\n"
    )
    received = await exchange(head, b"hi")
    interim, _, final = received.partition(b"\r\n\r\n")
    assert interim.startswith(b"HTTP/1.1 100 ")
    assert json.loads(parse(final, "POST")[0][1])["body"] == "hi"


async def test_a_response_to_head_and_one_without_content_have_no_body() -> None:
    requests = GET.replace(b"GET", b"HEAD") + GET.replace(b"/a", b"/nothing") + LAST_GET
    found = parse(await exchange(requests), "HEAD GET GET")
    assert [(head.status_code, bool(body)) for head, body in found] == [
        (200, False),
        (204, False),
        (200, True),
    ]
    lengths = [field(head, b"content-length") for head, _ in found]
    assert lengths[0] not in (None, b"0")
    assert lengths[1] is None


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /a\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nA: " + HEAD_BYTES_MAX * b"a", 431),
        (
            b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"
            + (BODY_BYTES_MAX + 1) * b"a",
            413,
        ),
    ],
    ids=[
        "TLS",
        "no version",
        "no host",
        "space before a colon",
        "length",
        "chunk",
        "coding",
        "head",
        "body",
    ],
)
async def test_a_bad_request_is_answered_and_nothing_is_done(request_: bytes, status: int) -> None:
    simulator = Echo()
    [(head, body)] = parse(await exchange(request_, simulator=simulator))
    assert (head.status_code, field(head, b"connection")) == (status, b"close")
    assert json.loads(body)["error"].startswith("This is no request that can be read: ")
    assert simulator.handled == []


async def test_what_follows_a_bad_request_is_not_read() -> None:
    simulator = Echo()
    found = parse(await exchange(GET + b"GARBAGE\r\n\r\n" + GET, simulator=simulator), "GET GET")
    assert [head.status_code for head, _ in found] == [200, 400]
    assert len(simulator.handled) == 1


async def test_the_answer_arrives_though_the_client_has_sent_more() -> None:
    [(head, _)] = parse(await exchange(b"GARBAGE\r\n\r\n" + 500_000 * b"a"))
    assert head.status_code == 400


async def test_a_client_that_goes_in_the_middle_harms_nobody() -> None:
    simulator = Echo()
    with trio.fail_after(HANGS_AFTER_S):
        async with serve(simulator) as origin:
            for piece in (b"", b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"):
                async with await connect(origin) as gone:
                    await gone.send_all(piece)
            async with await connect(origin) as stream:
                await stream.send_all(LAST_GET)
                assert parse(await read_all(stream))[0][0].status_code == 200


async def read_after(reaction: DroppedConnection, request: bytes) -> tuple[bytes, int]:
    """What the server sends that reacts so to this request, and after how many seconds it closes,
    in virtual time."""
    client, server = memory_stream_pair()
    began_at = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_one, server, reaction)
        await client.send_all(request)
        received = b"".join([bytes(each) async for each in client])
    return received, round(trio.current_time() - began_at)


async def serve_one(stream: trio.abc.Stream, reaction: DroppedConnection) -> None:
    """Serve a connection and close it, as Trio's servers do."""
    async with stream:
        await SimulatorConnection(stream, lambda _: reaction, system_now).serve()


async def test_a_request_that_does_not_end_loses_its_connection(autojump_clock: MockClock) -> None:
    assert await read_after(DroppedConnection(), GET[:-1]) == (b"", REQUEST_TIMEOUT_S)


async def test_a_connection_may_stay_open_before_it_is_closed(autojump_clock: MockClock) -> None:
    lost, cut = (
        DroppedConnection(Span(9 * SECOND)),
        DroppedConnection(Span(9 * SECOND), HttpResponse(200), 0.5),
    )
    assert await read_after(lost, GET) == (b"", 9)
    received, passed_s = await read_after(cut, GET)
    assert (received[:13], passed_s) == (b"HTTP/1.1 200 ", 9)


@pytest.mark.parametrize(("do", "handled"), [("lose_request", 0), ("lose_answer", 1)])
async def test_a_request_or_an_answer_is_lost(do: str, handled: int) -> None:
    simulator = Echo()
    simulator.plan(do=do)
    assert await exchange(GET, simulator=simulator) == b""
    assert len(simulator.handled) == handled


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
async def test_an_answer_breaks_off_after_a_share_of_its_bytes(share: float) -> None:
    simulator = Echo()
    whole = await exchange(LAST_GET, simulator=simulator)
    simulator.plan(do="cut_answer", share=share)
    cut = await exchange(LAST_GET, simulator=simulator)
    assert len(cut) == int(len(whole) * share)
    assert len(simulator.handled) == 2


@pytest.mark.parametrize(("do", "handled"), [("answer_instead", 0), ("answer_after", 1)])
async def test_another_answer_is_sent(do: str, handled: int) -> None:
    simulator = Echo()
    simulator.plan(do=do, status=503, headers={"Retry-After": "9"}, body="<html>")
    (head, body), (after, _) = parse(await exchange(GET + LAST_GET, simulator=simulator), "GET GET")
    assert (head.status_code, body, field(head, b"retry-after")) == (503, b"<html>", b"9")
    assert (after.status_code, len(simulator.handled)) == (200, handled + 1)


async def test_a_port_in_use_is_an_error() -> None:
    async with serve(Echo()) as origin:
        with pytest.raises(OSError):
            async with serve(Echo(), port=int(origin.rpartition(":")[2])):
                pass
