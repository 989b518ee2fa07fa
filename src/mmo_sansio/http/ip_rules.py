"""Decides which IP addresses a merchant may make the gateway connect to (K7).

Three things are easy to get wrong. First, `ipaddress.is_global` is true for ranges that lead back
inside (NAT64, 6to4, IPv4-compatible, multicast) and for one public address that is a cloud's own
(168.63.129.16): so the ranges are listed here, each with its name, and IPv6 beyond the list is good
only inside 2000::/3, where all public addresses are (RFC 4291 section 2.4, the IANA special-purpose
registries). Second, an IPv4 address can travel inside an IPv6 one: a mapped one *is* the IPv4
address and is judged as such, every other wrapping is rejected. Third, the C library reads `127.1`,
`0177.0.0.1` and `2130706433` as addresses too: so does `parse_ipv4_host`."""

from __future__ import annotations

import re
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

from attrs import frozen

Address: TypeAlias = IPv4Address | IPv6Address

METADATA = "a cloud's metadata service"
LOOPBACK = "a loopback address"
PRIVATE = "a private address"


@frozen
class ForbiddenRange:
    """Is a range of addresses that merchants' URLs may not lead to."""

    network: IPv4Network | IPv6Network
    description: str
    """What an address in the range is, to complete the sentence `10.0.0.1 is …`."""
    private: bool = False
    """Whether `allow_private` permits the range: loopback, RFC 1918 and unique-local addresses
    (K7)."""


# The networks of each kind of address.
_NETWORKS = {
    # Metadata services first: two of them lie within ranges that allow_private permits.
    METADATA: "169.254.169.254/32 169.254.170.2/32 168.63.129.16/32 100.100.100.200/32"
    " 192.0.0.192/32 fd00:ec2::/32 fd00:42::42/128 fd20:ce::254/128",
    "an address of this host itself": "0.0.0.0/8",
    LOOPBACK: "127.0.0.0/8 ::1/128",
    PRIVATE: "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7",
    "a carrier's shared address": "100.64.0.0/10",
    "a link-local address": "169.254.0.0/16 fe80::/10",
    "an address for documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 "
    "3fff::/20",
    "a 6to4 relay": "192.88.99.0/24",
    "an address for benchmarks": "198.18.0.0/15",
    "a multicast address": "224.0.0.0/4 ff00::/8",
    "a reserved or broadcast address": "240.0.0.0/4",
    "the unspecified address": "::/128",
    "an IPv4 address in disguise (IPv4-compatible)": "::/96",
    "an IPv4 address in disguise (NAT64)": "64:ff9b::/96",
    "an IPv4 address in disguise (local NAT64)": "64:ff9b:1::/48",
    "an IPv4 address in disguise (Teredo)": "2001::/32",
    "an IPv4 address in disguise (6to4)": "2002::/16",
    # Last, as Teredo lies within.
    "reserved for protocol assignments": "192.0.0.0/24 2001::/23",
}

# Every forbidden range with a name of its own; the first that matches describes the address.
FORBIDDEN_RANGES = tuple(
    ForbiddenRange(ip_network(network), description, private=description in (LOOPBACK, PRIVATE))
    for description, networks in _NETWORKS.items()
    for network in networks.split()
)

PUBLIC_IPV6 = IPv6Network("2000::/3")

# The upper half of an ISATAP interface identifier, without its universal/local bit (RFC 5214
# section 6.1).
_ISATAP_IDENTIFIER = 0x00005EFE

# How inet_aton writes numbers, and what makes the last label of a host one.
_DECIMAL = re.compile(r"[1-9][0-9]*|0")
_OCTAL = re.compile(r"0[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-f]*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def address_error(address: str | Address, *, allow_private: bool) -> str | None:
    """Return why no connection may go to this address, in one sentence; None when it may (K7).

    `allow_private` permits loopback, private (RFC 1918) and unique-local addresses, never
    link-local ones nor a cloud's metadata service. A text must be a canonical address, as a
    resolver gives it; a zone (`%eth0`) may follow."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return "The name look-up gave something that is not an IP address."

    # `::ffff:10.0.0.1` connects to 10.0.0.1, so it is judged as that.
    address = unmap_ipv4(address)
    what = _forbidden_description(address, allow_private=allow_private)
    if what is None:
        return None

    return f"{address} is {what}: only public addresses can be reached."


def unmap_ipv4(address: Address) -> Address:
    """Return the IPv4 address inside an IPv4-mapped IPv6 one (::ffff:0:0/96), else the address
    itself."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _forbidden_description(address: Address, *, allow_private: bool) -> str | None:
    for forbidden in FORBIDDEN_RANGES:
        if address in forbidden.network:
            # The first range that matches decides: a metadata service inside a private range stays
            # forbidden.
            if forbidden.private and allow_private:
                return None
            return forbidden.description

    # ISATAP carries an IPv4 address in the lowest 32 bits, in whatever network.
    if isinstance(address, IPv6Address) and (int(address) >> 32) & 0xFDFFFFFF == _ISATAP_IDENTIFIER:
        return "an IPv4 address in disguise (ISATAP)"
    if isinstance(address, IPv6Address) and address not in PUBLIC_IPV6:
        return "outside the public IPv6 space (2000::/3)"
    return None


def parse_ipv4_host(host: str) -> IPv4Address | None:
    """Return the IPv4 address that this lower-case host spells, in any of inet_aton's ways; None
    for a name.

    It has one to four numbers, each decimal, octal (`0…`) or hexadecimal (`0x…`), the last filling
    the bytes that are left. A host whose last label is a number is never a name (the URL standard's
    "ends in a number"): raises ValueError when it is no address either."""
    parts = host.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None

    numbers = [_parse_number(part) for part in parts]

    # `1.2.3.4.5`, or a number too large for its one byte.
    if len(numbers) > 4 or any(number > 255 for number in numbers[:-1]):
        raise AddressValueError(host)

    # The last number fills what the others leave: three bytes in `127.1`, all four in `2130706433`.
    value = numbers[-1]
    if value >= 256 ** (5 - len(numbers)):
        raise AddressValueError(host)

    # The others are the first bytes, from the left.
    for index, number in enumerate(numbers[:-1]):
        value += number << (8 * (3 - index))

    return IPv4Address(value)


def _parse_number(part: str) -> int:
    if _DECIMAL.fullmatch(part):
        return int(part)
    if _OCTAL.fullmatch(part):
        return int(part, 8)
    if _HEXADECIMAL.fullmatch(part):
        return int(part[2:] or "0", 16)
    raise AddressValueError(part)
