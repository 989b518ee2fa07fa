"""Connections by HTTP/2: requests as they came, deadlines, faults, and connections that come and
go."""

from __future__ import annotations

import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import h2.errors
import pytest
import trio
import trio.testing
import trustme
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.asgi.http2_connection import Http2Connection
from tests.support.http2_client import Http2Client
from tests.support.http_listener import (
    SECRET,
    RunningListener,
    assert_problem,
    get,
    listening,
    open_descriptors,
    wait_for_descriptors,
)

RIGHT = (b"x-api-key", b"right")
http2_listening = partial(listening, open_connection=Http2Connection)


@asynccontextmanager
async def client_of(here: RunningListener) -> AsyncIterator[Http2Client]:
    """A client on a new connection, which ends with the block."""
    client = await Http2Client.connect(here.port)
    try:
        yield client
    finally:
        await trio.aclose_forcefully(client.stream)


async def is_served(here: RunningListener) -> bool:
    """Whether a new client is answered."""
    async with client_of(here) as client:
        return (await client.ask(b"GET", b"/", [RIGHT])).status == 200


@pytest.mark.spec("L3", "A6", "G9")
async def test_the_handler_learns_the_target_as_it_was_sent_and_the_client() -> None:
    target = b"/a%2Fb%20c+d/../e?x=%31+2&x="
    async with http2_listening() as here, client_of(here) as client:
        answer = await client.ask(b"GET", target, [RIGHT])
        assert answer.json["target"] == target.decode()
        (context,) = here.service.contexts
        assert context.request_id == answer.headers["x-request-id"]
        assert (context.client, context.is_secure) == ("127.0.0.1", False)


@pytest.mark.spec("P3", "G9", "A5")
@pytest.mark.parametrize("target", [b"/fault", b"/late-fault", b"/split"])
async def test_a_fault_tells_nothing(target: bytes) -> None:
    async with http2_listening() as here, client_of(here) as client:
        with capture_logs() as lines:
            answer = await client.ask(b"POST", target, [RIGHT], SECRET.encode())
        assert_problem(answer, 500, "internal_server_error")
        assert [line["request_id"] for line in lines] == [answer.headers["x-request-id"]]
        assert SECRET not in str(lines) + answer.body.decode()
        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200


async def test_an_answer_without_content_has_no_length() -> None:
    async with http2_listening() as here, client_of(here) as client:
        answer = await client.ask(b"GET", b"/nothing", [RIGHT])
        assert answer.status == 204
        assert "content-length" not in answer.headers


@pytest.mark.spec("P4", "G7")
@pytest.mark.parametrize("length", [(), ((b"content-length", b"65537"),)])
async def test_a_body_is_refused_as_soon_as_it_is_too_large(
    length: tuple[tuple[bytes, bytes], ...], jumping_clock: MockClock
) -> None:
    """By its length before it comes, or while it comes."""
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"POST", b"/", [RIGHT, *length], ends=False)
        if not length:
            await client.send_body(stream, b"x" * 65_537)
        assert_problem(await client.answer(stream), 413, "body_too_large")
        assert here.service.bodies == []


@pytest.mark.spec("P4", "V1")
async def test_a_body_that_does_not_come_is_a_408(jumping_clock: MockClock) -> None:
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"POST", b"/", [RIGHT], ends=False)
        assert_problem(await client.answer(stream), 408, "request_timeout")


@pytest.mark.spec("A1")
async def test_a_refusal_arrives_though_a_large_body_is_still_being_sent() -> None:
    """Nothing resets the connection under the answer, and nobody waits for a full queue."""
    async with http2_listening() as here, client_of(here) as client:
        assert_problem(await client.ask(b"POST", b"/", [], b"x" * 3_000_000), 401, "unauthorized")
        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200


async def test_a_client_that_leaves_in_its_own_body_is_not_answered() -> None:
    async with http2_listening() as here:
        async with client_of(here) as client:
            await client.begin(b"POST", b"/", [RIGHT], ends=False)
        assert await is_served(here)
        assert here.service.bodies == [b""]


async def test_what_was_begun_for_a_client_that_leaves_goes_on() -> None:
    async with http2_listening() as here:
        before = open_descriptors()
        async with client_of(here) as client:
            await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
            await here.service.at_work.wait()
        await trio.testing.wait_all_tasks_blocked()
        here.service.go_on.set()
        await here.service.done.wait()
        await wait_for_descriptors(before)


@pytest.mark.spec("V1")
async def test_a_client_that_opens_no_window_is_sent_away(jumping_clock: MockClock) -> None:
    async with http2_listening(ListenerLimits(write_timeout_s=9)) as here:
        before = open_descriptors()
        async with client_of(here) as client:
            await client.begin(b"GET", b"/large", [RIGHT], ends=True)
            assert (await client.ask(b"GET", b"/nothing", [RIGHT])).status == 204
            await client.wait_ended()
            await wait_for_descriptors(before + 1)


