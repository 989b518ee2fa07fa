"""Brands with a host of their own: on it only their keys work (clause A6)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_trio.http.handler import RequestContext
from mmo_trio.settings.values import Network
from mmo_trio.storage.interface.store import Store

HOSTS_CACHE_TTL: Span = 60 * clock.SECOND
"""How long the hosts that were read from the store are believed; as long as a verified key (A3)."""


class BrandHosts:
    """Knows which brand a host belongs to. A host that isn't configured counts as the base host."""

    def __init__(
        self,
        store: Store,
        *,
        monotonic: Callable[[], Span],
        trusted_proxies: Sequence[Network] = (),
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._trusted_proxies = trusted_proxies
        self._brand_by_host: Mapping[str, str] = {}
        self._expires_at: Span | None = None

    async def is_allowed(self, brand: str, head: RequestHead, context: RequestContext) -> bool:
        """Whether this brand's keys work on the host that the request is for. Raises StoreUnavailable."""
        now = self._monotonic()
        if self._expires_at is None or now >= self._expires_at:
            brands = [record.brand for record in await self._store.brands()]
            self._brand_by_host = {each.host.lower(): each.id for each in brands if each.host}
            self._expires_at = now + HOSTS_CACHE_TTL
        owner = self._brand_by_host.get(self._requested_host(head, context))
        return owner is None or owner == brand

    def _requested_host(self, head: RequestHead, context: RequestContext) -> str:
        """The host that was asked for, without its port; a trusted proxy may say which."""
        named = head.value(b"x-forwarded-host") if self._is_trusted_proxy(context.client) else None
        host = (named or head.value(b"host") or b"").decode("latin-1").strip().lower()
        return host.rsplit("]", 1)[0] + "]" if host.startswith("[") else host.split(":", 1)[0]

    def _is_trusted_proxy(self, client: str) -> bool:
        if not self._trusted_proxies or not client:
            return False
        address = ipaddress.ip_address(client)
        return any(address in network for network in self._trusted_proxies)
