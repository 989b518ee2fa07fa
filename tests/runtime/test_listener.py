"""The listener over real sockets: requests in, answers out, and everything refused a problem."""

from __future__ import annotations

import logging
from email.utils import parsedate_to_datetime

import pytest
import trio
from tests.runtime.listening import (
    BODY_LIMIT,
    KEY,
    SECRET,
    NoAnswerError,
    SmallService,
    assert_problem,
    get,
    listening,
    post,
)

from mmo_trio.http.streams import LingeringStream


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
        assert (context.client, context.secure) == ("127.0.0.1", False)
        assert (head.method, head.target) == ("GET", b"/a%2Fb?c=d")
        assert head.values(b"x-many") == (b"1", b"2")


@pytest.mark.spec("G3")
async def test_an_absolute_target_is_handed_on_as_its_path() -> None:
    async with listening() as here:
        assert (await here.ask(get(b"http://h/a?b"))).json["target"] == "/a?b"


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
    send_all = LingeringStream.send_all

    async def recorded(self: LingeringStream, data: bytes) -> None:
        sent.append(data)
        await send_all(self, data)

    monkeypatch.setattr(LingeringStream, "send_all", recorded)
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
async def test_a_client_that_waits_for_100_continue_is_told_to_go_on() -> None:
    async with listening() as here:
        client = await here.connect()
        head = get(b"/", b"Content-Length: 3", b"Expect: 100-Continue", method=b"POST")
        assert (await client.ask(head)).status == 100
        assert here.service.bodies == []
        assert (await client.ask(b"abc")).json["length"] == 3
        await client.send(head + b"abc")
        assert (await client.answer()).status == 200, "no invitation to a body that is here"


async def test_an_http_1_0_client_is_never_sent_a_100() -> None:
    async with listening() as here:
        client = await here.connect()
        head = b"POST / HTTP/1.0\r\n" + KEY + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        await client.send(head)
        await client.send(b"abc")
        assert (await client.answer()).status == 200


WRONG_KEY = b"POST / HTTP/1.1\r\nHost: h\r\nX-Api-Key: wrong\r\n"


@pytest.mark.spec("A1")
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 999999\r\n", b"Transfer-Encoding: chunked\r\n"]
)
async def test_a_wrong_key_is_a_401_before_the_body_is_looked_at(framing: bytes) -> None:
    async with listening() as here:
        client = await here.connect()
        answer = await client.ask(WRONG_KEY + framing + b"Expect: 100-continue\r\n\r\n")
        assert_problem(answer, 401, "unauthorized")
        assert answer.is_last
        assert await client.is_closed()
        assert here.service.bodies == []


@pytest.mark.spec("A1")
async def test_a_wrong_key_costs_no_connection_when_the_body_was_there_already() -> None:
    async with listening() as here:
        client = await here.connect()
        answer = await client.ask(WRONG_KEY + b"Content-Length: 3\r\n\r\nabc")
        assert answer.status == 401
        assert not answer.is_last
        assert (await client.ask(get())).status == 200
        assert here.service.bodies == [b""]


@pytest.mark.spec("G7", "P4")
@pytest.mark.parametrize("length", [BODY_LIMIT + 1, 16 * 1024 * 1024, 10**12, 10**18])
async def test_a_body_announced_too_large_is_a_413_before_it_is_read(length: int) -> None:
    async with listening() as here:
        client = await here.connect()
        answer = await client.ask(get(b"/", b"Content-Length: %d" % length, method=b"POST"))
        assert_problem(answer, 413, "body_too_large")
        assert answer.is_last
        assert await client.is_closed()
        assert here.service.bodies == []


@pytest.mark.spec("G7", "P4")
async def test_a_chunked_body_is_a_413_as_soon_as_it_passes_the_limit() -> None:
    async with listening() as here:
        client = await here.connect()
        head = get(b"/", b"Transfer-Encoding: chunked", method=b"POST")
        await client.send(head + b"10000\r\n" + b"x" * BODY_LIMIT + b"\r\n1\r\nx")
        assert_problem(await client.answer(), 413, "body_too_large")
        assert await client.is_closed()
        assert here.service.bodies == []


@pytest.mark.spec("G7")
async def test_a_body_of_exactly_the_limit_is_read() -> None:
    async with listening() as here:
        client = await here.connect()
        body = b"x" * BODY_LIMIT
        assert (await client.ask(post(body))).json["length"] == BODY_LIMIT
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        head = get(b"/", b"Transfer-Encoding: chunked", method=b"POST")
        assert (await client.ask(head + chunked)).json["length"] == BODY_LIMIT


@pytest.mark.spec("P4")
async def test_a_client_that_sends_on_regardless_still_reads_its_413() -> None:
    """The answer must not be lost to a reset while the client is still pushing its body."""
    async with listening() as here:
        client = await here.connect()
        await client.send(post(b"x" * 8 * 1024 * 1024))
        assert_problem(await client.answer(), 413, "body_too_large")
        assert await client.rest() == b""


CHUNKS = [
    b"5\nhello\r\n0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\n" + b"x" * 4,
    b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
    b"5\r\nhello\r\n0\r\nTrailer: x\n\n",
    b"-1\r\n\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"5 \x00\r\nhello\r\n0\r\n\r\n",
    b"\r\n0\r\n\r\n",
    b"g\r\n0\r\n\r\n",
    b"fffffffffffffffffffff\r\n",
    b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n",
]


