"""Whose request is this, and which key does a callback carry? (clauses A1 to A5)"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_sansio.values.model import Brand
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.settings.sections import API_KEY_CACHE_MAX
from mmo_trio.storage.interface.store import Store

CACHE_ENTRIES_MAX = 10_000
"""Verified keys that are remembered; beyond it the one verified first is forgotten."""


@frozen
class _VerifiedKey:
    brand: Brand
    expires_at: MonotonicInstant
    """Monotonic."""


class Authenticator:
    """Finds a brand by its key, remembering verified keys for a while.

    Keys that were refused are not remembered, so a key that was just added works at once and refused ones take no
    memory. Keys are looked up by keyed digest: nothing is compared byte by byte, and none is kept in the clear.
    """

    def __init__(
        self,
        store: Store,
        keyring: KeyRing,
        *,
        monotonic: Callable[[], MonotonicInstant],
        cache_ttl: Span = API_KEY_CACHE_MAX,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._monotonic = monotonic
        self._cache_ttl = min(cache_ttl, API_KEY_CACHE_MAX)
        self._verified: dict[bytes, _VerifiedKey] = {}

    async def brand_for_key(self, key: bytes) -> Brand | None:
        """The brand, enabled or not, that has this key; None for any other bytes, whatever they are (A1, A2).

        Raises StoreUnavailable when the key isn't remembered and the store can't be asked.
        """
        digest = self._keyring.digest(key)
        now = self._monotonic()
        remembered = self._verified.get(digest)
        if remembered is not None and now < remembered.expires_at:
            return remembered.brand
        self._verified.pop(digest, None)
        brand = await self._store.brand_by_key(digest)
        if (
            brand is not None
        ):  # It counts from before the store was asked: never older than the limit.
            self._remember(digest, _VerifiedKey(brand, later(now, self._cache_ttl)))
        return brand

    async def callback_key(self, brand: str) -> bytes | None:
        """The brand's oldest key that isn't retired, as it is now; None when it has none (A4).

        Raises StoreUnavailable, and SealError when the key was sealed with another master key.
        """
        for key in await self._store.keys_of(brand):
            if key.retired_at is None:
                return self._keyring.unseal(brand, key.sealed)
        return None

    def _remember(self, digest: bytes, verified: _VerifiedKey) -> None:
        while len(self._verified) >= CACHE_ENTRIES_MAX:
            self._verified.pop(next(iter(self._verified)))
        self._verified[digest] = verified
