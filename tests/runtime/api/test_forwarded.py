"""Trusted proxies: the one rule for addresses, schemes and hosts, with every former difference."""

from __future__ import annotations

import pytest

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.values.clock import MonotonicInstant
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.forwarded import TrustedProxies, is_in_networks, parse_address
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.http.handler import RequestContext
from mmo_trio.settings.values import NETWORKS
from tests.support.sqlite_store import StoreFile

PROXIES = TrustedProxies(NETWORKS.read(["10.0.0.0/8", "fd00::/8"]), write_host=True)
PROXY = "10.0.0.1"
MAPPED = "::ffff:10.0.0.1"
CLIENT = "192.0.2.7"
UNREADABLE = ["", "unknown", "<local>", "10.0.0.1:443", "10.0.0.01", "10.0.0.1 ", "%", "10.0.0.1\0"]
"""Texts that are not an address, some of which begin as a trusted one."""


def requested_host(peer: str, *fields: tuple[bytes, bytes]) -> str:
    return PROXIES.requested_host(peer, RequestHead("GET", b"/", fields))


@pytest.mark.spec("A6")
@pytest.mark.parametrize("peer", [PROXY, MAPPED, "::ffff:a00:1", "fd00::1", "fd00::1%eth0"])
def test_a_proxy_is_trusted_in_every_spelling_of_its_address(peer: str) -> None:
    assert PROXIES.is_trusted(peer)
    assert str(PROXIES.client_address(peer, [CLIENT])) == CLIENT
    assert PROXIES.is_secure(peer, ["https"])
    assert requested_host(peer, (b"x-forwarded-host", b"a.example")) == "a.example"


@pytest.mark.spec("A6")
@pytest.mark.parametrize("peer", [CLIENT, "11.0.0.1", "fe00::1", "::10.0.0.1", *UNREADABLE])
def test_any_other_peer_is_not_trusted_and_nothing_raises(peer: str) -> None:
    assert not PROXIES.is_trusted(peer)
    assert PROXIES.client_address(peer, ["198.51.100.1"]) == parse_address(peer)
    assert not PROXIES.is_secure(peer, ["https"])
    fields = ((b"host", b"b.example"), (b"x-forwarded-host", b"a.example"))
    assert requested_host(peer, *fields) == "b.example"


@pytest.mark.spec("A6")
@pytest.mark.parametrize("peer", [PROXY, "", "0.0.0.0", "::1"])
def test_without_configured_proxies_nobody_is_trusted(peer: str) -> None:
    assert not TrustedProxies().is_trusted(peer)


@pytest.mark.spec("A6")
def test_a_clients_own_host_and_scheme_are_not_believed_unless_the_proxy_writes_them() -> None:
    proxies = TrustedProxies(PROXIES.networks)
    fields = ((b"host", b"b.example"), (b"x-forwarded-host", b"a.example"))
    assert proxies.requested_host(PROXY, RequestHead("GET", b"/", fields)) == "b.example"
    assert not proxies.is_secure(PROXY, ["https"])
    assert str(proxies.client_address(PROXY, [CLIENT])) == CLIENT


@pytest.mark.parametrize("forwarded", ["", "unknown", "192.0.2.7:443", "192.0.2.07", "1, ", "%"])
def test_an_unreadable_forwarded_address_is_unknown_and_in_no_network(forwarded: str) -> None:
    address = PROXIES.client_address(PROXY, [forwarded])
    assert address is None
    assert not is_in_networks(address, NETWORKS.read(["0.0.0.0/0", "::/0"]))


def test_a_trusted_proxy_that_names_no_client_leaves_it_unknown() -> None:
    assert PROXIES.client_address(PROXY, []) is None


def test_a_forwarded_address_is_unmapped_too() -> None:
    assert str(PROXIES.client_address(PROXY, [f"::ffff:{CLIENT}"])) == CLIENT


def test_an_endless_zone_makes_an_address_unreadable() -> None:
    assert parse_address("fe80::1%" + "x" * 40) is not None
    assert parse_address("fe80::1%" + "x" * 64) is None


def test_a_chain_of_trusted_proxies_is_followed_to_its_client() -> None:
    assert str(PROXIES.client_address(PROXY, [f"198.51.100.1, {CLIENT}, 10.0.0.2"])) == CLIENT
    assert (
        str(PROXIES.client_address(PROXY, ["198.51.100.1", CLIENT, "10.0.0.2, fd00::9"])) == CLIENT
    )
    assert str(PROXIES.client_address(PROXY, ["10.0.0.3, 10.0.0.2"])) == "10.0.0.3"
    assert PROXIES.client_address(PROXY, ["198.51.100.1, unknown, 10.0.0.2"]) is None


@pytest.mark.spec("A6")
def test_of_a_list_only_the_proxys_own_entry_counts_over_all_lines() -> None:
    """The client may have sent the first entries, and whole lines, itself."""
    assert str(PROXIES.client_address(PROXY, [f"198.51.100.1, {CLIENT}"])) == CLIENT
    assert str(PROXIES.client_address(PROXY, ["198.51.100.1", f"8.8.8.8,{CLIENT}"])) == CLIENT
    assert not PROXIES.is_secure(PROXY, ["https, http"])
    assert not PROXIES.is_secure(PROXY, ["https", "http"])
    assert PROXIES.is_secure(PROXY, ["http, https"])
    for fields in ([b"evil.example, a.example"], [b"evil.example", b"a.example"]):
        lines = [(b"x-forwarded-host", each) for each in fields]
        assert requested_host(PROXY, *lines) == "a.example"


@pytest.mark.spec("A6")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"PAY.Acme.example:8443", "pay.acme.example"),
        (b"[2001:DB8::1]:8443", "[2001:db8::1]"),
        (b" pay.acme.example ", "pay.acme.example"),
        (b"", ""),
    ],
)
def test_a_host_is_compared_without_its_port(host: bytes, expected: str) -> None:
    assert requested_host(CLIENT, (b"host", host)) == expected
    assert requested_host(PROXY, (b"host", b"b.example"), (b"x-forwarded-host", host)) == (
        expected or "b.example"
    )


@pytest.mark.spec("A6")
async def test_an_unreadable_peer_does_not_break_the_check_of_the_host() -> None:
    async with StoreFile().open() as store:
        clock = MonotonicInstant(0)
        authenticator = Authenticator(
            store, KeyRing(bytes(32)), monotonic=lambda: clock, trusted_proxies=PROXIES
        )
        head = RequestHead("GET", b"/", ((b"x-forwarded-host", b"pay.acme.example"),))
        assert await authenticator.is_host_allowed(
            "bolt", head, RequestContext("r", "<local>", is_secure=False)
        )