async def test_no_connection_is_left_open() -> None:
    async with http2_listening() as here:
        assert await is_served(here)
        gc.collect()
        before = open_descriptors()
        for _ in range(20):
            assert await is_served(here)
        await wait_for_descriptors(before)


async def test_a_connection_may_have_any_number_of_requests(jumping_clock: MockClock) -> None:
    """Hypercorn would drop the answers of those after the thousandth."""
    async with http2_listening() as here, client_of(here) as client:
        for _ in range(1_005):
            assert (await client.ask(b"GET", b"/nothing", [RIGHT])).status == 204


@pytest.mark.parametrize("path", [b"/\xff", b"/%ff\xc3\xa9"])
async def test_a_connection_fails_alone(path: bytes) -> None:
    """Hypercorn itself breaks on a path beyond ASCII; the others must not notice."""
    async with http2_listening() as here, client_of(here) as neighbour, client_of(here) as client:
        assert (await neighbour.ask(b"GET", b"/", [RIGHT])).status == 200
        with capture_logs() as lines:
            await client.begin(b"GET", path, [RIGHT], ends=True)
            await client.wait_ended()
        assert "UnicodeDecodeError" in str(lines)
        assert (await neighbour.ask(b"GET", b"/", [RIGHT])).status == 200


async def test_body_after_its_answer_disturbs_nothing_else_on_the_connection(
    jumping_clock: MockClock,
) -> None:
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"POST", b"/", [], ends=False)
        assert (await client.answer(stream)).status == 401
        other = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        await client.send_body(stream, b"x" * 200_000)
        here.service.go_on.set()
        assert (await client.answer(other)).status == 200


@pytest.mark.spec("V1")
async def test_idling_ends_with_a_goodbye_but_not_a_slow_answer(jumping_clock: MockClock) -> None:
    limits = ListenerLimits(idle_timeout_s=9)
    async with http2_listening(limits) as here, client_of(here) as busy, client_of(here) as idle:
        stream = await busy.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        await idle.wait_ended()
        assert idle.goodbye == 0
        here.service.go_on.set()
        assert (await busy.answer(stream)).status == 200


async def test_drained_it_answers_what_it_has_begun_says_goodbye_and_ends() -> None:
    async with http2_listening() as here, client_of(here) as busy, client_of(here) as idle:
        assert (await idle.ask(b"GET", b"/", [RIGHT])).status == 200
        stream = await busy.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        here.patience_s = 0
        here.drain.set()
        await idle.wait_ended()
        late = await busy.begin(b"GET", b"/", [RIGHT], ends=True)
        here.service.go_on.set()
        assert (await busy.answer(stream)).status == 200
        await busy.wait_ended()
        assert busy.resets == {late: h2.errors.ErrorCodes.REFUSED_STREAM}
        assert len(here.service.heads) == 2
        assert (idle.goodbye, busy.goodbye) == (0, 0)
        await here.ended.wait()


async def test_a_proxy_may_go_on_for_a_moment_after_the_drain_has_begun(
    jumping_clock: MockClock,
) -> None:
    async with http2_listening() as here, client_of(here) as client:
        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200
        here.patience_s = 9
        here.drain.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200
        await client.wait_ended()
        assert client.goodbye == 0
        await here.ended.wait()


async def test_a_client_that_does_not_read_cannot_keep_it_from_ending() -> None:
    async with (
        http2_listening(ListenerLimits(drain_timeout_s=0.05)) as here,
        client_of(here) as client,
    ):
        await client.begin(b"GET", b"/large", [RIGHT], ends=True)
        assert (await client.ask(b"GET", b"/nothing", [RIGHT])).status == 204
        here.drain.set()
        await here.ended.wait()


async def test_in_the_clear_only_http2_is_spoken() -> None:
    async with http2_listening() as here:
        client = await here.connect()
        await client.send(get())
        said = await client.rest()
        assert not said.startswith(b"HTTP/1.1")
        assert here.service.heads == []


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
async def test_under_tls_the_client_chooses(protocol: str) -> None:
    """HTTP/1.1 is that of every other listener, with its problems for malformed requests (P4)."""
    authority = trustme.CA()
    offering = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(offering)
    offering.set_alpn_protocols(["h2", "http/1.1"])
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    trusting.set_alpn_protocols([protocol])
    async with http2_listening(tls=lambda: offering) as here:
        client = await here.connect(trusting)
        tls = client.stream
        assert isinstance(tls, trio.SSLStream)
        await tls.do_handshake()
        assert tls.selected_alpn_protocol() == protocol
        if protocol == "h2":
            assert (await (await Http2Client.start(tls)).ask(b"GET", b"/", [RIGHT])).status == 200
        else:
            assert (await client.ask(get())).status == 200
            assert_problem(await client.ask(get(b"/", b"Host: i")), 400, "bad_request")
        assert here.service.contexts[0].is_secure
