"""Looking up names and connecting to the first address that answers (K2, K6)."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, ip_address

import pytest
import trio

from mmo_trio.http.client.client import tls_context
from mmo_trio.http.client.outside_network import SystemNetwork, connect, interleave_families
from tests.support.time_limits import HANGS_AFTER_S


def test_families_take_turns() -> None:
    addresses = [ip_address(each) for each in ("::1", "::2", "::3", "10.0.0.1", "10.0.0.2")]
    assert [str(each) for each in interleave_families(addresses)] == [
        "::1",
        "10.0.0.1",
        "::2",
        "10.0.0.2",
        "::3",
    ]


async def test_dialling_nobody_says_the_first_reason() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(ConnectionRefusedError):
            await connect(
                SystemNetwork(tls_context()), [IPv4Address("127.0.0.1")], unused.getsockname()[1]
            )
