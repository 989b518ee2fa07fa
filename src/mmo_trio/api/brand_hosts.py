"""Restricts the host of a brand to the keys of that brand (clause A6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.values import clock
from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.http.handler import RequestContext
from mmo_trio.storage.interface.store import Store

HOSTS_CACHE_TTL = Span(60 * clock.SECOND)
"""How long the hosts of the store are cached: as long as a verified key (A3)."""


class BrandHosts:
    """Knows which brand a host belongs to; every other host counts as the base host."""

    def __init__(
        self,
        store: Store,
        known: KnownConfiguration,
        *,
        monotonic: Callable[[], MonotonicInstant],
        trusted_proxies: TrustedProxies,
    ) -> None:
        self._store = store
        self._known = known
        self._monotonic = monotonic
        self._trusted_proxies = trusted_proxies
        self._brand_by_host: Mapping[str, str] = {}
        self._generation: int | None = None
        """The generation of the brands before the hosts were read; None before the first read."""
        self.expires_at = MonotonicInstant(0)
        """Until when the hosts are known."""

    async def is_allowed(self, brand: str, head: RequestHead, context: RequestContext) -> bool:
        """Return whether this brand's keys work on the requested host. Raises StoreUnavailable."""
        now = self._monotonic()
        generation = self._known.generation
        if generation != self._generation or now >= self.expires_at or now >= self._known.trusted_until:
            brands = [record.brand for record in await self._store.admin.brands()]
            self._brand_by_host = {each.host.lower(): each.id for each in brands if each.host}
            self._generation, self.expires_at = generation, later(now, HOSTS_CACHE_TTL)
        if not self._brand_by_host:
            return True
        owner = self._brand_by_host.get(self._trusted_proxies.requested_host(context.client, head))
        return owner is None or owner == brand
