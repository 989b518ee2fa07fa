"""An ASGI application behind the gateway's own listener: bodies, streams, deadlines, and clients
that leave."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
import trio
from attrs import Factory, define, evolve
from quart import Response, request
from quart_trio import QuartTrio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import RequestHead
from mmo_trio.http.asgi.host import PLACES, AsgiHost
from mmo_trio.http.handler import RequestContext
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from tests.support.http_listener import (
    ERROR_DOCS,
    PATIENCE_S,
    SECRET,
    Client,
    RunningListener,
    SmallService,
    assert_problem,
    get,
    post,
)

PATIENT = ListenerLimits(
    idle_timeout_s=9, head_timeout_s=9, body_timeout_s=9, write_timeout_s=9, linger_timeout_s=9
)
LARGE = 20_000_000
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]


@define(eq=False)
class Pages:
    """A Quart-Trio app, and what its streams have seen."""

    app: QuartTrio = Factory(lambda: QuartTrio(__name__))
    go_on: trio.Event = Factory(trio.Event)
    """What the second event of `/stream` waits for."""
    stream_ended: trio.Event = Factory(trio.Event)

    def __attrs_post_init__(self) -> None:
        app = self.app

        @app.route("/echo/<path:rest>", methods=["GET", "POST"])
        async def echo(rest: str) -> Response:
            said = (
                f"{request.method} {request.scheme} {rest} {request.query_string.decode()} "
                f"{request.remote_addr}"
            )
            response = Response(f"{said} {len(await request.get_data())}")
            response.set_cookie("a", "1")
            return response

        @app.get("/large")
        async def large() -> Response:
            return Response(b"x" * LARGE, headers={"Cache-Control": "max-age=60"})

        @app.get("/large-head")
        async def large_head() -> Response:
            return Response(b"", headers={"X-Large": "x" * LARGE})

        @app.get("/stream")
        async def stream() -> Response:
            async def events() -> AsyncIterator[bytes]:
                try:
                    yield b"first"
                    await self.go_on.wait()
                    yield b"second"
                finally:
                    self.stream_ended.set()

            response = Response(events(), content_type="text/event-stream")
            response.timeout = None
            return response

        @app.get("/endless")
        async def endless() -> Response:
            async def pieces() -> AsyncIterator[bytes]:
                while True:
                    yield b"x" * 100_000

            return Response(pieces())

        @app.get("/fault-in-stream")
        async def fault() -> Response:
            async def pieces() -> AsyncIterator[bytes]:
                yield b"x"
                raise ValueError(SECRET)

            return Response(pieces())


@asynccontextmanager
async def hosting(
    app: Any, limits: ListenerLimits = PATIENT, **further: Any
) -> AsyncIterator[RunningListener]:
    """The app on a listener of its own, as long as the block lasts."""
    sockets = await trio.open_tcp_listeners(0, host="127.0.0.1")
    here = RunningListener(SmallService(), sockets[0].socket.getsockname()[1])
    ids = (f"request-{number}" for number in itertools.count())

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        context = ListenerContext(
            AsgiHost(app, 1024, **further),
            limits,
            error_docs_url=ERROR_DOCS,
            mint_request_id=ids.__next__,
            drain=here.drain,
        )
        await serve_http(context, sockets, task_status=task_status)
        here.ended.set()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            yield here
            nursery.cancel_scope.cancel()


async def test_a_page_arrives_whole_and_the_connection_goes_on() -> None:
    async with hosting(Pages().app) as here:
        client = await here.connect()
        answer = await client.ask(get(b"/echo/a%20b?c=d"))
        assert answer.body == b"GET http a b c=d 127.0.0.1 0"
        assert answer.headers["set-cookie"].startswith("a=1")
        assert answer.headers["cache-control"] == "no-store"
        assert "connection" not in answer.headers
        assert (await client.ask(post(b"12345", target=b"/echo/x"))).body.endswith(b" 5")
        head = await client.ask(get(b"/echo/x", method=b"HEAD"))
        assert (head.body, head.headers["content-length"]) == (
            b"",
            str(len(b"HEAD http x  127.0.0.1 0")),
        )
        assert (await client.ask(get(b"/nowhere"))).status == 404


async def test_a_large_page_arrives_whole_and_keeps_its_own_cache_control() -> None:
    async with hosting(Pages().app) as here:
        client = await here.connect()
        answer = await client.ask(get(b"/large"))
        assert answer.body == b"x" * LARGE
        assert answer.headers["cache-control"] == "max-age=60"
        assert (await client.ask(get(b"/echo/x"))).status == 200


async def test_a_stream_is_sent_piece_by_piece_in_chunks_and_is_the_last_response() -> None:
    pages = Pages()
    async with hosting(pages.app) as here:
        client = await here.connect()
        await client.send(get(b"/stream"))
        received = b""
        while not received.endswith(b"5\r\nfirst\r\n"):
            received += await client.stream.receive_some()
        assert b"Transfer-Encoding: chunked\r\n" in received
        assert b"Connection: close\r\n" in received
        pages.go_on.set()
        assert await client.rest() == b"6\r\nsecond\r\n0\r\n\r\n"


async def test_http_1_0_gets_a_stream_without_chunks() -> None:
    pages = Pages()
    pages.go_on.set()
    async with hosting(pages.app) as here:
        client = await here.connect()
        await client.send(b"GET /stream HTTP/1.0\r\n\r\n")
        assert (await client.rest()).endswith(b"\r\n\r\nfirstsecond")


async def test_head_of_a_stream_ends_it() -> None:
    pages = Pages()
    async with hosting(pages.app) as here:
        client = await here.connect()
        await client.send(get(b"/stream", method=b"HEAD"))
        assert (await client.rest()).endswith(b"\r\n\r\n")


async def test_a_stream_ends_when_its_client_leaves() -> None:
    pages = Pages()
    async with hosting(pages.app) as here:
        client = await here.connect()
        await client.send(get(b"/stream"))
        await client.stream.receive_some()
        await trio.aclose_forcefully(client.stream)
        await pages.stream_ended.wait()


async def test_a_stream_ends_when_its_client_sends_and_sends() -> None:
    pages = Pages()
    async with hosting(pages.app) as here:
        client = await here.connect()
        await client.send(get(b"/stream") + b"x" * 200_000)
        await pages.stream_ended.wait()


@pytest.mark.parametrize("path", [b"/large", b"/endless"])
async def test_a_client_that_does_not_read_is_sent_away(
    path: bytes, jumping_clock: MockClock
) -> None:
    async with hosting(Pages().app) as here:
        client = await here.connect()
        await client.send(get(path))
        await trio.sleep(2 * PATIENT.write_timeout_s)
        assert not (await client.rest()).endswith(b"0\r\n\r\n")


async def test_a_body_is_refused_by_its_length_and_by_its_time(jumping_clock: MockClock) -> None:
    async with hosting(Pages().app) as here:
        assert_problem(await here.ask(post(b"x" * 1025, target=b"/echo/x")), 413, "body_too_large")
        assert_problem(
            await here.ask(post(b"x" * 10, target=b"/echo/x")[:-1]), 408, "request_timeout"
        )


async def test_http2_in_the_clear_is_not_spoken() -> None:
    async with hosting(Pages().app) as here:
        assert_problem(await here.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400, "bad_request")
        upgrade = (
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAMAAABk",
        )
        answer = await here.ask(get(b"/echo/x", *upgrade))
        assert answer.status == 200
        assert b"h2c" not in answer.body


async def test_a_fault_in_a_stream_cuts_it_off_and_is_logged_without_values() -> None:
    async with hosting(Pages().app) as here:
        client = await here.connect()
        with capture_logs() as lines:
            await client.send(get(b"/fault-in-stream"))
            assert (await client.rest()).endswith(b"1\r\nx\r\n")
        (line,) = [line for line in lines if line["event"] == "connection_failed"]
        assert SECRET not in str(line)


async def silent(scope: Any, receive: Receive, send: Send) -> None:
    """Ends without a response."""


async def short(scope: Any, receive: Receive, send: Send) -> None:
    """Sends less than it says."""
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"5")]}
    )
    await send({"type": "http.response.body", "body": b"abc", "more_body": True})


async def long(scope: Any, receive: Receive, send: Send) -> None:
    """Sends more than it says."""
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"abc"})


async def splitting(scope: Any, receive: Receive, send: Send) -> None:
    """Tries to break out of a header field."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nc: d")]})
    await send({"type": "http.response.body", "body": b"abc"})


