"""Decides which connections a listener takes, besides the limits on their number."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from attrs import frozen


def _no_proxy(client: str) -> bool:
    return False


@frozen
class AcceptRules:
    """Says whose connections a listener takes, and while how many descriptors are open."""

    is_proxy: Callable[[str], bool] = _no_proxy
    """Tells whether an address is that of a trusted proxy, whose connections are limited only in all."""
    only_from_proxies: bool = False
    """Whether only this machine and trusted proxies may connect: over clear HTTP nobody else can keep a secret."""
    descriptors_max: int | None = None
    """The number of open descriptors from which no connection is accepted; None where only the system limits them."""

    def permits_client(self, client: str) -> bool:
        """Return whether a client with this address may connect; the empty one is that of a Unix socket."""
        if not self.only_from_proxies or not client or self.is_proxy(client):
            return True
        return ip_address(client).is_loopback

    def has_descriptor(self, descriptor: int) -> bool:
        """Return whether a connection with this descriptor leaves enough for others.

        The system gives out the lowest free number, so all lower ones are in use."""
        return self.descriptors_max is None or descriptor < self.descriptors_max
