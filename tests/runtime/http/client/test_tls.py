"""How much is written, and when, on a connection of our own under TLS."""

from __future__ import annotations

import pytest
import trio
from attrs import evolve

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.streams import PlainStream
from tests.support.hostile_receivers import (
    HOST,
    PRIVATE,
    FixedResolver,
    ReceiverConnection,
    answers,
    callback_to,
    running_receiver,
    server_context,
    trusting_context,
)
from tests.support.time_limits import HANGS_AFTER_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def a_client() -> HttpClient:
    return HttpClient(
        rules=PRIVATE, context=trusting_context(), resolver=FixedResolver(["127.0.0.1"])
    )


async def test_the_end_of_the_handshake_and_the_request_leave_in_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    send_now = PlainStream.try_send

    def recorded(self: PlainStream, data: bytes) -> bytes:
        sent.append(len(data))
        return send_now(self, data)

    monkeypatch.setattr(PlainStream, "try_send", recorded)
    async with running_receiver(answers(OK), server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            attempt = await a_client().deliver(callback_to(receiver.url))
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        (request,) = receiver.requests
    _hello, rest = sent
    assert rest > len(request)


@pytest.mark.spec("K1")
async def test_a_request_larger_than_every_buffer_arrives_whole() -> None:
    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await trio.testing.wait_all_tasks_blocked()  # The client waits for room by now.
        await visit.read_request()
        await visit.write(OK)

    body = bytes(range(256)) * 16 * 1024
    async with running_receiver(behave, server_context()) as receiver:
        request = evolve(callback_to(receiver.url), body=body)
        with trio.fail_after(HANGS_AFTER_S):
            attempt = await a_client().deliver(request)
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        (arrived,) = receiver.requests
    assert arrived.endswith(b"\r\n\r\n" + body)
    assert HOST.encode() in arrived
