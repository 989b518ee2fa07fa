"""The Quart-Trio app and its host: bodies, deadlines, faults, and connections that come and go."""

from __future__ import annotations

import gc
import itertools
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trustme
from structlog.testing import capture_logs

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.asgi.app import asgi_app
from mmo_trio.http.asgi.hypercorn_server import serve_app
from tests.support.http2_client import Http2Client
from tests.support.http_listener import (
    ERROR_DOCS,
    PATIENCE_S,
    SECRET,
    RunningListener,
    SmallService,
    assert_problem,
    get,
    open_descriptors,
    post,
    wait_for_descriptors,
)

RIGHT = (b"x-api-key", b"right")


@asynccontextmanager
async def http2_app(
    limits: ListenerLimits | None = None, *, tls: Callable[[], ssl.SSLContext] | None = None
) -> AsyncIterator[RunningListener]:
    """The app under Hypercorn with a small service behind it, as long as the block lasts."""
    limits = limits or ListenerLimits()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    here = RunningListener(SmallService(), listener.socket.getsockname()[1])
    ids = (f"request-{number}" for number in itertools.count())
    app = asgi_app(here.service, error_docs_url=ERROR_DOCS, mint_request_id=ids.__next__, limits=limits)

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        await serve_app(app, listener, limits=limits, drain=here.drain, tls=tls, task_status=task_status)
        here.ended.set()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            yield here
            nursery.cancel_scope.cancel()


@pytest.mark.spec("L3")
async def test_the_target_arrives_as_it_was_sent() -> None:
    target = b"/a%2Fb%20c+d/../e?x=%31+2&x="
    whole = get(b"http://h" + target)
    async with http2_app() as app:
        client = await Http2Client.connect(app.port)
        async with client.stream:
            answer = await client.ask(b"GET", target, [RIGHT])
        assert answer.json["target"] == target.decode()
        assert (await app.ask(get(target))).json["target"] == target.decode()
        assert (await app.ask(whole)).json["target"] == target.decode()


@pytest.mark.spec("A6")
async def test_the_service_learns_of_client_and_id() -> None:
    async with http2_app() as app:
        answer = await app.ask(get())
        (context,) = app.service.contexts
        assert context.request_id == answer.headers["x-request-id"]
        assert (context.client, context.is_secure) == ("127.0.0.1", False)


@pytest.mark.spec("P3", "G9", "A5")
@pytest.mark.parametrize("target", [b"/fault", b"/late-fault", b"/split"])
async def test_a_fault_tells_nothing(target: bytes) -> None:
    async with http2_app() as app:
        with capture_logs() as lines:
            answer = await app.ask(post(SECRET.encode(), target=target))
        assert_problem(answer, 500, "internal_server_error")
        assert answer.is_last
        assert [line["request_id"] for line in lines] == [answer.headers["x-request-id"]]
        assert SECRET not in str(lines) + answer.body.decode()


async def test_an_answer_without_content_has_no_length() -> None:
    async with http2_app() as app:
        answer = await app.ask(get(b"/nothing"))
        assert answer.status == 204
        assert "content-length" not in answer.headers


@pytest.mark.spec("P4", "G7")
async def test_a_body_is_refused_as_soon_as_it_is_too_large() -> None:
    """By its length before it comes, or in chunks while it comes."""
    async with http2_app(ListenerLimits(linger_timeout_s=0.05)) as app:
        client = await app.connect()
        await client.send(get(b"/", b"Content-Length: 65537", method=b"POST"))
        assert_problem(await client.answer(), 413, "body_too_large")
        assert await client.is_closed()
        chunked = get(b"/", b"Transfer-Encoding: chunked", method=b"POST")
        client = await app.connect()
        await client.send(chunked + b"10001\r\n" + b"x" * 65_537)
        assert_problem(await client.answer(), 413, "body_too_large")
        assert await client.is_closed()
        assert app.service.bodies == []


