"""Authenticates merchants by their API keys, and finds the key that a callback carries (A1 to A5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_sansio.values.model import Order
from mmo_sansio.values.problems import TOO_MANY_REQUESTS, ProblemError
from mmo_trio.api.wrong_key_budget import WrongKeyBudget
from mmo_trio.brands.delivery_key import (
    HOST_NOT_VOUCHED_FOR,
    DeliveryRefused,
    keys_to_vouch,
    maker_of,
    select_delivery_key,
)
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.brands.keyring import KeyRing, SealError
from mmo_trio.brands.used_hosts import UsedHosts
from mmo_trio.settings.sections import API_KEY_CACHE_MAX
from mmo_trio.storage.interface.admin_types import KeyOwner
from mmo_trio.storage.interface.store import Store

UNSEEN_KEY: Final = TOO_MANY_REQUESTS.problem(
    "Too many unknown keys came from this address, so this one was not looked up. Send the request again.",
    retry_after_s=1,
)
"""What a key gets that may be right."""

CACHE_ENTRIES_MAX = 10_000
"""Keys in the cache, also those whose time is over; beyond it the one verified first is dropped."""


@frozen
class VerifiedKey:
    """A key that was found in the store."""

    owner: KeyOwner
    expires_at: MonotonicInstant
    generation: int
    """The generation of the brands and keys that was in use when it was looked up."""


class Authenticator:
    """Finds a brand by its key, and caches verified keys for a while.

    Rejected keys are not cached, so a new key works at once and rejected ones take no memory. Keys are looked up by
    keyed digest: nothing is compared byte by byte, and none is stored in the clear."""

    def __init__(
        self,
        store: Store,
        keyring: KeyRing,
        *,
        monotonic: Callable[[], MonotonicInstant],
        cache_ttl: Span = API_KEY_CACHE_MAX,
        reload_master_keys: Callable[[], bool] = lambda: False,
        known: KnownConfiguration | None = None,
    ) -> None:
        """`reload_master_keys`: reads the keyring's master keys again if they have been replaced, and tells whether
        they have. `known`: keys that were verified before its generation are verified again."""
        self._store = store
        self._keyring = keyring
        self._known = known or KnownConfiguration()
        self._monotonic = monotonic
        self._cache_ttl = min(cache_ttl, API_KEY_CACHE_MAX)
        self._reload_master_keys = reload_master_keys
        self._wrong_keys = WrongKeyBudget()
        self._used_hosts = UsedHosts(store.admin, monotonic)
        self._verified: dict[bytes, VerifiedKey] = {}

    async def verify(self, key: bytes, find_address: Callable[[], str]) -> VerifiedKey | None:
        """Return the brand, enabled or not, that has this key, and the key's id; None for any other bytes (A1, A2).

        `find_address` tells the client's address. Raises ProblemError for a key that was never seen valid from an
        address that has tried too many unknown ones, and StoreUnavailable when the key is not cached and the store does
        not answer."""
        digest = self._keyring.digest(key)
        now = self._monotonic()
        generation = self._known.generation
        verified = self._verified.get(digest)
        if (
            verified is not None
            and now < verified.expires_at
            and verified.generation == generation
            and now < self._known.trusted_until
        ):
            return verified
        address = find_address()
        if verified is None and self._wrong_keys.is_spent(address, now):
            raise ProblemError(UNSEEN_KEY)
        owner = await self._store.key_owner(*self._keyring.digests(key))
        if owner is None and self._reload_master_keys():
            owner = await self._store.key_owner(*self._keyring.digests(key))
        self._verified.pop(digest, None)
        if owner is None:
            self._wrong_keys.record_failure(address, now)
            return None
        while len(self._verified) >= CACHE_ENTRIES_MAX:
            self._verified.pop(next(iter(self._verified)))
        # The time of the look-up counts (A3), and so does the generation before it.
        self._verified[digest] = verified = VerifiedKey(owner, later(now, self._cache_ttl), generation)
        return verified

    async def delivery_key(self, order: Order, url: str) -> bytes | DeliveryRefused:
        """Return the key that a callback or QR code of this payment to this URL carries now, or why nothing may be
        sent (A4). It is never cached.

        Raises StoreUnavailable, and SealError when the key was sealed with another master key."""
        record = await self._store.brand_record(order.brand)
        selected = select_delivery_key(record, order, url)
        if isinstance(selected, DeliveryRefused):
            return selected
        assert record is not None, "it has the selected key"
        maker = maker_of(order, record.keys)
        if maker is not None and maker.retired_at is not None:
            vouching = keys_to_vouch(record, maker)
            if vouching is not None and not await self._used_hosts.is_used(order.brand, url, vouching):
                return HOST_NOT_VOUCHED_FOR
        try:
            return self._keyring.unseal(order.brand, selected.sealed)
        except SealError:
            if not self._reload_master_keys():
                raise
            return self._keyring.unseal(order.brand, selected.sealed)
