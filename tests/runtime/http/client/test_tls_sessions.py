"""Second handshakes with a receiver: what is spared, and what is checked all the same."""

from __future__ import annotations

import ssl

import pytest
import trio

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.http.client import outside_network
from mmo_trio.http.client.client import HttpClient
from tests.support.hostile_receivers import (
    HOST,
    PRIVATE,
    FixedResolver,
    ReceiverConnection,
    authority,
    callback_to,
    running_receiver,
    server_with_certificate,
    trusting_context,
)
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Receiver:
    """Answers, and remembers which handshakes went on with a session."""

    def __init__(self) -> None:
        self.resumed: list[bool | None] = []

    async def behave(self, visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        assert isinstance(visit.stream, trio.SSLStream)
        self.resumed.append(visit.stream.session_reused)
        await visit.write(OK)


def a_client() -> HttpClient:
    return HttpClient(
        rules=PRIVATE, context=trusting_context(), resolver=FixedResolver(["127.0.0.1"])
    )


def shown_by(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = server_with_certificate(authority().issue_cert(HOST))
    context.maximum_version = version
    return context


@pytest.mark.spec("K7")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_next_callback_goes_on_with_the_session(version: ssl.TLSVersion) -> None:
    client, receiver = a_client(), Receiver()
    async with running_receiver(receiver.behave, shown_by(version)) as here:
        for _ in range(3):
            with trio.fail_after(HANGS_AFTER_S):
                attempt = await client.deliver(callback_to(here.url))
            assert attempt.outcome is DeliveryOutcome.DELIVERED
    assert receiver.resumed == [False, True, True]


@pytest.mark.spec("K7")
async def test_a_certificate_is_looked_at_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outside_network, "SESSION_LIFETIME_S", -1)
    client, receiver = a_client(), Receiver()
    async with running_receiver(receiver.behave, shown_by(ssl.TLSVersion.TLSv1_3)) as here:
        for _ in range(2):
            with trio.fail_after(HANGS_AFTER_S):
                await client.deliver(callback_to(here.url))
    assert receiver.resumed == [False, False]


@pytest.mark.spec("K7")
async def test_another_server_in_its_place_must_prove_itself() -> None:
    client, receiver = a_client(), Receiver()
    other_server = server_with_certificate(authority().issue_cert("merchant.example"))
    with reserved_port() as port, trio.fail_after(HANGS_AFTER_S):
        async with running_receiver(
            receiver.behave, shown_by(ssl.TLSVersion.TLSv1_3), port=port
        ) as here:
            await client.deliver(callback_to(here.url))
        async with running_receiver(receiver.behave, other_server, port=port) as here:
            attempt = await client.deliver(callback_to(here.url))
    assert attempt.outcome is DeliveryOutcome.TRANSPORT_ERROR
    assert "Hostname mismatch" in attempt.detail
    assert receiver.resumed == [False]
