"""Reads what a trusted proxy says of a request: the client's address, the scheme and the host (A6).

This is a security boundary with one rule for every `X-Forwarded-*` field. An IPv4-mapped address is
the IPv4 address inside it. An unreadable address is never trusted, and never raises. Of a list only
the last entry counts: the trusted proxy has written it, all others may be the client's invention.
Where that entry names another trusted proxy, the entry before it counts, which that proxy has
written. Many proxies write the address alone and pass a client's own host and scheme on: these are
read where a setting says that the proxy writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from attrs import frozen

from mmo_sansio.http.ip_rules import Address, unmap_ipv4
from mmo_sansio.http.messages import RequestHead
from mmo_trio.http.handler import RequestContext
from mmo_trio.settings.sections import ListenSection
from mmo_trio.settings.values import Network

# Characters of the longest address that is read, with its zone (`%eth0`).
# `ipaddress` reads a long text slowly; an IPv6 address has 45 characters at most.
ADDRESS_LENGTH_MAX: Final = 64


@frozen
class TrustedProxies:
    """Knows the networks of the proxies in front of this gateway; a peer holds the connection."""

    networks: Sequence[Network] = ()
    write_host: bool = False
    """Whether they write `X-Forwarded-Host` and `X-Forwarded-Proto` themselves, or remove a
    client's own."""

    @classmethod
    def of(cls, listen: ListenSection) -> TrustedProxies:
        """Return the proxies that these settings name."""
        return cls(listen.proxy_trusted, listen.proxy_host)

    def is_trusted(self, peer: str) -> bool:
        """Return whether this address, as the connection shows it, belongs to a trusted proxy."""
        return bool(self.networks) and is_in_networks(parse_address(peer), self.networks)

    def client_of(self, head: RequestHead, context: RequestContext) -> str:
        """Return the address that a request counts for; behind a trusted proxy that of its client,
        if it names one."""
        return str(self.named_client(head, context) or context.client)

    def named_client(self, head: RequestHead, context: RequestContext) -> Address | None:
        """Return the address of the client that sent this request; None when it is unknown."""
        return self.client_address(
            context.client, [value.decode("latin-1") for value in head.values(b"x-forwarded-for")]
        )

    def client_address(self, peer: str, forwarded_for: Sequence[str]) -> Address | None:
        """Return the client's address; behind trusted proxies, the last one in `X-Forwarded-For`
        that is none of them.

        None when that address is missing or unreadable: the client is unknown then."""
        # 1. Whoever is no proxy of ours speaks for itself, whatever its fields say.
        if not self.is_trusted(peer):
            return parse_address(peer)

        # 2. Each trusted proxy vouches for the entry before its own.
        client = ""
        for client in _entries_from_the_end(forwarded_for):
            if not self.is_trusted(client):
                break

        return parse_address(client)

    def is_secure(self, peer: str, forwarded_proto: Sequence[str]) -> bool:
        """Return whether a trusted proxy received the request over TLS (`X-Forwarded-Proto:
        https`)."""
        return self.write_host and self.is_trusted(peer) and _last_entry(forwarded_proto) == "https"

    def requested_host(self, peer: str, head: RequestHead) -> str:
        """Return the requested host in lower case, without its port; empty when there is none."""
        host = (head.value(b"host") or b"").decode("latin-1")
        return self.host_of(
            peer, host, [value.decode("latin-1") for value in head.values(b"x-forwarded-host")]
        )

    def host_of(self, peer: str, host: str, forwarded_host: Sequence[str]) -> str:
        """Return the same, given the value of `Host` and the values of `X-Forwarded-Host`."""
        if self.write_host and self.is_trusted(peer):
            forwarded = _last_entry(forwarded_host)
        else:
            forwarded = ""
        host = (forwarded or host.strip()).lower()
        # An IPv6 address has colons, and its brackets stay.
        if host.startswith("["):
            return host.rsplit("]", 1)[0] + "]"
        return host.split(":", 1)[0].removesuffix(".")


def parse_address(text: str) -> Address | None:
    """Return the address, an IPv4-mapped one as IPv4; None for text that is not an address."""
    try:
        if len(text) <= ADDRESS_LENGTH_MAX:
            return unmap_ipv4(ip_address(text))
        return None
    except ValueError:
        return None


def is_in_networks(address: Address | None, networks: Sequence[Network]) -> bool:
    """Return whether the address lies in one of the networks; an unknown address (None) never
    does."""
    return address is not None and any(address in network for network in networks)


def _last_entry(field_values: Sequence[str]) -> str:
    return next(_entries_from_the_end(field_values), "")


def _entries_from_the_end(field_values: Sequence[str]) -> Iterator[str]:
    """Yield the entries of a list field, over all its lines (RFC 9110 section 5.3), the last one
    first."""
    for value in reversed(field_values):
        # Each is cut out when it is asked for: a client may send thousands, and one or two count.
        end = len(value)
        while end >= 0:
            begin = value.rfind(",", 0, end)
            yield value[begin + 1 : end].strip()
            end = begin
