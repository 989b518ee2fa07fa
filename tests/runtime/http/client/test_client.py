"""The delivery client against receivers of every kind (K2, K3, K4), one row for each.

Sockets and TLS are real; the fifteen seconds are virtual: the clock jumps when everybody waits. As
no thread is involved (the resolver is the test's own), it never jumps while something is active.
"""

from __future__ import annotations

import gzip
from functools import partial

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from mmo_sansio.http.exchange import (
    DeliveryOutcome,
    ExchangeFailure,
    ExchangeResult,
    NoResponseReceived,
)
from mmo_trio.http.client.client import HttpClient
from tests.support.hostile_receivers import (
    HOST,
    PRIVATE,
    Behaviour,
    FixedResolver,
    answers,
    answers_and_closes,
    begins_tls_only,
    callback_to,
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
    speaks_no_tls,
    trusting_context,
)

DELIVERED = DeliveryOutcome.DELIVERED
NON_2XX = DeliveryOutcome.NON_2XX
TIMEOUT = DeliveryOutcome.TIMEOUT
TRANSPORT_ERROR = DeliveryOutcome.TRANSPORT_ERROR

EMPTY_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
MEBIBYTE = 1024 * 1024
BOMB = gzip.compress(bytes(10 * MEBIBYTE))


@frozen
class Row:
    """What a receiver does, and what its delivery is recorded as."""

    name: str
    behave: Behaviour
    outcome: DeliveryOutcome
    status: int | None = None
    body: bytes = b""


def head_with(*lines: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""])


