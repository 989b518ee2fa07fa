"""Connections that are kept for the next callback (K2, K3, K7): when they are, and what is checked
before."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.http.response_reader import ResponseHeadReader
from mmo_trio.http.client import kept_connections
from mmo_trio.http.client.client import HttpClient, SendForbidden
from mmo_trio.http.client.kept_connections import age_max_s, keep_time_s
from tests.support.hostile_receivers import (
    PRIVATE,
    FixedResolver,
    ReceiverConnection,
    callback_to,
    running_receiver,
    server_context,
    trusting_context,
)
from tests.support.time_limits import HANGS_AFTER_S

KEEPS = b"HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=5, max=100\r\n\r\n"


class Keeper:
    """Answers one request after the other on each connection; counts both."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers or (KEEPS,)
        self.answered = 0

    async def behave(self, visit: ReceiverConnection) -> None:
        await visit.start_tls()
        while True:
            await visit.read_request()
            self.answered += 1
            await visit.write(self._answers[min(self.answered, len(self._answers)) - 1])


def a_client() -> HttpClient:
    return HttpClient(
        rules=PRIVATE, context=trusting_context(), resolver=FixedResolver(["127.0.0.1"])
    )


async def delivered(client: HttpClient, url: str, *, brand: str = "acme") -> None:
    with trio.fail_after(HANGS_AFTER_S):
        attempt = await client.deliver(callback_to(url), brand=brand)
    assert attempt.outcome is DeliveryOutcome.DELIVERED, attempt


@pytest.mark.spec("K3")
async def test_the_next_callback_travels_on_the_connection_that_its_receiver_keeps() -> None:
    client, keeper = a_client(), Keeper()
    async with running_receiver(keeper.behave, server_context()) as receiver:
        for _ in range(5):
            await delivered(client, receiver.url)
        assert (receiver.connections, len(receiver.requests)) == (1, 5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=1\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nKeep-Alive: max=5\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=5\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=5\r\nConnection: x, Close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5\r\nConnection: "
        b"keep-alive\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nKeep-Alive: timeout=5\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n0\r\n\r\n",
    ],
    ids=[
        "silence",
        "no time",
        "short",
        "no timeout",
        "closes",
        "closes too",
        "http 1.0",
        "excess",
        "chunked",
    ],
)
async def test_no_connection_is_kept_whose_receiver_does_not_promise_it(answer: bytes) -> None:
    client, keeper = a_client(), Keeper(answer)
    async with running_receiver(keeper.behave, server_context()) as receiver:
        for _ in range(2):
            await delivered(client, receiver.url)
        assert receiver.connections == 2


async def test_no_connection_is_kept_after_another_answer_than_2xx() -> None:
    client, keeper = (
        a_client(),
        Keeper(KEEPS.replace(b"204 No Content", b"503 Busy\r\nContent-Length: 0"), KEEPS),
    )
    async with running_receiver(keeper.behave, server_context()) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            attempt = await client.deliver(callback_to(receiver.url), brand="acme")
        assert attempt.outcome is DeliveryOutcome.NON_2XX
        await delivered(client, receiver.url)
        assert receiver.connections == 2


@pytest.mark.spec("K7")
async def test_each_brand_has_connections_of_its_own() -> None:
    client, keeper = a_client(), Keeper()
    async with running_receiver(keeper.behave, server_context()) as receiver:
        for brand in ("acme", "shop", "acme", "shop"):
            await delivered(client, receiver.url, brand=brand)
        assert receiver.connections == 2


