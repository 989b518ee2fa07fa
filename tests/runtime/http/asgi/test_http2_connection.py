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

from mmo_sansio.http.http2_frames import DATA, END_STREAM, GOAWAY
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.asgi.http2_connection import Http2Connection
from mmo_trio.http.asgi.http2_protocol import Http2Protocol
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
PING = 0x6
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


@pytest.mark.spec("C12")
@pytest.mark.parametrize("is_reset", [True, False])
async def test_who_has_left_is_known_while_the_answer_is_made(is_reset: bool) -> None:
    """For them nothing is created that has waited for long. As by HTTP/1.1, who sends no more may
    have left."""
    async with http2_listening() as here, client_of(here) as client:
        await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        (context,) = here.service.contexts
        assert not context.has_left()
        assert isinstance(client.stream, trio.SocketStream)
        if is_reset:
            await trio.aclose_forcefully(client.stream)
        else:
            await client.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        assert context.has_left()
        here.service.go_on.set()
        await here.service.done.wait()


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
    """Each gives back what its frames have cost."""
    async with http2_listening() as here, client_of(here) as client:
        for _ in range(1_005):
            assert (await client.ask(b"GET", b"/nothing", [RIGHT])).status == 204


async def test_a_fault_of_the_server_itself_ends_one_connection_and_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with http2_listening() as here, client_of(here) as neighbour, client_of(here) as client:
        assert (await neighbour.ask(b"GET", b"/", [RIGHT])).status == 200
        stream = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        with capture_logs() as lines, monkeypatch.context() as patch:
            patch.setattr(Http2Protocol, "next_events", _fail)
            await client.send_frame(PING, payload=b"12345678")
            await trio.testing.wait_all_tasks_blocked()
        assert [line["event"] for line in lines] == ["connection_failed"]
        here.service.go_on.set()
        assert (await client.answer(stream)).status == 200
        await client.wait_ended()
        assert client.goodbye == h2.errors.ErrorCodes.INTERNAL_ERROR
        assert (await neighbour.ask(b"GET", b"/", [RIGHT])).status == 200


def _fail(*_: object, **__: object) -> None:
    raise KeyError("a fault of ours")


@pytest.mark.spec("P4", "G3")
@pytest.mark.parametrize(
    "fields",
    [
        [(b":path", b"/\xff")],
        [(b":path", b"/%ff\xc3\xa9")],
        [(b"X-Capital", b"y")],
        [(b"connection", b"close")],
        [(b"content-length", b"5")],
    ],
    ids=lambda fields: repr(fields[0]),
)
async def test_a_malformed_request_is_answered_and_the_others_go_on(
    fields: list[tuple[bytes, bytes]],
) -> None:
    """RFC 9113, 8.1.1: it concerns its stream alone."""
    path = dict(fields).pop(b":path", b"/")
    more = [field for field in fields if field[0] != b":path"]
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        assert_problem(await client.ask(b"GET", path, [RIGHT, *more]), 400, "bad_request")
        here.service.go_on.set()
        assert (await client.answer(stream)).status == 200
        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200


async def test_what_was_begun_is_ended_though_the_connection_fails() -> None:
    """h2 can't go on behind a length that is no number."""
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        await client.begin(b"GET", b"/", [RIGHT, (b"content-length", b"5, 5")], ends=True)
        await trio.testing.wait_all_tasks_blocked()
        here.service.go_on.set()
        await client.wait_ended()
        assert here.service.done.is_set()
        assert client.goodbye == h2.errors.ErrorCodes.PROTOCOL_ERROR
        assert client.last_taken == stream


@pytest.mark.parametrize("body", [b"xxxxxx", b"xxxx"], ids=["longer", "shorter"])
async def test_a_body_of_another_length_ends_its_stream_and_the_others_go_on(body: bytes) -> None:
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        bad = await client.begin(b"POST", b"/", [RIGHT, (b"content-length", b"5")], ends=False)
        await client.send_frame(DATA, bad, body, END_STREAM)
        here.service.go_on.set()
        assert (await client.answer(stream)).status == 200
        assert (await client.ask(b"GET", b"/", [RIGHT])).status == 200
        assert client.resets[bad] == h2.errors.ErrorCodes.PROTOCOL_ERROR
        assert len(here.service.bodies) == 2


@pytest.mark.spec("P4")
async def test_fields_behind_a_body_are_refused_as_by_http_1() -> None:
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"POST", b"/", [RIGHT], ends=False)
        await client.send_trailers(stream, [(b"x-check", b"1")])
        assert_problem(await client.answer(stream), 400, "bad_request")
        assert here.service.bodies == []


async def test_a_client_that_waits_is_told_to_send_its_body(jumping_clock: MockClock) -> None:
    fields = [RIGHT, (b"expect", b"100-continue")]
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"POST", b"/", fields, ends=False)
        await client.wait_invited(stream)
        await client.send_body(stream, b"12345")
        assert (await client.answer(stream)).json["length"] == 5


async def test_what_was_begun_before_the_clients_goodbye_is_answered() -> None:
    """RFC 9113, 6.8: the streams that exist go on."""
    async with http2_listening() as here, client_of(here) as client:
        slow = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        upload = await client.begin(b"POST", b"/", [RIGHT], ends=False)
        await here.service.at_work.wait()
        await client.send_frame(GOAWAY, payload=bytes(8))
        await client.send_body(upload, b"12345")
        assert (await client.answer(upload)).json["length"] == 5
        here.service.go_on.set()
        assert (await client.answer(slow)).status == 200
        await client.wait_ended()
        assert (client.goodbye, client.last_taken) == (0, upload)


async def test_a_client_that_only_stops_sending_gets_its_answer() -> None:
    async with http2_listening() as here, client_of(here) as client:
        stream = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        here.service.go_on.set()
        await client.wait_ended()
        assert (await client.answer(stream)).status == 200
        assert client.goodbye == 0


@pytest.mark.spec("V1")
async def test_who_does_not_read_one_answer_still_gets_the_others(jumping_clock: MockClock) -> None:
    """Behind a proxy the others may be those of other people."""
    limits = ListenerLimits(write_timeout_s=9)
    async with http2_listening(limits) as here, client_of(here) as client:
        unread = await client.begin(b"GET", b"/large", [RIGHT], ends=True)
        other = await client.begin(b"GET", b"/wait", [RIGHT], ends=True)
        await here.service.at_work.wait()
        await trio.sleep(10)
        here.service.go_on.set()
        assert (await client.answer(other)).status == 200
        assert client.resets == {unread: h2.errors.ErrorCodes.CANCEL}


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
