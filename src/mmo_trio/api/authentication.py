"""Authenticates merchants by their API keys, on the hosts where these work (A1 to A3, A6)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog
from attrs import define, field, frozen

from mmo_sansio.api.incoming.requests import read_api_key
from mmo_sansio.http.messages import Headers, RequestHead
from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_sansio.values.problems import TOO_MANY_REQUESTS, ProblemError
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.http.handler import RequestContext
from mmo_trio.http.streams import subscriber_network
from mmo_trio.settings.sections import API_KEY_CACHE_MAX
from mmo_trio.storage.interface.admin_types import KeyOwner
from mmo_trio.storage.sql.coalescing import Coalescer
from mmo_trio.storage.sql.store import Store

logger = structlog.get_logger(__name__)

# Keys in the cache, also those whose time is over; beyond it the one verified first is dropped.
CACHE_ENTRIES_MAX = 10_000

# Senders that are remembered, as many as a listener keeps parsed heads; beyond it the first one is
# dropped.
SENDERS_MAX: Final = 512

# Attempts with unknown keys that an address may make at once.
WRONG_KEYS_BURST: Final = 50

# Further attempts that an address may make.
WRONG_KEYS_PER_SECOND: Final = 1

# Addresses that are remembered; beyond it the one whose last failure is oldest is forgotten.
ADDRESSES_MAX: Final = 10_000

# What a key gets that may be right.
UNSEEN_KEY: Final = TOO_MANY_REQUESTS.problem(
    "Too many unknown keys came from this address, so this one was not looked up. Send the "
    "request again.",
    retry_after_s=1,
)


@frozen
class VerifiedKey:
    """A key that was found in the store."""

    owner: KeyOwner
    expires_at: MonotonicInstant
    generation: int
    """The generation of the brands and keys that was in use when it was looked up."""


class Authenticator:
    """Finds the brand of a request by its key and its host, and caches verified keys for a while.

    Rejected keys are not cached, so a new key works at once and rejected ones take no memory. Keys
    are looked up by keyed digest: nothing is compared byte by byte, and none is stored in the
    clear."""

    def __init__(
        self,
        store: Store,
        keyring: KeyRing,
        *,
        monotonic: Callable[[], MonotonicInstant],
        cache_ttl: Span = API_KEY_CACHE_MAX,
        reload_master_keys: Callable[[], bool] = lambda: False,
        known: KnownConfiguration | None = None,
        trusted_proxies: TrustedProxies | None = None,
    ) -> None:
        """`reload_master_keys`: reads the keyring's master keys again if they have been replaced,
        and tells whether they have. `known`: what was read before its generation is read again."""
        self._store = store
        self._keyring = keyring
        self._known = known or KnownConfiguration()
        self._monotonic = monotonic
        self._cache_ttl = min(cache_ttl, API_KEY_CACHE_MAX)
        self._reload_master_keys = reload_master_keys

        # Bounds how many unknown keys one address, IPv6 by its /64, may try, so that guessing costs
        # the store nothing (A1); the latest failure last. Without a token an unknown key is
        # answered 429 unseen; a key that this process has seen valid never is.
        self._wrong_keys: OrderedDict[str, TokenBucket] = OrderedDict()
        self._verified: dict[bytes, VerifiedKey] = {}
        self._trusted_proxies = trusted_proxies or TrustedProxies()
        self._read_hosts = Coalescer[None, Mapping[str, str]](self._read_hosts_once)

        # Those whom `find_owner` has found.
        self.known_senders = KnownSenders(self._known)

    async def find_owner(self, head: RequestHead, context: RequestContext) -> KeyOwner | None:
        """Return the owner of the request's key; None when no brand has it or the host is another
        brand's. Raises what `verify` does."""
        key = await self.verify(
            read_api_key(head), partial(self._trusted_proxies.client_of, head, context)
        )
        if key is None or not await self.is_host_allowed(key.owner.brand.id, head, context):
            return None
        self.known_senders.add(head.headers, context.client, key)
        return key.owner

    async def verify(self, key: bytes, find_address: Callable[[], str]) -> VerifiedKey | None:
        """Return the brand, enabled or not, that has this key, and the key's id; None for any other
        bytes (A1, A2).

        `find_address` tells the client's address. Raises ProblemError for a key that was never seen
        valid from an address that has tried too many unknown ones, and StoreUnavailable when the
        key is not cached and the store does not answer."""
        # 1. A key that was verified within the cache's time, under the configuration in use.
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

        # 2. An address that has guessed too often is not looked up any more.
        network = subscriber_network(find_address())
        if (
            verified is None
            and network in self._wrong_keys
            and self._wrong_keys[network].delay(now)
        ):
            raise ProblemError(UNSEEN_KEY)

        # 3. The store. A master key that another process has just begun to use is read from its
        # file.
        owner = await self._store.key_owner(*self._keyring.digests(key))
        if owner is None and self._reload_master_keys():
            owner = await self._store.key_owner(*self._keyring.digests(key))

        # 4. Whatever was known before is replaced, so that the cache keeps the order of its
        # entries.
        self._verified.pop(digest, None)
        if owner is None:
            self._count_wrong_key(network, now)
            return None

        while len(self._verified) >= CACHE_ENTRIES_MAX:
            self._verified.pop(next(iter(self._verified)))

        # The time of the look-up counts (A3), and so does the generation before it.
        self._verified[digest] = verified = VerifiedKey(
            owner, later(now, self._cache_ttl), generation
        )
        return verified

    def _count_wrong_key(self, network: str, now: MonotonicInstant) -> None:
        bucket = self._wrong_keys.pop(network, None) or TokenBucket(
            WRONG_KEYS_PER_SECOND, WRONG_KEYS_BURST
        )
        self._wrong_keys[network] = bucket
        while len(self._wrong_keys) > ADDRESSES_MAX:
            self._wrong_keys.popitem(last=False)

        # One line when the limit is reached, not one for each attempt.
        was_limited = bucket.delay(now) > 0
        bucket.spend(now)
        if bucket.delay(now) and not was_limited:
            logger.warning("unknown_keys_limited", network=network)

    async def is_host_allowed(self, brand: str, head: RequestHead, context: RequestContext) -> bool:
        """Return whether this brand's keys work on the requested host: on its own one, and on all
        that are no other brand's (A6). Raises StoreUnavailable."""
        # Kept with the configuration, read once a second; before the first read, and after a gap,
        # asked for.
        brand_by_host = self._known.brand_by_host
        if brand_by_host is None or self._monotonic() >= self._known.trusted_until:
            brand_by_host = await self._read_hosts(None)
        if not brand_by_host:
            return True
        owner = brand_by_host.get(self._trusted_proxies.requested_host(context.client, head))

        return owner is None or owner == brand

    async def _read_hosts_once(self, asked: Sequence[None]) -> Sequence[Mapping[str, str]]:
        """Read the hosts for all requests that need them now."""
        return [await self._store.brand_by_host()] * len(asked)


