"""Asking providers (S6): a failure says whether the request may have been received."""

from __future__ import annotations

import gzip
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import NoResponseReceived
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_trio.http.client.client import PROVIDER_RESPONSE_BYTES_MAX, HttpClient
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.client_process import DEADLINE_S
from tests.support.hostile_receivers import (
    HOST,
    Behaviour,
    FixedResolver,
    ReceiverConnection,
    answers,
    answers_and_closes,
    begins_tls_only,
    closes_tls_without_notice,
    drips,
    floods,
    only_accepts,
    resets_after_half_a_head,
    resets_after_the_handshake,
    resets_after_the_head,
    resets_after_the_request,
    resets_at_once,
    running_receiver,
    server_context,
    trusting_context,
)
from tests.support.invalid_certificates import self_signed
from tests.support.time_limits import HANGS_AFTER_S


def client() -> HttpClient:
    """A client whose rules would refuse loopback to a merchant."""
    return HttpClient(
        rules=EgressRules(), context=trusting_context(), resolver=FixedResolver(["127.0.0.1"])
    )


def submission(url: str) -> HttpRequest:
    headers = ((b"authorization", b"Bearer token"), (b"x-reference-id", b"01J"))
    return HttpRequest("POST", url.encode(), headers, b"{}")


@pytest.mark.spec("K7")
@pytest.mark.parametrize("status", [200, 202, 302, 404, 500])
async def test_a_providers_answer_comes_back_whatever_its_status(status: int) -> None:
    raw = b"HTTP/1.1 %d X\r\nLocation: /x\r\nContent-Length: 2\r\n\r\n{}" % status
    async with running_receiver(answers(raw), server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            response = await client().call_provider(submission(receiver.url))
    headers = ((b"location", b"/x"), (b"content-length", b"2"))
    assert response == HttpResponse(status, headers, b"{}")


@pytest.mark.spec("K7")
async def test_a_provider_may_be_reached_in_the_clear_and_at_any_address() -> None:
    async def behave(visit: ReceiverConnection) -> None:
        visit.receiver.requests.append(bytes(await visit.socket.receive_some()))
        await visit.write(b"HTTP/1.1 200 OK\r\n\r\nfine")

    async with running_receiver(behave, server_context()) as receiver:
        request = HttpRequest("GET", f"http://127.0.0.1:{receiver.port}/a?b=c".encode())
        with trio.fail_after(HANGS_AFTER_S):
            response = await client().call_provider(request)
        assert response.body == b"fine"
        (head,) = receiver.requests
        assert head.startswith(b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"Content-Length" not in head


async def answers_for_ever(visit: ReceiverConnection) -> None:
    """Answers one request after the other."""
    await visit.start_tls()
    while True:
        await visit.read_request()
        await visit.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


async def answers_once(visit: ReceiverConnection) -> None:
    """Answers one request, reads a second one, and closes."""
    await visit.start_tls()
    await visit.read_request()
    await visit.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    await visit.read_request()


def question(url: str) -> HttpRequest:
    return HttpRequest("POST", url.encode(), (), b"{}")


@pytest.mark.spec("S6")
async def test_questions_share_a_connection_and_each_submission_has_its_own() -> None:
    one = client()
    async with running_receiver(answers_for_ever, server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            for _ in range(3):
                await one.ask_provider(question(receiver.url))
            assert receiver.connections == 1
            for _ in range(2):
                await one.call_provider(submission(receiver.url))
            assert receiver.connections == 3
            await one.ask_provider(question(receiver.url))
        assert (receiver.connections, len(receiver.requests)) == (3, 6)


async def test_a_question_that_meets_the_close_of_its_connection_is_asked_again() -> None:
    one = client()
    async with running_receiver(answers_once, server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            for _ in range(2):
                assert (await one.ask_provider(question(receiver.url))).body == b"{}"
        assert (receiver.connections, len(receiver.requests)) == (2, 3)


async def test_a_question_on_a_new_connection_is_asked_once() -> None:
    one = client()
    async with running_receiver(resets_after_the_request, server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(ExchangeFailed):
            await one.ask_provider(question(receiver.url))
        assert receiver.connections == 1


async def test_an_answer_may_end_where_the_connection_ends() -> None:
    async with running_receiver(closes_tls_without_notice, server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            response = await client().call_provider(submission(receiver.url))
    assert response.body == b"all of it"


async def test_an_answer_that_was_compressed_unasked_is_read() -> None:
    packed = gzip.compress(b"fine")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with running_receiver(answers_and_closes(head + packed), server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            response = await client().call_provider(submission(receiver.url))
    assert response.body == b"fine"
    assert b"Accept-Encoding: identity" in receiver.requests[0]


UNSENT: dict[str, Behaviour] = {
    "accepts only": only_accepts,
    "never completes TLS": begins_tls_only,
    "RST at once": resets_at_once,
}
PERHAPS_SENT: dict[str, Behaviour] = {
    "never answers": answers(),
    "RST before the request": resets_after_the_handshake,
    "RST after the request": resets_after_the_request,
    "RST after half the head": resets_after_half_a_head,
    "RST within the body": resets_after_the_head,
    "closes": answers_and_closes(b""),
    "garbage": answers(b"garbage"),
    "head too slow": answers(16.0, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "body too slow": drips(b"x", before=b"HTTP/1.1 200 OK\r\n\r\n"),
    "body too large": floods(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536),
}


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("behave", "may_have_arrived"),
    [pytest.param(behave, False, id=name) for name, behave in UNSENT.items()]
    + [pytest.param(behave, True, id=name) for name, behave in PERHAPS_SENT.items()],
)
async def test_a_failure_says_whether_the_request_may_have_been_received(
    behave: Behaviour, may_have_arrived: bool, jumping_clock: MockClock
) -> None:
    async with running_receiver(behave, server_context()) as receiver:
        with pytest.raises(ExchangeFailed) as failure:
            await client().call_provider(submission(receiver.url))
        assert failure.value.may_have_arrived == may_have_arrived
        assert str(failure.value).endswith(".")
        assert may_have_arrived or receiver.requests == []


@pytest.mark.spec("S6")
async def test_nothing_is_sent_to_a_provider_without_a_good_certificate() -> None:
    async with running_receiver(answers(), self_signed(HOST)) as receiver:
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(ExchangeFailed) as failure:
            await client().call_provider(submission(receiver.url))
    assert not failure.value.may_have_arrived


@pytest.mark.spec("S6")
async def test_nothing_is_sent_when_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        request = submission(f"https://{HOST}:{unused.getsockname()[1]}/")
        with (
            trio.fail_after(HANGS_AFTER_S),
            pytest.raises(ExchangeFailed, match="Connecting failed") as failure,
        ):
            await client().call_provider(request)
    assert not failure.value.may_have_arrived


@pytest.mark.spec("S6")
@pytest.mark.parametrize("url", ["ftp://provider.example/", "nonsense", "https://a b/"])
async def test_a_url_that_is_none_fails_before_anything_is_sent(url: str) -> None:
    with trio.fail_after(HANGS_AFTER_S), pytest.raises(ExchangeFailed) as failure:
        await client().call_provider(submission(url))
    assert not failure.value.may_have_arrived


@pytest.mark.spec("S6")
async def test_a_field_that_cant_be_written_fails_before_anything_is_sent() -> None:
    request = HttpRequest("POST", b"https://provider.example/", ((b"x-key", b"a\r\nb: c"),), b"")
    with (
        trio.fail_after(HANGS_AFTER_S),
        pytest.raises(ExchangeFailed, match="Writing the request") as failure,
    ):
        await client().call_provider(request)
    assert not failure.value.may_have_arrived


@pytest.mark.spec("S6")
async def test_what_was_late_when_the_process_went_on_is_not_sent(mock_clock: MockClock) -> None:
    """The process stands still just before it sends, and Trio hasn't looked at the clock since."""

    def stands_still() -> bool:
        mock_clock.jump(60)
        return True

    async with running_receiver(answers(), server_context()) as receiver:
        exchange = await client().exchange(
            submission(receiver.url), skip_egress_rules=True, may_send=stands_still
        )
    assert isinstance(exchange, NoResponseReceived)
    assert not exchange.may_have_arrived
    assert receiver.requests == []


@pytest.mark.spec("S6")
async def test_a_process_that_was_stopped_and_goes_on_sends_nothing_too_late(
    tmp_path: Path,
) -> None:
    connected, goes_on = trio.Event(), trio.Event()

    async def behave(visit: ReceiverConnection) -> None:
        connected.set()
        await goes_on.wait()
        await visit.start_tls()
        await visit.read_request()

    program = str(Path(__file__).parents[3] / "support" / "client_process.py")
    context = ensure_authority(tmp_path).issue("127.0.0.1")
    async with running_receiver(behave, context) as receiver, trio.open_nursery() as nursery:
        command = [sys.executable, program, f"https://127.0.0.1:{receiver.port}/"]
        command.append(str(tmp_path / "ca.pem"))
        with trio.fail_after(HANGS_AFTER_S):
            process: trio.Process = await nursery.start(
                partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
            )
            await connected.wait()
            process.send_signal(signal.SIGSTOP)
            await trio.sleep(DEADLINE_S)
            goes_on.set()
            process.send_signal(signal.SIGCONT)
            assert process.stdout is not None
            assert b"".join([piece async for piece in process.stdout]) == b"not sent\n"
            await process.wait()
    assert receiver.requests == []


async def test_a_call_that_is_cancelled_leaves_no_connection_behind() -> None:
    closed = trio.Event()

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        begun.set()
        assert await visit.stream.receive_some() == b""
        closed.set()

    begun = trio.Event()
    async with (
        running_receiver(behave, server_context()) as receiver,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client().call_provider, submission(receiver.url))
        with trio.fail_after(HANGS_AFTER_S):
            await begun.wait()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await closed.wait()


@pytest.mark.parametrize(
    ("size", "is_read"),
    [(PROVIDER_RESPONSE_BYTES_MAX, True), (PROVIDER_RESPONSE_BYTES_MAX + 1, False)],
)
async def test_an_answer_that_is_parsed_has_at_most_256_kib(size: int, is_read: bool) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with running_receiver(answers_and_closes(answer), server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            if is_read:
                assert len((await client().call_provider(submission(receiver.url))).body) == size
            else:
                with pytest.raises(ExchangeFailed, match="wasn't whole"):
                    await client().call_provider(submission(receiver.url))
