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

REMEMBERED: Span = 60 * clock.SECOND
"""How long the hosts that were read from the store are believed; as long as a verified key (A3)."""


class Hosts:
    """Knows which brand a host belongs to. A host that isn't configured counts as the base host."""

    def __init__(
        self, store: Store, *, monotonic: Callable[[], Span], proxies: Sequence[Network] = ()
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._proxies = proxies
        self._owners: Mapping[str, str] = {}
        self._until: Span | None = None

    async def is_open_to(self, brand: str, head: RequestHead, context: RequestContext) -> bool:
        """Whether this brand's keys work on the host that the request is for. Raises StoreUnavailable."""
        now = self._monotonic()
        if self._until is None or now >= self._until:
            brands = [record.brand for record in await self._store.brands()]
            self._owners = {each.host.lower(): each.id for each in brands if each.host}
            self._until = now + REMEMBERED
        owner = self._owners.get(self._host(head, context))
        return owner is None or owner == brand

    def _host(self, head: RequestHead, context: RequestContext) -> str:
        """The host that was asked for, without its port; a trusted proxy may say which."""
        named = head.value(b"x-forwarded-host") if self._trusts(context.client) else None
        host = (named or head.value(b"host") or b"").decode("latin-1").strip().lower()
        return host.rsplit("]", 1)[0] + "]" if host.startswith("[") else host.split(":", 1)[0]

    def _trusts(self, client: str) -> bool:
        if not self._proxies or not client:
            return False
        address = ipaddress.ip_address(client)
        return any(address in network for network in self._proxies)
