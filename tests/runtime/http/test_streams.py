"""Whose connection it is, by whom it counts, and how it ends."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from mmo_trio.http.streams import LingeringStream, subscriber_network
from tests.support.time_limits import HANGS_AFTER_S


async def accepted_from(family: socket.AddressFamily, listen: str, dial: str) -> LingeringStream:
    """The listener's end of one connection."""
    with trio.socket.socket(family) as listening:
        if family is socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        await listening.bind((listen, 0))
        listening.listen()
        client = await trio.open_tcp_stream(dial, listening.getsockname()[1])
        async with client:
            server, _ = await listening.accept()
            return LingeringStream(server)


async def test_the_address_is_the_clients_also_through_a_socket_for_both_families() -> None:
    stream = await accepted_from(socket.AF_INET, "127.0.0.1", "127.0.0.1")
    assert stream.peer_address() == "127.0.0.1"
    stream.close()
    assert stream.peer_address() is None
    if socket.has_ipv6:
        dual = await accepted_from(socket.AF_INET6, "::", "127.0.0.1")
        assert dual.peer_address() == "127.0.0.1"
        dual.close()


async def test_a_unix_socket_has_no_address() -> None:
    ours, theirs = trio.socket.socketpair()
    with theirs:
        stream = LingeringStream(ours)
        assert stream.peer_address() == ""
        stream.close()


async def test_the_kernel_tells_since_when_what_has_arrived_waits() -> None:
    with trio.fail_after(HANGS_AFTER_S):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        client = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        async with listener, client:
            await client.send_all(b"a request")
            stream = LingeringStream((await listener.accept()).socket)
            await trio.sleep(0.1)  # The kernel's time is not virtual.
            before = stream.seconds_since_arrival()
            assert before >= 0.09
            while stream.seconds_since_arrival() >= before:
                await client.send_all(b"more")
            stream.close()


async def test_closing_waits_until_the_client_has_closed_too() -> None:
    ours, theirs = trio.socket.socketpair()
    stream = LingeringStream(ours)
    await theirs.send(b"what nobody reads any more")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.aclose)
        with trio.fail_after(5):
            assert await theirs.recv(10) == b""
        assert stream.peer_address() == ""
        theirs.close()
    assert stream.peer_address() is None


async def test_closing_can_be_cut_short() -> None:
    ours, theirs = trio.socket.socketpair()
    with theirs:
        stream = LingeringStream(ours)
        await trio.aclose_forcefully(stream)
        assert stream.peer_address() is None


async def test_a_broken_connection_raises_trios_errors() -> None:
    ours, theirs = trio.socket.socketpair()
    stream = LingeringStream(ours)
    theirs.close()
    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"x")
    stream.close()
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()


@pytest.mark.spec("S6")
async def test_what_is_sent_promptly_leaves_before_anybody_else_s_turn() -> None:
    ours, theirs = trio.socket.socketpair()
    stream = LingeringStream(ours)
    with theirs, trio.testing.assert_no_checkpoints():
        await stream.send_all_now(b"now")
    stream.close()


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("not:an:address", "not:an:address"),
    ],
)
def test_an_ipv6_address_is_counted_by_the_network_of_its_subscriber(
    address: str, network: str
) -> None:
    assert subscriber_network(address) == network
