"""Which addresses a connection may go to (K7), against a second list written another way."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.ip_rules import (
    FORBIDDEN_RANGES,
    address_error,
    parse_ipv4_host,
    unmap_ipv4,
)

PERMITTED_PRIVATELY = [
    ("10.0.0.0", "10.255.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("::1", "::1"),
    ("fc00::", "fd00:41:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fd00:42::", "fd00:42::41"),
    ("fd00:42::43", "fd00:ec1:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fd00:ec3::", "fd20:ce::253"),
    ("fd20:ce::255", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
]
FORBIDDEN_INSIDE_PUBLIC_SPACE = [
    ("0.0.0.0", "0.255.255.255"),
    ("100.64.0.0", "100.127.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    ("224.0.0.0", "255.255.255.255"),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
]


def number(address: str) -> int:
    return int(IPv6Address(address) if ":" in address else IPv4Address(address))


def within(value: int, spans: list[tuple[str, str]], *, version: int) -> bool:
    return any(
        number(first) <= value <= number(last)
        for first, last in spans
        if (":" in first) == (version == 6)
    )


def may_be_reached(address: IPv4Address | IPv6Address, *, allow_private: bool) -> bool:
    """The naive second opinion."""
    value, version = int(address), address.version
    if version == 6 and value >> 32 == 0xFFFF:
        value, version = value & 0xFFFFFFFF, 4
    if within(value, PERMITTED_PRIVATELY, version=version):
        return allow_private
    if version == 6 and not number("2000::") <= value <= number("3fff:" + ":".join(["ffff"] * 7)):
        return False
    return not within(value, FORBIDDEN_INSIDE_PUBLIC_SPACE, version=version)


EDGES = [
    edge + step
    for each in FORBIDDEN_RANGES
    for edge in (int(each.network.network_address), int(each.network.broadcast_address))
    for step in (-1, 0, 1)
]
VALUES = st.sampled_from(EDGES) | st.integers(0, 2**32 - 1) | st.integers(0, 2**128 - 1)
FIRST_BITS = st.integers(0, 2**16 - 1).map(lambda first: first << 112 | 0x1)
ADDRESSES = (
    VALUES.map(lambda value: IPv4Address(value % 2**32))
    | VALUES.map(lambda value: IPv6Address(value % 2**128))
    | VALUES.map(lambda value: IPv6Address(0xFFFF << 32 | value % 2**32))
    | FIRST_BITS.map(IPv6Address)
)


@pytest.mark.spec("K7")
@given(ADDRESSES, st.booleans())
def test_an_address_is_refused_exactly_when_a_second_list_refuses_it(
    address: IPv4Address | IPv6Address, allow_private: bool
) -> None:
    allowed = may_be_reached(address, allow_private=allow_private)
    assert (address_error(address, allow_private=allow_private) is None) == allowed
    assert (address_error(str(address), allow_private=allow_private) is None) == allowed


@pytest.mark.spec("K7")
@pytest.mark.parametrize("edge", sorted(set(EDGES)))
def test_both_lists_agree_on_every_edge(edge: int) -> None:
    for address in (IPv4Address(edge % 2**32), IPv6Address(edge % 2**128)):
        for allow_private in (False, True):
            refused = address_error(address, allow_private=allow_private) is not None
            assert refused != may_be_reached(address, allow_private=allow_private)


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "169.253.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "2001:200::1",
        "::ffff:8.8.8.8",
    ],
)
def test_public_addresses_may_be_reached(address: str) -> None:
    assert address_error(address, allow_private=False) is None


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.0.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
        "fe80::1",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
        "::a9fe:a9fe",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "0.0.0.0",
        "::",
        "100.64.0.1",
        "224.0.0.1",
        "ff02::1",
        "fec0::1",
    ],
)
def test_allow_private_never_permits_metadata_link_local_or_disguised_addresses(
    address: str,
) -> None:
    assert address_error(address, allow_private=True) is not None


@pytest.mark.spec("K7")
def test_what_a_resolver_gives_must_be_an_address() -> None:
    assert address_error("0177.0.0.1", allow_private=True) is not None
    assert address_error("merchant.example", allow_private=True) is not None


def test_a_fault_says_what_the_address_is_and_what_would_be_right() -> None:
    fault = address_error("10.0.4.17", allow_private=False)
    assert fault == "10.0.4.17 is a private address: only public addresses can be reached."


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("10.65535", "10.0.255.255"),
        ("1.2.65535", "1.2.255.255"),
        ("4294967295", "255.255.255.255"),
    ],
)
def test_every_spelling_of_an_ipv4_address_is_read_as_the_c_library_does(
    host: str, address: str
) -> None:
    assert parse_ipv4_host(host) == IPv4Address(address)


@pytest.mark.parametrize(
    "host",
    [
        "256.1",
        "1.256.1",
        "1.2.3.256",
        "1.2.3.4.5",
        "4294967296",
        "08",
        "1..2",
        "a.1",
        "a.0x1f",
        "9" * 5000,
        "1.65536.1",
        "-1.2",
    ],
)
def test_a_host_that_ends_in_a_number_and_is_no_address_is_no_name_either(host: str) -> None:
    with pytest.raises(ValueError):
        parse_ipv4_host(host)


@pytest.mark.parametrize("host", ["merchant.example", "1.2.3.a", "0xzz", "dead.beef"])
def test_a_name_is_not_an_address(host: str) -> None:
    assert parse_ipv4_host(host) is None


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_a_mapped_address_is_the_address_it_maps(address: IPv4Address) -> None:
    assert unmap_ipv4(IPv6Address(f"::ffff:{address}")) == address == unmap_ipv4(address)


@pytest.mark.spec("K7")
@pytest.mark.parametrize("address", ["2a00:db8::5efe:10.0.0.1", "2a00:db8::200:5efe:a00:1"])
def test_isatap_addresses_are_refused(address: str) -> None:
    assert "ISATAP" in (address_error(address, allow_private=True) or "")
    assert address_error("2a00:db8::5eff:a00:1", allow_private=False) is None
