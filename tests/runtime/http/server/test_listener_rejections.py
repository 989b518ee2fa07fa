"""What the listener refuses itself: every refusal a problem document, and nothing slips past."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.support.http_listener import (
    BODY_LIMIT,
    KEY,
    SECRET,
    assert_problem,
    get,
    listening,
    post,
)

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


# The core's tests have every way to get it wrong: of chunks here, and of heads below.
CHUNKS = [b"5\nhello\r\n0\r\n\r\n", b"g\r\n0\r\n\r\n", b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n"]


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


# Each is followed by what a second program might take for the next request.
SMUGGLED = [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    b"Content-Length: 4\r\nContent-Length: 0\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"X: y\nTransfer-Encoding: chunked\r\n",
    b"Host: evil\r\n",
]


@pytest.mark.spec("G3")
@pytest.mark.parametrize("lines", SMUGGLED, ids=range(len(SMUGGLED)))
async def test_nothing_is_smuggled_past_the_listener(lines: bytes) -> None:
    async with listening() as here:
        client = await here.connect()
        head = b"POST /first HTTP/1.1\r\nHost: h\r\n" + KEY + lines + b"\r\n"
        answer = await client.ask(head + b"0\r\n\r\n" + get(b"/second"))
        assert_problem(answer, 400, "bad_request")
        assert answer.is_last
        assert await client.rest() == b""
        assert here.service.heads == []


H2C_OFFERS = [
    (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk"),
    (b"Upgrade: websocket, H2C",),
    (b"HTTP2-Settings: AAMAAABk", b"HTTP2-Settings: AAMAAABk"),
]


@pytest.mark.spec("G3")
@pytest.mark.parametrize("offer", H2C_OFFERS, ids=range(len(H2C_OFFERS)))
async def test_an_offer_of_http2_in_the_clear_is_ignored_and_goes_no_further(
    offer: tuple[bytes, ...],
) -> None:
    """The answer is HTTP/1.1, nothing after it is read as HTTP/2, and no handler learns of the
    offer."""
    async with listening() as here:
        client = await here.connect()
        assert (await client.ask(post(b"abc", *offer))).status == 200
        answer = await client.ask(get(b"/", *offer))
        assert answer.status == 200
        assert not answer.is_last
        assert_problem(await client.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400, "bad_request")
        assert await client.rest() == b""
        assert here.service.bodies == [b"abc", b""]
        names = {name for each in here.service.heads for name, _ in each.headers}
        assert not names & {b"upgrade", b"http2-settings"}


REFUSED = [
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 400, "bad_request"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "bad_request"),
    (b"GET /\r\n", 400, "bad_request"),
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


@pytest.mark.spec("P3", "G9")
@pytest.mark.parametrize("target", [b"/fault", b"/late-fault"])
async def test_an_unexpected_fault_is_a_500_without_values(target: bytes) -> None:
    async with listening() as here:
        with capture_logs() as lines:
            answer = await here.ask(post(SECRET.encode(), target=target))
        assert_problem(answer, 500, "internal_server_error")
        (line,) = lines
        assert (line["event"], line["log_level"]) == ("request_failed", "error")
        assert line["request_id"] == answer.headers["x-request-id"]
        assert "Error" in line["fault"]
        assert "http_listener.py" in line["fault"], "where it happened"
        for said in (answer.body.decode(), str(line)):
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