FIELD = b"X-Filler: " + b"a" * 80
ROWS = [
    Row("accepts TCP and never answers", only_accepts, TIMEOUT),
    Row("never completes TLS", begins_tls_only, TIMEOUT),
    Row("speaks no TLS", speaks_no_tls, TRANSPORT_ERROR),
    Row("reads the request and never answers", answers(), TIMEOUT),
    Row("drips one header byte a second", drips(b"a", before=head_with(b"X: ")[:-4]), TIMEOUT),
    Row("answers after 14.9 s", answers(14.9, EMPTY_OK), DELIVERED, 200),
    Row("answers after 15.1 s", answers(15.1, EMPTY_OK), TIMEOUT),
    Row("ends its head after 15.1 s", answers(EMPTY_OK[:-2], 15.1, b"\r\n"), TIMEOUT),
    Row(
        "sends its head in two halves, the second after 14.9 s",
        answers(EMPTY_OK[:9], 14.9, EMPTY_OK[9:]),
        DELIVERED,
        200,
    ),
    Row(
        "sends a 2xx head in time and a body that never ends",
        answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 14.5, b"most", 1.0, b" of it"),
        DELIVERED,
        200,
        b"most",
    ),
    Row("drips its body", drips(b"a", before=head_with()), DELIVERED, 200, b"a" * 15),
    Row(
        "2xx and an endless body",
        floods(head_with(), b"x" * 65536),
        DELIVERED,
        200,
        b"x" * MEBIBYTE,
    ),
    Row(
        "non-2xx and an endless body",
        floods(b"HTTP/1.1 500 Oops\r\n\r\n", b"x" * 65536),
        NON_2XX,
        500,
        b"x" * MEBIBYTE,
    ),
    Row(
        "an endless body in chunks of one byte",
        floods(head_with(b"Transfer-Encoding: chunked"), b"1\r\nx\r\n" * 100),
        DELIVERED,
        200,
        b"x" * 4096,
    ),
    Row(
        "a chunk that is no chunk",
        answers(head_with(b"Transfer-Encoding: chunked"), b"2\r\nok\r\nzz\r\n"),
        DELIVERED,
        200,
        b"ok",
    ),
    Row(
        "Content-Length: 10^18",
        answers(head_with(b"Content-Length: 1000000000000000000"), b"hello"),
        DELIVERED,
        200,
        b"hello",
    ),
    Row(
        "Content-Length of a thousand digits",
        answers(head_with(b"Content-Length: " + b"1" * 1000)),
        TRANSPORT_ERROR,
    ),
    Row("Content-Length: minus one", answers(head_with(b"Content-Length: -1")), TRANSPORT_ERROR),
    Row(
        "a gzip bomb",
        answers_and_closes(head_with(b"Content-Encoding: gzip") + BOMB),
        DELIVERED,
        200,
        BOMB,
    ),
    Row(
        "101 Switching Protocols",
        answers(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"),
        TRANSPORT_ERROR,
    ),
    Row(
        "one header of more than 16 KiB", answers(head_with(b"X: " + b"a" * 16384)), TRANSPORT_ERROR
    ),
    Row("an endless head", floods(b"HTTP/1.1 200 OK\r\n", FIELD + b"\r\n"), TRANSPORT_ERROR),
    Row("an endless header", floods(b"HTTP/1.1 200 OK\r\nX: ", b"a" * 65536), TRANSPORT_ERROR),
    Row("100 headers", answers(head_with(b"Content-Length: 0", *[FIELD] * 99)), DELIVERED, 200),
    Row("101 headers", answers(head_with(b"Content-Length: 0", *[FIELD] * 100)), TRANSPORT_ERROR),
    Row("a header with NUL", answers(head_with(b"X: a\x00b")), TRANSPORT_ERROR),
    Row("bare LF", answers(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"), TRANSPORT_ERROR),
    Row("one bare LF", answers(head_with(b"X: a\nY: b")), TRANSPORT_ERROR),
    Row("a bare CR", answers(head_with(b"X: a\rY: b")), TRANSPORT_ERROR),
    Row("obs-fold", answers(head_with(b"X: a", b" b")), DELIVERED, 200),
    Row("a space before the colon", answers(head_with(b"X : a")), TRANSPORT_ERROR),
    Row(
        "Content-Length and Transfer-Encoding",
        answers(head_with(b"Content-Length: 0", b"Transfer-Encoding: chunked")),
        TRANSPORT_ERROR,
    ),
    Row(
        "two Content-Lengths",
        answers(head_with(*[b"Content-Length: %d" % n for n in (0, 1)])),
        TRANSPORT_ERROR,
    ),
    Row("status 999", answers(b"HTTP/1.1 999 What\r\n\r\n"), TRANSPORT_ERROR),
    Row("status 099", answers(b"HTTP/1.1 099 What\r\n\r\n"), TRANSPORT_ERROR),
    Row("status 2000", answers(b"HTTP/1.1 2000 OK\r\n\r\n"), TRANSPORT_ERROR),
    Row("status 20", answers(b"HTTP/1.1 20 OK\r\n\r\n"), TRANSPORT_ERROR),
    Row("HTTP/0.9: a body only", answers_and_closes(b"<html>OK</html>"), TRANSPORT_ERROR),
    Row("HTTP/2 in letters", answers(b"HTTP/2 200 OK\r\n\r\n"), TRANSPORT_ERROR),
    Row("garbage", answers(bytes(range(256))), TRANSPORT_ERROR),
    Row("closes without a word", answers_and_closes(b""), TRANSPORT_ERROR),
    Row("closes within its head", answers_and_closes(EMPTY_OK[:20]), TRANSPORT_ERROR),
    Row("HTTP/1.0", answers_and_closes(b"HTTP/1.0 200 OK\r\n\r\nfine"), DELIVERED, 200, b"fine"),
    Row(
        "200 without reason", answers(b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), DELIVERED, 200
    ),
    Row("204 with a body", answers(b"HTTP/1.1 204 No\r\n\r\nbody"), DELIVERED, 204),
    *(
        Row(
            f"{status}",
            answers(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % status),
            DELIVERED,
            status,
            b"ok",
        )
        for status in (200, 201, 202, 203, 205, 206, 299)
    ),
    Row("RST before the handshake", resets_at_once, TRANSPORT_ERROR),
    Row("RST before the request", resets_after_the_handshake, TRANSPORT_ERROR),
    Row("RST after the request", resets_after_the_request, TRANSPORT_ERROR),
    Row("RST after half the head", resets_after_half_a_head, TRANSPORT_ERROR),
    Row("RST within the body", resets_after_the_head, DELIVERED, 200, b"half"),
    *(
        Row(
            f"{status} to {to}",
            answers(
                b"HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
                % (status, to.encode())
            ),
            NON_2XX,
            status,
        )
        for status, to in [
            (301, "/callbacks"),
            (302, f"http://{HOST}/"),
            (303, "http://169.254.169.254/"),
            (307, "http://169.254.169.254/latest/meta-data/"),
            (308, "//127.0.0.1/"),
        ]
    ),
    *(
        Row(
            f"{status} with Retry-After",
            answers(b"HTTP/1.1 %d X\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n" % status),
            NON_2XX,
            status,
        )
        for status in (400, 401, 403, 404, 410, 429, 500, 502, 503, 599)
    ),
    Row(
        "10 interim answers", answers(b"HTTP/1.1 103 Early\r\n\r\n" * 10, EMPTY_OK), DELIVERED, 200
    ),
    Row(
        "11 interim answers", answers(b"HTTP/1.1 103 Early\r\n\r\n" * 11, EMPTY_OK), TRANSPORT_ERROR
    ),
    Row("endless interim answers", floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), TRANSPORT_ERROR),
    Row("an interim answer only", answers(b"HTTP/1.1 102 Processing\r\n\r\n"), TIMEOUT),
    Row(
        "a head after 14.9 s of interim answers",
        answers(*(b"HTTP/1.1 102 P\r\n\r\n", 2.98) * 5, EMPTY_OK),
        DELIVERED,
        200,
    ),
]


@pytest.mark.spec("K2")
def test_an_answer_that_is_read_after_the_deadline_does_not_count() -> None:
    """As where the process was stopped meanwhile, and finds answer and deadline together."""
    stopped = MockClock()

    async def answer_while_it_is_stopped(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await trio.testing.wait_all_tasks_blocked(0.01)
        stopped.jump(15.1)
        await stream.send_all(EMPTY_OK)

    async def exchange() -> ExchangeResult:
        client = HttpClient(rules=PRIVATE)
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, answer_while_it_is_stopped, 0, host="127.0.0.1")
            (listener,) = await nursery.start(serve)
            port = listener.socket.getsockname()[1]
            request = callback_to(f"http://127.0.0.1:{port}/")
            result = await client.exchange(request, skip_egress_rules=True)
            nursery.cancel_scope.cancel()
        return result

    result = trio.run(exchange, clock=stopped)
    assert isinstance(result, NoResponseReceived)
    assert result.failure is ExchangeFailure.TIMEOUT


@pytest.mark.spec("K2", "K3", "K4")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_delivery_ends_as_its_receiver_deserves(row: Row, jumping_clock: MockClock) -> None:
    client = HttpClient(
        rules=PRIVATE, context=trusting_context(), resolver=FixedResolver(["127.0.0.1"])
    )
    async with running_receiver(row.behave, server_context()) as receiver:
        started = trio.current_time()
        attempt = await client.deliver(callback_to(receiver.url))
        assert trio.current_time() - started <= 15.0
        assert (attempt.outcome, attempt.status, attempt.body) == (
            row.outcome,
            row.status,
            row.body,
        )
        assert attempt.detail.endswith(".")
        assert "key-of-the-merchant" not in attempt.detail
        await trio.sleep(3600)
        assert receiver.connections == 1
        assert len(receiver.requests) <= 1
        assert receiver.written < 16 * MEBIBYTE
