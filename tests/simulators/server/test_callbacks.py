"""The client of an operator's callbacks against servers that answer as they are told, over real
sockets and TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme
from trio.testing import MockClock, memory_stream_pair

from mmo_sansio.http.egress_rules import UrlTarget
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values.clock import SECOND, Instant
from mmo_simulators.server.callbacks import (
    CALLBACK_TIMEOUT_S,
    RESPONSE_BYTES_MAX,
    call_back,
    system_streams,
)
from mmo_simulators.server.serving import serve
from tests.simulators.server.echo import Echo
from tests.support.time_limits import HANGS_AFTER_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def answering(
    answer: bytes, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, bytearray]]:
    """A server that answers each request so and closes, during the block: its port, and all that it
    receives."""
    received = bytearray()

    async def answer_one(stream: trio.abc.Stream) -> None:
        try:
            received.extend(await stream.receive_some())
            await stream.send_all(answer)
            await stream.aclose()
        except trio.BrokenResourceError:
            pass  # The client accepts no certificate of this server.

    [tcp] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener: trio.abc.Listener[trio.abc.Stream] = tcp
    if context is not None:
        listener = trio.SSLListener(tcp, context, https_compatible=True)
    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, answer_one, [listener])
            yield tcp.socket.getsockname()[1], received
            nursery.cancel_scope.cancel()


def a_callback(url: str) -> HttpRequest:
    """A callback to this address."""
    return HttpRequest("POST", url.encode(), ((b"content-type", b"application/json"),), b"{}")


def virtual_now() -> Instant:
    """The time of the test's clock."""
    return Instant(round(trio.current_time() * SECOND))


async def call(url: str, ca_file: Path | None = None) -> HttpResponse:
    """Send a callback to this address over the system's network."""
    return await call_back(a_callback(url), open_stream=system_streams(ca_file))


async def test_a_callback_is_sent_whole_on_a_connection_of_its_own() -> None:
    async with answering(OK) as (port, received):
        response = await call(f"http://127.0.0.1:{port}/hooks/x?y=1")
    assert (response.status, response.body) == (200, b"ok")
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    request_line, *fields = head.split(b"\r\n")
    assert (request_line, body) == (b"POST /hooks/x?y=1 HTTP/1.1", b"{}")
    assert {each.lower() for each in fields} == {
        b"host: 127.0.0.1:%d" % port,
        b"content-length: 2",
        b"connection: close",
        b"content-type: application/json",
    }


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK, (200, b"ok")),
        (
            b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
            (500, b"no"),
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", (200, b"until the end")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (
            b"HTTP/1.1 301 Moved\r\nLocation: http://other.example/\r\nContent-Length: 0\r\n\r\n",
            (301, b""),
        ),
    ],
    ids=["interim", "chunked", "HTTP/1.0", "no content", "redirect"],
)
async def test_any_whole_response_is_returned(answer: bytes, expected: tuple[int, bytes]) -> None:
    async with answering(answer) as (port, _):
        response = await call(f"http://127.0.0.1:{port}/")
    assert (response.status, response.body) == expected


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        OK[:-1],
        b"HTTP/1.0 200 OK\r\n\r\n" + (RESPONSE_BYTES_MAX + 1) * b"a",
    ],
    ids=["none", "other protocol", "broken off", "too large"],
)
async def test_no_whole_response_is_a_failure(answer: bytes) -> None:
    async with answering(answer) as (port, _):
        with pytest.raises(ExchangeFailed):
            await call(f"http://127.0.0.1:{port}/")


async def test_nobody_at_the_port_is_a_failure() -> None:
    async with answering(OK) as (port, _):
        pass
    with pytest.raises(ExchangeFailed):
        await call(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "url", ["ftp://gw.example/", "/hooks", "http://user@gw.example/", "http://gw.example/#x"]
)
async def test_an_address_that_cannot_be_called_is_a_failure(url: str) -> None:
    with pytest.raises(ExchangeFailed) as failed:
        await call(url)
    assert not failed.value.may_have_arrived


async def test_a_server_proves_its_name_by_an_authority_that_is_trusted(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with answering(OK, context) as (port, received):
        assert (await call(f"https://127.0.0.1:{port}/", tmp_path / "ca.pem")).status == 200
        received.clear()
        with pytest.raises(ExchangeFailed):
            await call(f"https://localhost:{port}/", tmp_path / "ca.pem")
        with pytest.raises(ExchangeFailed):
            await call(f"https://127.0.0.1:{port}/")
    assert received == b""


async def test_a_server_that_stays_silent_is_given_up(autojump_clock: MockClock) -> None:
    client, _server = memory_stream_pair()

    async def open_stream(target: UrlTarget) -> trio.abc.Stream:
        return client

    with pytest.raises(ExchangeFailed) as failed:
        await call_back(a_callback("http://gw.example/"), open_stream=open_stream)
    assert failed.value.may_have_arrived
    assert trio.current_time() == pytest.approx(CALLBACK_TIMEOUT_S)


async def test_what_is_due_is_called_back_and_the_simulator_learns_the_answer(
    autojump_clock: MockClock,
) -> None:
    async def send_callback(request: HttpRequest) -> HttpResponse:
        if request.target == b"http://gw.example/lost":
            await trio.sleep(15)
            raise ExchangeFailed("lost", may_have_arrived=True)
        return HttpResponse(200)

    simulator = Echo()
    simulator.callbacks.schedule(a_callback("http://gw.example/lost"), at=Instant(10 * SECOND))
    simulator.callbacks.schedule(a_callback("http://gw.example/"), at=Instant(20 * SECOND))
    async with serve(simulator, now=virtual_now, send_callback=send_callback):
        answers = []
        for moment_s in (9, 21, 26):
            await trio.sleep_until(moment_s)
            answers.append([each and each.status for each in simulator.told])
    assert answers == [[], [200], [200, None]]
