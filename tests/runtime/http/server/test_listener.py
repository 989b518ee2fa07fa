"""The listener over real sockets: requests in, answers out, and everything refused a problem."""

from __future__ import annotations

import os
import socket
from email.utils import parsedate_to_datetime

import pytest
import trio

from mmo_trio.http.streams import LingeringStream, accept_waiting
from tests.support.http_listener import KEY, NoAnswerError, SmallService, get, listening, post


@pytest.mark.spec("G9")
async def test_every_answer_carries_what_every_answer_carries() -> None:
    async with listening() as here:
        client = await here.connect()
        answer = await client.ask(get(b"/a"))
        assert answer.status == 200
        assert answer.json == {"target": "/a", "length": 0}
        assert answer.headers["x-request-id"] == here.service.contexts[0].request_id
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-length"] == str(len(answer.body))
        assert parsedate_to_datetime(answer.headers["date"]).tzinfo is not None
        assert "connection" not in answer.headers
        second = await client.ask(get(b"/b"))
        assert second.headers["x-request-id"] == here.service.contexts[1].request_id
        assert second.headers["x-request-id"] != answer.headers["x-request-id"]


async def test_the_service_learns_who_asks_and_what() -> None:
    async with listening() as here:
        await here.ask(get(b"/a%2Fb?c=d", b"X-Forwarded-For: 8.8.8.8", b"X-Many: 1", b"x-many: 2"))
        (context,), (head,) = here.service.contexts, here.service.heads
        assert (context.client, context.is_secure) == ("127.0.0.1", False)
        assert (head.method, head.target) == ("GET", b"/a%2Fb?c=d")
        assert head.values(b"x-many") == (b"1", b"2")


@pytest.mark.spec("G3")
async def test_an_absolute_target_is_handed_on_as_its_path() -> None:
    async with listening() as here:
        assert (await here.ask(get(b"http://h/a?b"))).json["target"] == "/a?b"
        assert (await here.ask(get(b"http://other/a?b"))).json["target"] == "/a?b"


async def test_a_connection_lives_on_and_pipelined_requests_are_answered_in_order() -> None:
    async with listening() as here:
        client = await here.connect()
        chunked = (
            get(b"/3", b"Transfer-Encoding: chunked", method=b"POST") + b"2\r\nab\r\n0\r\n\r\n"
        )
        requests = [get(b"/1"), post(b"xyz", target=b"/2"), chunked, b"\r\n" + get(b"/4")]
        await client.send(b"".join(requests))
        answers = [await client.answer() for _ in requests]
        assert [answer.json for answer in answers] == [
            {"target": "/1", "length": 0},
            {"target": "/2", "length": 3},
            {"target": "/3", "length": 2},
            {"target": "/4", "length": 0},
        ]
        assert here.service.bodies == [b"", b"xyz", b"ab", b""]


class TurnCounter(trio.abc.Instrument):
    """Counts the turns of the loop."""

    turns = 0

    def after_io_wait(self, timeout: float) -> None:
        self.turns += 1


async def test_a_crowd_of_connections_is_accepted_together() -> None:
    """With one for each turn of the loop, the last would wait while the first are served again and
    again."""
    crowd, counter = 60, TurnCounter()
    async with listening() as here:
        waiting = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(crowd)]
        for each in waiting:
            each.sendall(get(b"/a"))
        trio.lowlevel.add_instrument(counter)
        while len(here.service.heads) < crowd:
            await trio.lowlevel.checkpoint()
        assert counter.turns < crowd / 4
        for each in waiting:
            each.close()