@pytest.mark.parametrize("app", [silent, splitting])
async def test_an_app_that_does_not_begin_a_response_is_a_500(app: object) -> None:
    async with hosting(app) as here:
        with capture_logs():
            assert_problem(await here.ask(get()), 500, "internal_server_error")


@pytest.mark.parametrize("app", [short, long])
async def test_an_app_that_breaks_its_own_length_loses_the_connection(app: object) -> None:
    async with hosting(app) as here:
        client = await here.connect()
        with capture_logs() as lines:
            await client.send(get())
            await client.rest()
        assert [line["event"] for line in lines] == ["connection_failed"]


async def test_drained_it_answers_what_it_has_begun() -> None:
    pages = Pages()
    async with hosting(pages.app) as here:
        busy, idle = await here.connect(), await here.connect()
        assert (await idle.ask(get(b"/echo/x"))).status == 200
        await busy.send(get(b"/stream"))
        await busy.stream.receive_some()
        here.drain.set()
        assert await idle.is_closed()
        pages.go_on.set()
        assert (await busy.rest()).endswith(b"0\r\n\r\n")
        await busy.stream.aclose()
        await here.ended.wait()


async def test_each_of_many_clients_gets_its_own_page() -> None:
    async def visit(number: int) -> None:
        client: Client = await here.connect()
        for turn in range(5):
            answer = await client.ask(get(b"/echo/%d-%d" % (number, turn)))
            assert answer.body.startswith(b"GET http %d-%d " % (number, turn))

    async with hosting(Pages().app) as here, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(visit, number)


