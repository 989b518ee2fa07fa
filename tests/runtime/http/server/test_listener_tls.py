"""The listener under TLS: the same conversation, and a certificate that can be renewed under it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress

import attrs
import pytest
import trio
import trustme
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.http.listener_limits import ListenerLimits
from tests.support.http_listener import Client, assert_problem, get, listening, post

LIMITS = ListenerLimits(handshake_timeout_s=9, idle_timeout_s=9, linger_timeout_s=9)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_side(authority: trustme.CA) -> ssl.SSLContext:
    """A context with a certificate just issued."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def tls(authority: trustme.CA) -> Callable[[], ssl.SSLContext]:
    context = server_side(authority)
    return lambda: context


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_a_connection_lives_on_under_tls(
    tls: Callable[[], ssl.SSLContext], trusting: ssl.SSLContext
) -> None:
    async with listening(LIMITS, tls) as here:
        client = await here.connect(trusting)
        assert (await client.ask(post(b"abc"))).json["length"] == 3
        assert (await client.ask(get(b"/b"))).json["target"] == "/b"
        assert all(context.is_secure for context in here.service.contexts)


async def test_a_client_that_waits_for_its_handshake_has_not_given_up(
    tls: Callable[[], ssl.SSLContext], trusting: ssl.SSLContext
) -> None:
    """It sends its request only when it is accepted, however long that takes."""
    async with listening(attrs.evolve(LIMITS, accept_timeout_s=-1.0), tls) as here:
        assert (await (await here.connect(trusting)).ask(get())).status == 200


@pytest.mark.spec("G3", "P4")
async def test_a_refusal_arrives_whole_and_is_ended_properly_while_the_client_still_sends(
    tls: Callable[[], ssl.SSLContext], trusting: ssl.SSLContext
) -> None:
    """`rest` would raise at an end without close_notify, and at a reset."""
    async with listening(LIMITS, tls) as here, trio.open_nursery() as nursery:
        client = await here.connect(trusting)
        await client.send(get(b"/", b"Content-Length: 9999999", method=b"POST"))
        nursery.start_soon(client.send, b"x" * 200_000)
        assert_problem(await client.answer(), 413, "body_too_large")
        assert await client.rest() == b""


async def test_a_client_that_stalls_the_handshake_is_cut_off(
    tls: Callable[[], ssl.SSLContext], jumping_clock: MockClock
) -> None:
    async with listening(attrs.evolve(LIMITS, handshake_timeout_s=5), tls) as here:
        silent, half = await here.connect(), await here.connect()
        await half.send(b"\x16\x03\x01\x02\x00\x01")
        assert await silent.is_closed()
        assert await half.is_closed()


async def test_a_slow_head_is_a_408_under_tls_too(
    tls: Callable[[], ssl.SSLContext], trusting: ssl.SSLContext, jumping_clock: MockClock
) -> None:
    async with listening(attrs.evolve(LIMITS, head_timeout_s=5), tls) as here:
        client = await here.connect(trusting)
        await client.send(b"GET / HT")
        assert_problem(await client.answer(), 408, "request_timeout")
        assert await client.rest() == b""


async def test_clear_http_on_a_tls_port_gets_no_answer_and_does_no_harm(
    tls: Callable[[], ssl.SSLContext], trusting: ssl.SSLContext
) -> None:
    async with listening(LIMITS, tls) as here:
        clear = await here.connect()
        await clear.send(get())
        with suppress(trio.BrokenResourceError):
            assert b"HTTP/1.1 200" not in await clear.rest()
        assert (await (await here.connect(trusting)).ask(get())).status == 200
        assert len(here.service.heads) == 1


async def test_a_renewed_certificate_serves_the_next_connection(
    authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    contexts = [server_side(authority), server_side(authority)]
    async with listening(LIMITS, iter(contexts).__next__) as here:
        certificates = []
        for client in (await here.connect(trusting), await here.connect(trusting)):
            assert (await client.ask(get())).status == 200
            certificates.append(_certificate(client))
        assert certificates[0] != certificates[1]


def _certificate(client: Client) -> object:
    assert isinstance(client.stream, trio.SSLStream)
    return client.stream.getpeercert(binary_form=True)


async def test_a_certificate_that_cannot_be_had_costs_one_connection_only(
    authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    missing = [FileNotFoundError("the new certificate is not there yet")]

    def renewed() -> ssl.SSLContext:
        if missing:
            raise missing.pop()
        return server_side(authority)

    async with listening(LIMITS, renewed) as here:
        with capture_logs() as lines:
            assert await (await here.connect()).is_closed()
        assert [line["event"] for line in lines] == ["connection_failed"]
        assert "FileNotFoundError" in lines[0]["fault"]
        assert (await (await here.connect(trusting)).ask(get())).status == 200


async def test_above_the_limit_a_tls_client_is_turned_away_without_the_cost_of_a_handshake(
    tls: Callable[[], ssl.SSLContext], trusting: ssl.SSLContext, jumping_clock: MockClock
) -> None:
    async with listening(attrs.evolve(LIMITS, connections=1), tls) as here:
        first = await here.connect(trusting)
        assert (await first.ask(get())).status == 200
        assert await (await here.connect()).is_closed()