@pytest.mark.spec("P4", "V1")
async def test_a_body_that_does_not_come_is_a_408() -> None:
    limits = ListenerLimits(body_timeout_s=0.05, linger_timeout_s=0.05)
    async with http2_app(limits) as app:
        client = await app.connect()
        await client.send(get(b"/", b"Content-Length: 10", method=b"POST") + b"x")
        assert_problem(await client.answer(), 408, "request_timeout")
        assert await client.is_closed()


@pytest.mark.spec("A1")
async def test_a_refusal_arrives_though_a_large_body_is_still_being_sent() -> None:
    """Nothing resets the connection under the answer, and nobody waits for a full queue."""
    body = b"x" * 3_000_000
    async with http2_app() as app:
        client = await app.connect()
        head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
        await client.send(head + body)
        assert_problem(await client.answer(), 401, "unauthorized")
        again = await client.ask(get())
        assert again.status == 200

        fast = await Http2Client.connect(app.port)
        async with fast.stream:
            assert_problem(await fast.ask(b"POST", b"/", [], body), 401, "unauthorized")
            assert (await fast.ask(b"GET", b"/", [RIGHT])).status == 200


async def test_a_client_that_leaves_in_its_own_body_is_not_answered() -> None:
    async with http2_app() as app:
        client = await app.connect()
        await client.send(get(b"/", b"Content-Length: 10", method=b"POST") + b"x")
        await trio.aclose_forcefully(client.stream)
        assert (await app.ask(get())).status == 200
        assert app.service.bodies == [b""]


@pytest.mark.spec("V1")
async def test_a_client_that_does_not_read_is_sent_away() -> None:
    """Over HTTP/1.1, where the socket is full, and over HTTP/2, where it opens no window."""
    async with http2_app(ListenerLimits(write_timeout_s=0.1, linger_timeout_s=0.05)) as app:
        before = open_descriptors()
        client = await app.connect()
        await client.send(get(b"/large"))
        await wait_for_descriptors(before + 1)
        await trio.aclose_forcefully(client.stream)

        fast = await Http2Client.connect(app.port)
        async with fast.stream:
            await fast.begin(b"GET", b"/large", [RIGHT], ends=True)
            answer = await fast.ask(b"GET", b"/nothing", [RIGHT])
            assert answer.status == 204
        await wait_for_descriptors(before)


async def test_no_connection_is_left_open() -> None:
    async with http2_app() as app:
        await app.ask(get())
        gc.collect()
        before = open_descriptors()
        for _ in range(20):
            assert (await app.ask(get(b"/", b"Connection: close"))).status == 200
        await wait_for_descriptors(before)


@pytest.mark.parametrize("path", [b"/\xff", b"/%ff\xc3\xa9"])
async def test_a_connection_fails_alone(path: bytes) -> None:
    """Hypercorn itself breaks on a path beyond ASCII; the others must not notice."""
    async with http2_app() as app:
        neighbour = await app.connect()
        assert (await neighbour.ask(get())).status == 200
        fast = await Http2Client.connect(app.port)
        with capture_logs() as lines:
            async with fast.stream:
                await fast.begin(b"GET", path, [RIGHT], ends=True)
                while await fast.stream.receive_some():
                    pass
        assert "UnicodeDecodeError" in str(lines)
        assert (await neighbour.ask(get())).status == 200


async def test_body_after_its_answer_breaks_no_other_connection() -> None:
    """Hypercorn forgets a stream with its answer, and stumbles over what still comes on it."""
    async with http2_app(ListenerLimits(linger_timeout_s=0.05)) as app:
        fast = await Http2Client.connect(app.port)
        async with fast.stream:
            number = await fast.begin(b"POST", b"/", [], ends=False)
            assert (await fast.answer(number)).status == 401
            await fast.send_body(number, b"x" * 10)
            while await fast.stream.receive_some():
                pass
        assert (await app.ask(get())).status == 200