async def test_pages_that_nobody_waits_for_are_not_made() -> None:
    made, crowded, go_on = list[str](), trio.Event(), trio.Event()

    async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        made.append(scope["path"])
        if scope["path"] == "/slow":
            crowded.set()
            await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with hosting(app) as here:
        for _ in range(PLACES):
            await (await here.connect()).send(get(b"/slow"))
        await crowded.wait()
        gone = [await here.connect() for _ in range(20)]
        for client in gone:
            await client.send(get(b"/for-nobody"))
        await wait_all_tasks_blocked()
        for client in gone:
            await client.stream.aclose()
        await wait_all_tasks_blocked()
        go_on.set()
        assert (await here.ask(get(b"/for-somebody"))).status == 200

    assert "/for-nobody" not in made


@pytest.mark.parametrize("path", [b"/large", b"/large-head"])
async def test_clients_that_do_not_read_hold_no_place(path: bytes) -> None:
    def client_of(head: RequestHead, _: RequestContext) -> str:
        return (head.value(b"x-client") or b"").decode()

    limits = evolve(PATIENT, write_timeout_s=10 * PATIENCE_S, write_buffer_bytes=2 * PLACES * LARGE)
    async with hosting(Pages().app, limits, find_client=client_of) as here:
        for number in range(PLACES):
            client = await here.connect()
            await client.send(get(path, b"X-Client: 10.0.%d.1" % number))
            await client.stream.receive_some()
        assert (await here.ask(get(b"/echo/x"))).status == 200
