"""Whom a payer pays, by name; brands change rarely, and a page is asked for often."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_trio.storage.interface.store import Store

CACHE_TTL = Span(60 * clock.SECOND)


class BrandNameCache:
    """Remembers for a minute what brands are called."""

    def __init__(self, store: Store, now: Callable[[], Instant]) -> None:
        self._store = store
        self._now = now
        self._names: Mapping[str, str] = {}
        self._expires_at: Instant | None = None

    async def name_of(self, brand: str) -> str:
        """What payers call this brand; empty when there is no such brand any more. Raises StoreUnavailable."""
        now = self._now()
        if self._expires_at is None or now >= self._expires_at or brand not in self._names:
            self._names = {
                each.brand.id: each.brand.name for each in await self._store.admin.brands()
            }
            self._expires_at = later(now, CACHE_TTL)
        return self._names.get(brand, "")
