"""Says whom requests are counted by where nobody has signed in: the network of one subscriber."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address


def subscriber_network(address: str) -> str:
    """Return the network that one subscriber has, to count by: an IPv6 address by its /64, any
    other text as it is.

    An access network gives each subscriber a /64 at least (RFC 6177), so a client has 2^64
    addresses to count by."""
    # IPv4, or the empty text of a Unix socket.
    if ":" not in address:
        return address

    try:
        bits = int(IPv6Address(address.partition("%")[0]))
    except AddressValueError:
        return address

    return f"{IPv6Address(bits >> 64 << 64)}/64"
