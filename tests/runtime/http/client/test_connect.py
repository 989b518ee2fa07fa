"""Looking up names and connecting to the first address that answers (K2, K6)."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, ip_address

import pytest
import trio

from mmo_trio.http.client.connect import SystemResolver, connect, interleave_families


def test_families_take_turns() -> None:
    addresses = [ip_address(each) for each in ("::1", "::2", "::3", "10.0.0.1", "10.0.0.2")]
    assert [str(each) for each in interleave_families(addresses)] == ["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"]


async def test_dialling_nobody_says_the_first_reason() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with trio.fail_after(30), pytest.raises(ConnectionRefusedError):
            await connect([IPv4Address("127.0.0.1")], unused.getsockname()[1])


async def test_the_systems_resolver_knows_localhost_while_other_threads_are_busy() -> None:
    everyone = trio.to_thread.current_default_thread_limiter()
    for number in range(int(everyone.total_tokens)):
        everyone.acquire_on_behalf_of_nowait(number)
    try:
        with trio.fail_after(30):
            assert "127.0.0.1" in await SystemResolver()("localhost", 443)
    finally:
        for number in range(int(everyone.total_tokens)):
            everyone.release_on_behalf_of(number)