@pytest.mark.spec("V1")
async def test_idling_and_a_slow_head_are_cut_off_but_not_a_slow_answer() -> None:
    async with http2_app(ListenerLimits(idle_timeout_s=0.05)) as app:
        busy, slow, idle = await app.connect(), await app.connect(), await app.connect()
        await busy.send(get(b"/wait"))
        await app.service.at_work.wait()
        await idle.ask(get())
        await slow.send(b"GET / HTTP/1.1\r\nHost")
        assert await slow.is_closed()
        assert await idle.is_closed()
        app.service.go_on.set()
        assert (await busy.answer()).status == 200


async def test_drained_it_answers_what_it_has_begun_and_ends() -> None:
    async with http2_app() as app:
        busy, idle = await app.connect(), await app.connect()
        await idle.ask(get())
        await busy.send(get(b"/wait"))
        await app.service.at_work.wait()
        app.drain.set()
        assert await idle.is_closed()
        app.service.go_on.set()
        assert (await busy.answer()).status == 200
        await app.ended.wait()


async def test_a_client_that_does_not_read_cannot_keep_it_from_ending() -> None:
    async with http2_app(ListenerLimits(drain_timeout_s=0.05)) as app:
        client = await app.connect()
        await client.send(get(b"/large"))
        fast = await Http2Client.connect(app.port)
        async with fast.stream:
            await fast.begin(b"GET", b"/large", [RIGHT], ends=True)
            assert (await fast.ask(b"GET", b"/nothing", [RIGHT])).status == 204
            app.drain.set()
            await app.ended.wait()


UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")
WEBSOCKET = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
BELOW: dict[str, tuple[bytes, bytes]] = {
    "request line": (b"GET /\r\nHost: h\r\n\r\n", b"400 \r\ncontent-length: 0"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", b"400 \r\ncontent-length: 0"),
    "two hosts": (get(b"/", b"Host: i"), b"400 \r\ncontent-length: 0"),
    "length": (get(b"/", b"Content-Length: +3"), b"400 \r\ncontent-length: 0"),
    "coding": (get(b"/", b"Transfer-Encoding: gzip"), b"501 \r\ncontent-length: 0"),
    "large head": (b"GET / HTTP/1.1\r\nA: " + b"a" * 40_000, b"431 \r\ncontent-length: 0"),
    "bare LF": (get().replace(b"\r\n", b"\n"), b"200 \r\ncontent-type: application/json"),
    "folded": (get(b"/", b"A: b", b" c"), b"200 \r\ncontent-type: application/json"),
    "small letters": (get(method=b"get"), b"200 \r\ncontent-type: application/json"),
    "expectation": (get(b"/", b"Expect: 100-continue", b"Content-Length: 3"), b"100 \r\n"),
    "websocket": (get(b"/", *WEBSOCKET), b"404 \r\ncontent-type: text/html"),
    "upgrade to h2c": (get(b"/", *UPGRADE), b"200 \r\ncontent-type: application/json"),
}
"""The cases that docs/http2.md says Hypercorn answers by itself."""


@pytest.mark.parametrize("name", BELOW)
async def test_below_the_handler_hypercorn_answers(name: str) -> None:
    request, begin = BELOW[name]
    async with http2_app(ListenerLimits(write_timeout_s=1)) as app:
        client = await app.connect()
        await client.send(request)
        assert (await client.stream.receive_some()).startswith(b"HTTP/1.1 " + begin)
        await trio.aclose_forcefully(client.stream)


async def test_under_tls_http2_is_agreed_on() -> None:
    authority = trustme.CA()
    offering = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(offering)
    offering.set_alpn_protocols(["h2", "http/1.1"])
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    trusting.set_alpn_protocols(["h2"])
    async with http2_app(tls=lambda: offering) as app:
        tcp = await trio.open_tcp_stream("127.0.0.1", app.port)
        tls = trio.SSLStream(tcp, trusting, server_hostname="localhost", https_compatible=True)
        async with tls:
            await tls.do_handshake()
            assert tls.selected_alpn_protocol() == "h2"
            client = await Http2Client.start(tls)
            assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200
        (context,) = app.service.contexts
        assert context.is_secure