@pytest.mark.spec("G3")
@pytest.mark.parametrize("chunks", CHUNKS, ids=range(len(CHUNKS)))
async def test_broken_chunks_are_a_400_and_the_end_of_the_connection(chunks: bytes) -> None:
    async with listening() as here:
        client = await here.connect()
        answer = await client.ask(get(b"/", b"Transfer-Encoding: chunked", method=b"POST") + chunks)
        assert_problem(answer, 400, "bad_request")
        assert answer.is_last
        assert await client.is_closed()
        assert here.service.bodies == []


# hardening.md section 3, rows 122 and 123: each followed by what a second program might take for
# the next request.
SMUGGLED = [
    (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", 400),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", 400),
    (b"Content-Length: 4\r\nContent-Length: 0\r\n", 400),
    (b"Content-Length: 4\r\nContent-Length: 4\r\n", 400),
    (b"Content-Length: 4, 4\r\n", 400),
    (b"Content-Length: +4\r\n", 400),
    (b"Transfer-Encoding: xchunked\r\n", 501),
    (b"Transfer-Encoding: chunked, identity\r\n", 501),
    (b"Transfer-Encoding : chunked\r\n", 400),
    (b"Transfer-Encoding:\x0bchunked\r\n", 400),
    (b"X: y\nTransfer-Encoding: chunked\r\n", 400),
    (b"X: y\rTransfer-Encoding: chunked\r\n", 400),
    (b"X: y\r\n Transfer-Encoding: chunked\r\n", 400),
    (b"X: \x00\r\n", 400),
    (b": y\r\n", 400),
    (b"Host: evil\r\n", 400),
    (b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n", 400),
]


@pytest.mark.spec("G3")
@pytest.mark.parametrize(("lines", "status"), SMUGGLED, ids=range(len(SMUGGLED)))
async def test_nothing_is_smuggled_past_the_listener(lines: bytes, status: int) -> None:
    async with listening() as here:
        client = await here.connect()
        head = b"POST /first HTTP/1.1\r\nHost: h\r\n" + KEY + lines + b"\r\n"
        answer = await client.ask(head + b"0\r\n\r\n" + get(b"/second"))
        assert_problem(answer, status, "bad_request" if status == 400 else "not_implemented")
        assert answer.is_last
        assert await client.rest() == b""
        assert here.service.heads == []


REFUSED = [
    (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_request"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 400, "bad_request"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "bad_request"),
    (b"GET / HTTP/1.1\nHost: h\n\n", 400, "bad_request"),
    (b"GET /\r\n", 400, "bad_request"),
    (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
    (b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", 400, "bad_request"),
    (get(b"/" + b"x" * 20_000), 414, "target_too_long"),
    (b"GET /" + b"x" * 20_000, 414, "target_too_long"),
    (get(b"/", b"X: " + b"x" * 40_000), 431, "head_too_large"),
    (get(b"/", b"X: " + b"x" * 40_000)[:-9], 431, "head_too_large"),
    (get(b"/", *[b"X: y"] * 200), 431, "head_too_large"),
]


@pytest.mark.spec("G3", "P4")
@pytest.mark.parametrize(("request_", "status", "segment"), REFUSED, ids=range(len(REFUSED)))
async def test_what_the_listener_refuses_itself_is_a_problem(
    request_: bytes, status: int, segment: str
) -> None:
    async with listening() as here:
        client = await here.connect()
        answer = await client.ask(request_)
        assert_problem(answer, status, segment)
        assert answer.is_last
        assert await client.rest() == b""
        assert here.service.heads == []


@pytest.mark.spec("L3")
async def test_a_target_of_8_kib_works() -> None:
    async with listening() as here:
        target = b"/gateway/mmo/v2/status/mref/" + b"x" * 8192
        assert (await here.ask(get(target))).json["target"] == target.decode()


@pytest.mark.spec("P3", "G9")
@pytest.mark.parametrize("target", [b"/fault", b"/late-fault"])
async def test_an_unexpected_fault_is_a_500_without_values(
    target: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as here:
        with caplog.at_level(logging.ERROR):
            answer = await here.ask(post(SECRET.encode(), target=target))
        assert_problem(answer, 500, "internal_server_error")
        (record,) = caplog.records
        assert record.__dict__["request_id"] == answer.headers["x-request-id"]
        assert "Error" in record.getMessage()
        assert "listening.py" in record.getMessage(), "where it happened"
        for said in (answer.body.decode(), record.getMessage()):
            assert SECRET not in said
            assert "right" not in said
        assert "Error" not in answer.body.decode()
        assert (await here.ask(get())).status == 200


@pytest.mark.spec("P3")
async def test_a_header_that_would_split_the_answer_is_a_500() -> None:
    async with listening() as here:
        answer = await here.ask(get(b"/split"))
        assert_problem(answer, 500, "internal_server_error")
        assert "set-cookie" not in answer.headers


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


async def test_no_answer_is_told_from_an_answer() -> None:
    async with listening() as here:
        client = await here.connect()
        await client.send(b"GET / HT")
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        with pytest.raises(NoAnswerError):
            await client.answer()
