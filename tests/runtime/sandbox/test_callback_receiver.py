"""The receiver behind `mmo listen` and the demo: it believes what it should, once, over real
TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import define, field

from mmo_sansio.api.outgoing import callback_request
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.testing import REFERENCE, a_transaction
from mmo_sansio.values.model import Stage
from mmo_trio.http.client.client import HttpClient
from mmo_trio.sandbox.callback_receiver import ReceivedRequest, receive_callbacks
from tests.support.hostile_receivers import (
    HOST,
    PRIVATE,
    FixedResolver,
    server_context,
    trusting_context,
)
from tests.support.receivers import sort_requests
from tests.support.time_limits import HANGS_AFTER_S

KEY = b"key-of-acme"


@define(eq=False)
class Endpoint:
    """A running receiver, and what it handed on."""

    url: str
    received: list[ReceivedRequest] = field(factory=list)
    faults: int = 0
    """How often handing on fails before it works."""

    def on_request(self, received: ReceivedRequest) -> None:
        if self.faults:
            self.faults -= 1
            raise RuntimeError("the printer is on fire")
        sort_requests(self.received)(received)

    async def call(self, key: bytes = KEY, *, body: bytes | None = None) -> DeliveryAttempt:
        """A callback with this key, by the client that makes them in earnest."""
        genuine = callback_request(a_transaction(Stage.SUCCEEDED, result_url=self.url), key)
        given = genuine.body if body is None else body
        return await self.send(HttpRequest(genuine.method, genuine.target, genuine.headers, given))

    async def send(self, request: HttpRequest) -> DeliveryAttempt:
        client = HttpClient(
            rules=PRIVATE, context=trusting_context(), resolver=FixedResolver(["127.0.0.1"])
        )
        with trio.fail_after(HANGS_AFTER_S):
            return await client.deliver(request)


@asynccontextmanager
async def listening() -> AsyncIterator[Endpoint]:
    """A receiver that runs while the block does."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    endpoint = Endpoint(f"https://{HOST}:{port}/callbacks")

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        await receive_callbacks(
            listeners,
            tls=server_context,
            expected_keys=[b"another", KEY],
            on_request=endpoint.on_request,
            task_status=task_status,
        )

    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        yield endpoint
        nursery.cancel_scope.cancel()


@pytest.mark.spec("K1")
async def test_a_genuine_callback_is_handed_on_and_answered_204() -> None:
    async with listening() as endpoint:
        attempt = await endpoint.call()
    assert (attempt.outcome, attempt.status) == (DeliveryOutcome.DELIVERED, 204)
    (received,) = endpoint.received
    assert received.gateway_reference == REFERENCE
    assert received.content["status"] == "success"
    assert received.content["requestedAmount"]["currency"] == "KES"
    assert received.body.startswith(b'{"status":"success"')


@pytest.mark.spec("K1", "A1")
@pytest.mark.parametrize(
    "key",
    [b"key-of-other", b"", b"key-of-acm", b"key-of-acme2", "schlüssel".encode()],
    ids=["another", "empty", "a part", "more", "not ASCII"],
)
async def test_a_callback_with_a_wrong_key_is_answered_401_and_not_handed_on(key: bytes) -> None:
    async with listening() as endpoint:
        assert (await endpoint.call(key)).status == 401
    assert not endpoint.received


@pytest.mark.spec("K1")
async def test_a_callback_without_a_key_is_answered_401_and_not_handed_on() -> None:
    async with listening() as endpoint:
        request = HttpRequest("POST", endpoint.url.encode(), (), b"{}")
        assert (await endpoint.send(request)).status == 401
    assert not endpoint.received


@pytest.mark.spec("K3")
async def test_a_callback_that_arrives_twice_is_handed_on_once() -> None:
    async with listening() as endpoint:
        assert (await endpoint.call()).status == 204
        assert (await endpoint.call()).status == 204
    assert len(endpoint.received) == 1


@pytest.mark.spec("K3")
async def test_a_callback_that_could_not_be_handed_on_has_not_arrived() -> None:
    async with listening() as endpoint:
        endpoint.faults = 1
        assert (await endpoint.call()).status == 500
        assert (await endpoint.call()).status == 204
    assert len(endpoint.received) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"not JSON", b"[]", b"{}", b'{"gatewayReference": 1}', b"[" * 100_000, b"\xff"],
    ids=["empty", "no JSON", "no object", "no reference", "a number", "deep", "no UTF-8"],
)
async def test_a_body_that_is_no_transaction_is_answered_400(body: bytes) -> None:
    async with listening() as endpoint:
        assert (await endpoint.call(body=body)).status == 400
    assert not endpoint.received


async def test_anything_but_post_is_answered_405() -> None:
    async with listening() as endpoint:
        request = HttpRequest("GET", endpoint.url.encode(), ((b"x-api-key", KEY),))
        assert (await endpoint.send(request)).status == 405