@pytest.mark.spec("K3")
async def test_a_connection_that_its_receiver_has_closed_meanwhile_is_replaced() -> None:
    async def closes_early(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await visit.write(KEEPS)
        visit.socket.socket.close()

    client = a_client()
    async with running_receiver(closes_early, server_context()) as receiver:
        for _ in range(3):
            await delivered(client, receiver.url)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert (receiver.connections, len(receiver.requests)) == (3, 3)


@pytest.mark.spec("K3")
async def test_a_kept_connection_on_which_something_waits_is_replaced() -> None:
    async def chatters(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await visit.write(KEEPS)
        await visit.write(KEEPS)
        await trio.sleep_forever()

    client = a_client()
    async with running_receiver(chatters, server_context()) as receiver:
        for _ in range(2):
            await delivered(client, receiver.url)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert receiver.connections == 2


@pytest.mark.spec("K3")
async def test_a_request_that_meets_the_close_is_not_sent_again() -> None:
    async def leaves_the_second(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await visit.write(KEEPS)
        await visit.read_request()

    client = a_client()
    async with running_receiver(leaves_the_second, server_context()) as receiver:
        await delivered(client, receiver.url)
        with trio.fail_after(HANGS_AFTER_S):
            attempt = await client.deliver(callback_to(receiver.url), brand="acme")
        assert attempt.outcome is DeliveryOutcome.TRANSPORT_ERROR
        assert "had served an earlier request" in attempt.detail
        assert (receiver.connections, len(receiver.requests)) == (1, 2)


@pytest.mark.spec("K3")
async def test_sending_on_a_kept_connection_needs_permission_too() -> None:
    client, keeper = a_client(), Keeper()
    async with running_receiver(keeper.behave, server_context()) as receiver:
        await delivered(client, receiver.url)
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(SendForbidden):
            await client.deliver(callback_to(receiver.url), brand="acme", may_send=lambda: False)
        assert len(receiver.requests) == 1


@pytest.mark.spec("K7")
async def test_an_old_connection_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    client, keeper = a_client(), Keeper()
    async with running_receiver(keeper.behave, server_context()) as receiver:
        await delivered(client, receiver.url)
        monkeypatch.setattr(kept_connections, "AGE_MAX_S", 0.0)
        await delivered(client, receiver.url)
        assert receiver.connections == 2


@pytest.mark.spec("K7")
async def test_each_connection_is_replaced_after_five_to_ten_seconds(
    mock_clock: trio.testing.MockClock,
) -> None:
    client, keeper = a_client(), Keeper()
    brands = [f"brand-{number}" for number in range(8)]
    async with running_receiver(keeper.behave, server_context()) as receiver:
        opened = []
        for _ in range(6):
            for brand in brands:
                await delivered(client, receiver.url, brand=brand)
            opened.append(receiver.connections)
            mock_clock.jump(2.0)
        assert (opened[:3], opened[-1]) == ([8, 8, 8], 16)


def test_connections_that_were_opened_together_are_not_replaced_together() -> None:
    ages = [age_max_s(descriptor) for descriptor in range(40, 48)]
    assert len(set(ages)) == len(ages)
    assert 5 < min(ages) < max(ages) == 10


@pytest.mark.spec("K3")
async def test_an_idle_connection_is_used_for_half_of_the_time_that_its_receiver_announces(
    mock_clock: trio.testing.MockClock,
) -> None:
    client, keeper = a_client(), Keeper()
    async with running_receiver(keeper.behave, server_context()) as receiver:
        for idle_s, connections in ((0.0, 1), (2.4, 1), (2.4, 1), (2.6, 2), (2.4, 2)):
            mock_clock.jump(idle_s)
            await delivered(client, receiver.url)
            assert receiver.connections == connections


@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("announced_s", "kept_s"),
    [(1, 0.0), (2, 0.5), (3, 1.5), (4, 2.0), (5, 2.5), (10, 5.0), (75, 5.0), (999_999, 5.0)],
)
def test_a_connection_is_kept_for_much_less_than_its_receiver_announces(
    announced_s: int, kept_s: float
) -> None:
    final = ResponseHeadReader().receive(KEEPS.replace(b"timeout=5", b"timeout=%d" % announced_s))
    assert final is not None
    assert keep_time_s(final, is_question=False) == kept_s


async def test_idle_connections_are_closed_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_connections, "IDLE_MAX_S", 0.01)
    monkeypatch.setattr(kept_connections, "SWEEP_INTERVAL_S", 0.01)
    client, ended = a_client(), trio.Event()

    async def waits_for_the_end(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await visit.write(KEEPS)
        await visit.socket.receive_some()
        ended.set()

    async with running_receiver(waits_for_the_end, server_context()) as receiver:
        await delivered(client, receiver.url)
        with trio.fail_after(HANGS_AFTER_S):
            await ended.wait()


async def test_there_is_a_most_of_idle_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_connections, "KEPT_MAX", 2)
    client, keeper = a_client(), Keeper()
    async with running_receiver(keeper.behave, server_context()) as receiver:
        for brand in ("one", "two", "three", "three", "two", "one"):
            await delivered(client, receiver.url, brand=brand)
        assert receiver.connections == 4


async def test_of_too_many_idle_connections_the_one_that_has_waited_longest_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_connections, "KEPT_MAX", 2)
    client, keeper = a_client(), Keeper()
    async with running_receiver(keeper.behave, server_context()) as receiver:
        for brand in ("one", "two", "one", "three", "one"):
            await delivered(client, receiver.url, brand=brand)
        assert receiver.connections == 3
        await delivered(client, receiver.url, brand="two")
        assert receiver.connections == 4