@define(eq=False)
class KnownSenders:
    """Remembers whose key the header fields of a request carry, so that a client that repeats them
    is found at once: no key is read, digested or looked up again.

    It promises no more than the checks that it spares. A sender is known no longer than its
    verified key (A3), and only under the configuration in which that and the hosts of the brands
    (A6) were read."""

    known: KnownConfiguration
    _keys: dict[tuple[Headers, str], VerifiedKey] = field(factory=dict, init=False, repr=False)
    """By the fields, which hold a key, and the client's address. A listener parses equal heads
    once, so the fields are mostly the same object, and compared at once."""

    def find(self, headers: Headers, client: str, now: MonotonicInstant) -> KeyOwner | None:
        """Return whose key these fields carry; None when that has to be found out."""
        key = self._keys.get((headers, client))
        if (
            key is None
            or now >= key.expires_at
            or now >= self.known.trusted_until
            or key.generation != self.known.generation
        ):
            return None
        return key.owner

    def add(self, headers: Headers, client: str, key: VerifiedKey) -> None:
        """Remember that these fields carry this key, and that it works on their host."""
        # Taken out first, so that it counts as the latest.
        self._keys.pop((headers, client), None)
        while len(self._keys) >= SENDERS_MAX:
            self._keys.pop(next(iter(self._keys)))
        self._keys[headers, client] = key