async def test_each_of_a_crowd_sends_at_once_and_keeps_what_the_client_has_not_taken() -> None:
    """As Trio has it for a connection that it accepts itself."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    with socket.create_connection(listener.socket.getsockname()[:2]):
        await trio.lowlevel.wait_readable(listener.socket)
        (stream,) = accept_waiting(listener)
        with socket.socket(fileno=os.dup(stream.descriptor)) as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        stream.close()
    await listener.aclose()


async def test_a_request_may_come_in_single_bytes() -> None:
    async with listening() as here:
        client = await here.connect()
        request = get(b"/", b"Transfer-Encoding: chunked", method=b"POST")
        for byte in request + b"1;x=y\r\na\r\n2\r\nbc\r\n0\r\n\r\n" + get(b"/next"):
            await client.send(bytes((byte,)))
            await trio.lowlevel.checkpoint()
        assert (await client.answer()).json == {"target": "/", "length": 3}
        assert (await client.answer()).json["target"] == "/next"


async def test_an_answer_leaves_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    send_now = LingeringStream.try_send

    def recorded(self: LingeringStream, data: bytes) -> bytes:
        sent.append(data)
        return send_now(self, data)

    monkeypatch.setattr(LingeringStream, "try_send", recorded)
    async with listening() as here:
        await here.ask(post(b"x" * 1000))
        await here.ask(get(b"/", b"Connection: close"))
    assert len(sent) == 2
    assert all(data.startswith(b"HTTP/1.1 200 OK\r\n") and data.endswith(b"}") for data in sent)


@pytest.mark.spec("G3")
async def test_head_is_answered_like_get_without_the_body() -> None:
    async with listening() as here:
        client = await here.connect()
        whole = await client.ask(get(b"/a"))
        bare = await client.ask(get(b"/a", method=b"HEAD"))
        assert here.service.heads[1].method == "HEAD"
        assert (bare.status, bare.body) == (200, b"")
        assert bare.headers["content-length"] == whole.headers["content-length"]
        assert (await client.ask(get(b"/b"))).json["target"] == "/b"


async def test_a_204_has_neither_body_nor_length() -> None:
    async with listening() as here:
        client = await here.connect()
        answer = await client.ask(get(b"/nothing"))
        assert answer.status == 204
        assert "content-length" not in answer.headers
        assert (await client.ask(get(b"/b"))).status == 200


# What the client says of the connection, and what becomes of it: RFC 9112 section 9.3.
PERSISTENCE = [
    (b"HTTP/1.1", b"", None),
    (b"HTTP/1.1", b"Connection: keep-alive\r\n", None),
    (b"HTTP/1.1", b"Connection: close\r\n", "close"),
    (b"HTTP/1.1", b"Connection: Close\r\n", "close"),
    (b"HTTP/1.1", b"Connection: keep-alive, close\r\n", "close"),
    (b"HTTP/1.1", b"Connection: close\r\nConnection: keep-alive\r\n", "close"),
    (b"HTTP/1.0", b"", "close"),
    (b"HTTP/1.0", b"Connection: Keep-Alive\r\n", "keep-alive"),
    (b"HTTP/1.0", b"Connection: upgrade , keep-alive\r\n", "keep-alive"),
    (b"HTTP/1.0", b"Connection: close, keep-alive\r\n", "close"),
]


@pytest.mark.parametrize(("version", "line", "expected"), PERSISTENCE, ids=range(len(PERSISTENCE)))
async def test_the_client_decides_how_long_the_connection_lives(
    version: bytes, line: bytes, expected: str | None
) -> None:
    async with listening() as here:
        client = await here.connect()
        request = b"POST / %s\r\nHost: h\r\n%s%sContent-Length: 2\r\n\r\nab" % (version, KEY, line)
        answer = await client.ask(request)
        assert answer.json["length"] == 2
        assert answer.headers.get("connection") == expected
        if expected == "close":
            assert await client.is_closed()
        else:
            assert (await client.ask(request)).status == 200


@pytest.mark.spec("A1")
async def test_a_client_that_waits_for_100_continue_receives_it() -> None:
    async with listening() as here:
        client = await here.connect()
        head = get(b"/", b"Content-Length: 3", b"Expect: 100-Continue", method=b"POST")
        assert (await client.ask(head)).status == 100
        assert here.service.bodies == []
        assert (await client.ask(b"abc")).json["length"] == 3
        for begun in (b"abc", b"a"):
            await client.send(head + begun)
            await client.send(b"abc"[len(begun) :])
            assert (await client.answer()).status == 200, "it needs no invitation"


async def test_an_http_1_0_client_is_never_sent_a_100() -> None:
    async with listening() as here:
        client = await here.connect()
        head = b"POST / HTTP/1.0\r\n" + KEY + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        await client.send(head)
        await client.send(b"abc")
        assert (await client.answer()).status == 200


@pytest.mark.spec("L3")
async def test_a_target_of_8_kib_works() -> None:
    async with listening() as here:
        target = b"/gateway/mmo/v2/status/mref/" + b"x" * 8192
        assert (await here.ask(get(target))).json["target"] == target.decode()


@pytest.mark.spec("C6")
@pytest.mark.parametrize("part", [b"", b"GET", post(b"abc")[:-1]])
async def test_a_client_that_leaves_in_the_middle_of_its_request_leaves_nothing_behind(
    part: bytes,
) -> None:
    async with listening() as here:
        client = await here.connect()
        await client.send(part)
        await trio.aclose_forcefully(client.stream)
        assert (await here.ask(get())).status == 200
        assert here.service.bodies == [b""]


async def test_a_client_that_says_it_has_said_all_still_gets_its_answer() -> None:
    async with listening() as here:
        client = await here.connect()
        await client.send(get())
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        assert (await client.answer()).status == 200
        assert await client.rest() == b""


async def test_a_client_that_leaves_before_its_answer_does_not_undo_it() -> None:
    """Row 92: the service is not cancelled because nobody waits any more."""
    service = SmallService()
    async with listening(service=service) as here:
        client = await here.connect()
        await client.send(post(b"abc", target=b"/wait"))
        await service.at_work.wait()
        await trio.aclose_forcefully(client.stream)
        service.go_on.set()
        await service.done.wait()
        assert service.bodies == [b"abc"]


async def test_a_closed_connection_differs_from_a_response() -> None:
    async with listening() as here:
        client = await here.connect()
        await client.send(b"GET / HT")
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        with pytest.raises(NoAnswerError):
            await client.answer()
