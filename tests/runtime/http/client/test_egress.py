"""Where deliveries go (K7): whom the client dials, and what it sends there."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.http.client import client
from mmo_trio.http.client.client import USER_AGENT, HttpClient
from mmo_trio.http.client.name_lookup import Resolver
from mmo_trio.http.client.outside_network import OutsideNetwork, connect
from mmo_trio.http.streams import TransportStream
from tests.support.hostile_receivers import (
    HOST,
    PRIVATE,
    FixedResolver,
    answers,
    authority,
    callback_to,
    delivered,
    running_receiver,
    server_context,
    server_with_certificate,
    trusting_context,
)
from tests.support.time_limits import HANGS_AFTER_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PUBLIC = EgressRules()


# --- what is sent


@pytest.mark.spec("K1", "K2", "K3")
async def test_a_delivery_has_exactly_these_fields_and_this_body() -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:
        await delivered(receiver.url + "?a=%2F")
        (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    request_line, *fields = head.split(b"\r\n")
    assert request_line == b"POST /callbacks?a=%2F HTTP/1.1"
    assert dict(field.split(b": ") for field in fields) == {
        b"Host": f"{HOST}:{receiver.port}".encode(),
        b"User-Agent": USER_AGENT,
        b"Accept-Encoding": b"identity",
        b"Content-Length": b"21",
        b"Content-Type": b"application/json",
        b"X-API-KEY": b"key-of-the-merchant",
    }
    assert body == b'{"status": "success"}'


@pytest.mark.spec("K3")
async def test_a_cookie_is_not_sent_back_with_the_next_delivery() -> None:
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    async with running_receiver(answers(cookie), server_context()) as receiver:
        client = HttpClient(
            rules=PRIVATE, context=trusting_context(), resolver=FixedResolver(["127.0.0.1"])
        )
        with trio.fail_after(HANGS_AFTER_S):
            await client.deliver(callback_to(receiver.url))
            await client.deliver(callback_to(receiver.url))
        first, second = receiver.requests
        assert first == second
        assert receiver.connections == 2


@pytest.mark.spec("K7")
async def test_the_receiver_is_named_to_it_and_hosts_are_sent_as_a_labels() -> None:
    named: list[str | None] = []
    context = server_with_certificate(authority().issue_cert("xn--bcher-kva.merchant.example"))
    context.sni_callback = lambda _socket, name, _context: named.append(name)
    async with running_receiver(answers(OK), context) as receiver:
        names = FixedResolver(["127.0.0.1"])
        url = f"https://Bücher.merchant.example.:{receiver.port}/ü"
        attempt = await delivered(url, names)
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        assert names.asked == named == ["xn--bcher-kva.merchant.example"]
        assert receiver.requests[0].startswith(b"POST /%C3%BC HTTP/1.1\r\n")


@pytest.mark.spec("K7")
async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with running_receiver(answers(OK), server_context()) as receiver:
        attempt = await delivered(receiver.url)
    assert attempt.outcome is DeliveryOutcome.DELIVERED


@pytest.mark.spec("K2", "K7")
async def test_a_redirect_to_itself_is_one_request() -> None:
    redirect = b"HTTP/1.1 308 X\r\nLocation: /callbacks\r\nContent-Length: 0\r\n\r\n"
    async with running_receiver(answers(redirect), server_context()) as receiver:
        attempt = await delivered(receiver.url)
        assert (attempt.outcome, attempt.status) == (DeliveryOutcome.NON_2XX, 308)
        await trio.testing.wait_all_tasks_blocked()
        assert (len(receiver.requests), receiver.connections) == (1, 1)


# --- whom the client dials


DIALLED = {
    "row 50: a public name of a private address": ["10.0.4.17"],
    "row 50: a public name of loopback": ["127.0.0.1"],
    "row 52: a public and a private A": ["8.8.8.8", "10.0.0.1"],
    "row 52: a public A and AAAA ::1": ["8.8.8.8", "::1"],
    "row 52: private first": ["192.168.0.1", "8.8.8.8"],
    "row 53: CNAMEs into an internal zone": ["172.16.9.9"],
    "metadata": ["169.254.169.254"],
    "mapped metadata": ["::ffff:169.254.169.254"],
    "link-local with a zone": ["fe80::1%2"],
    "not an address": ["merchant.example"],
}


@pytest.mark.spec("K7")
@pytest.mark.parametrize("name", DIALLED)
async def test_any_forbidden_address_behind_a_name_refuses_the_delivery(name: str) -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:
        attempt = await delivered(receiver.url, FixedResolver(DIALLED[name]), rules=PUBLIC)
        assert attempt.outcome is DeliveryOutcome.EGRESS_REFUSED
        assert attempt.detail.endswith(".")
        assert receiver.connections == 0


@pytest.mark.spec("K7")
@pytest.mark.parametrize("bad", ["169.254.169.254", "fd00:ec2::254", "100.100.100.200"])
async def test_allow_private_still_refuses_metadata_behind_a_name(bad: str) -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:
        attempt = await delivered(receiver.url, FixedResolver(["127.0.0.1", bad]))
        assert attempt.outcome is DeliveryOutcome.EGRESS_REFUSED
        assert receiver.connections == 0


@pytest.mark.spec("K7", "C8")
@pytest.mark.parametrize(
    "url", ["http://merchant.example/", "https://localhost/", "https://10.0.0.1/", "nonsense"]
)
async def test_a_url_the_rules_refuse_is_refused_again_when_it_is_due(url: str) -> None:
    nobody = FixedResolver()
    attempt = await delivered(url, nobody, rules=PUBLIC)
    assert attempt.outcome is DeliveryOutcome.EGRESS_REFUSED
    assert nobody.asked == []


@pytest.mark.spec("K7")
async def test_row_51_a_name_is_looked_up_once_and_the_checked_address_dialled() -> None:
    rebinding = FixedResolver(["127.0.0.1"], ["169.254.169.254"])
    async with running_receiver(answers(OK), server_context()) as receiver:
        attempt = await delivered(receiver.url, rebinding)
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        assert rebinding.asked == [HOST]


@pytest.mark.spec("K7")
async def test_the_peer_is_checked_after_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:

        async def elsewhere(
            network: OutsideNetwork, _addresses: object, port: int
        ) -> TransportStream:
            return await connect(network, [IPv4Address("127.0.0.1")], port)

        monkeypatch.setattr(client, "connect", elsewhere)
        attempt = await delivered(receiver.url, FixedResolver(["127.0.0.2"]))
        assert attempt.outcome is DeliveryOutcome.EGRESS_REFUSED
        assert receiver.requests == []


class Unknown:
    """A resolver that finds nothing."""

    def __init__(self, code: int) -> None:
        self._error = socket.gaierror(code, os.strerror(2))

    async def __call__(self, host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        raise self._error


@pytest.mark.spec("K2", "K7")
@pytest.mark.parametrize(
    ("name", "resolver", "outcome"),
    [
        ("NXDOMAIN", Unknown(socket.EAI_NONAME), DeliveryOutcome.TRANSPORT_ERROR),
        ("SERVFAIL", Unknown(socket.EAI_AGAIN), DeliveryOutcome.TRANSPORT_ERROR),
        ("no address", FixedResolver([]), DeliveryOutcome.TRANSPORT_ERROR),
        ("60 s", FixedResolver(["127.0.0.1"], delay_s=60), DeliveryOutcome.TIMEOUT),
        (
            "500 addresses, the good one late",
            FixedResolver([f"127.9.{n >> 8}.{n & 255}" for n in range(500)] + ["127.0.0.1"]),
            DeliveryOutcome.TRANSPORT_ERROR,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_row_53_a_look_up_that_leads_nowhere_fails_in_time(
    name: str, resolver: Resolver, outcome: DeliveryOutcome, jumping_clock: MockClock
) -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:
        attempt = await delivered(receiver.url, resolver)
        assert trio.current_time() <= 15.0
        assert attempt.outcome is outcome
        assert receiver.connections == 0


@pytest.mark.spec("K2")
async def test_an_address_that_refuses_is_passed_over_at_once(jumping_clock: MockClock) -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:
        attempt = await delivered(receiver.url, FixedResolver(["::1", "127.0.0.2", "127.0.0.1"]))
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        assert trio.current_time() == 0


@pytest.mark.spec("K2")
async def test_an_address_that_stays_silent_is_passed_over(jumping_clock: MockClock) -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:
        with socket.socket() as silent, socket.socket() as filler:
            silent.bind(("127.0.0.3", receiver.port))
            silent.listen(0)
            filler.connect(("127.0.0.3", receiver.port))  # its queue is full now: SYNs are dropped
            attempt = await delivered(receiver.url, FixedResolver(["127.0.0.3", "127.0.0.1"]))
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        assert trio.current_time() < 15
