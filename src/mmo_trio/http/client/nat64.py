"""Learns which IPv6 addresses of this network lead to a translator, which would connect to the IPv4 address within (RFC
7050): no merchant may reach a private address through it (K7)."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_address
from typing import Final

import trio

from mmo_sansio.http.ip_rules import IPV4_ONLY_NAME, nat64_prefixes
from mmo_trio.http.client.name_lookup import NameLookups

VALID_S: Final = 3600.0
"""How long the answer is used; the network may change."""
RETRY_S: Final = 60.0
"""How long no answer counts as no translator."""
LOOKUP_TIMEOUT_S: Final = 3.0
HTTPS_PORT: Final = 443


class Nat64Prefixes:
    """Keeps the prefixes of this network's translators. They are asked for when the first IPv6 address is to be judged,
    and again after an hour."""

    def __init__(self, names: NameLookups) -> None:
        self._names = names
        self._known: frozenset[IPv6Network] = frozenset()
        self._expires_at = float("-inf")

    async def current(self) -> frozenset[IPv6Network]:
        """Return the prefixes; none where there is no translator, or where the name cannot be looked up."""
        if trio.current_time() >= self._expires_at:
            valid_s = RETRY_S
            with trio.move_on_after(LOOKUP_TIMEOUT_S):
                try:
                    found = await self._names.addresses(IPV4_ONLY_NAME, HTTPS_PORT, owner=IPV4_ONLY_NAME)
                    self._known, valid_s = nat64_prefixes(map(ip_address, found)), VALID_S
                except (OSError, ValueError):
                    pass  # A network whose resolver does not know the name has no translator that it could show.
            self._expires_at = trio.current_time() + valid_s
        return self._known
