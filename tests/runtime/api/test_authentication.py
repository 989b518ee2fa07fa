"""Keys at rest, and whose request it is (A1 to A5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
import trio
from attrs import define, evolve

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, later
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api import authentication
from mmo_trio.api.authentication import WRONG_KEYS_BURST, Authenticator
from mmo_trio.brands.apply import add_key
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.http.handler import RequestContext
from mmo_trio.storage.interface.admin_types import KeyOwner, StoredApiKey
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.workers.configuration_watch import ConfigurationWatch
from tests.conformance.inputs import brand

RING = KeyRing(bytes(range(32)))
SECRET = "canary-of-a-key"


def here() -> str:
    return "192.0.2.7"


class Clock:
    """A monotonic clock that a test moves."""

    now = MonotonicInstant(1_000 * clock.SECOND)

    def __call__(self) -> MonotonicInstant:
        return self.now


@pytest.fixture
async def store(store: SqliteStore) -> SqliteStore:
    """A store with two brands, one of which has a key."""
    await store.admin.save_brands([brand("acme"), brand("globex")])
    await add_key(store, RING, "acme", SECRET, now=Instant(1))
    return store


@pytest.mark.spec("A6")
async def test_the_hosts_of_brands_are_read_once_for_all_requests(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.admin.save_brands([evolve(brand("bolt"), host="Pay.Bolt.example")])
    reads, read = list[None](), store.brand_by_host

    async def count_reads() -> Mapping[str, str]:
        reads.append(None)
        await trio.sleep(0.01)
        return await read()

    monkeypatch.setattr(store, "brand_by_host", count_reads)
    known = KnownConfiguration()
    authenticator = Authenticator(store, RING, monotonic=Clock(), known=known)
    allowed = dict[str, bool]()
    head = RequestHead("GET", b"/", ((b"host", b"pay.bolt.example"),))
    context = RequestContext("r", here(), is_secure=True)

    async def ask(name: str) -> None:
        allowed[name] = await authenticator.is_host_allowed(name, head, context)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, f"brand {number}")
        nursery.start_soon(ask, "bolt")
    assert [name for name, is_allowed in allowed.items() if is_allowed] == ["bolt"]
    # One read began before the others came, and another one is for all of them.
    assert len(reads) == 2

    watch = ConfigurationWatch(store, known, Clock())
    async with trio.open_nursery() as nursery:
        await nursery.start(watch.run)
        nursery.cancel_scope.cancel()
    reads.clear()
    await ask("bolt")
    await ask("acme")
    assert (allowed["bolt"], allowed["acme"], reads) == (True, False, [])


async def find_owner(
    authenticator: Authenticator, key: bytes, find_address: Callable[[], str]
) -> KeyOwner | None:
    verified = await authenticator.verify(key, find_address)
    return None if verified is None else verified.owner


async def guess(
    authenticator: Authenticator, key: bytes, find_address: Callable[[], str] = here
) -> int:
    """The status that this unknown key gets."""
    try:
        found = await authenticator.verify(key, find_address)
    except ProblemError as error:
        return error.problem.status if error.problem.retry_after_s == 1 else 0
    return 200 if found else 401


@pytest.mark.spec("A5")
async def test_no_key_stands_in_a_repr(store: SqliteStore) -> None:
    (record, _) = await store.admin.brands()
    assert SECRET not in repr(record) + repr(RING) + repr(store)
    assert repr(record.keys[0].digest) not in repr(record)
    assert repr(bytes(range(32)))[2:10] not in repr(RING.__dict__)


@pytest.mark.spec("A1", "A5")
@pytest.mark.parametrize(
    "key", [b"", b" ", b"unknown", b"\xff\xfe\x00", "schlüssel".encode(), b"k" * 10_240]
)
async def test_any_other_bytes_are_nobodys_key(key: bytes, store: SqliteStore) -> None:
    authenticator = Authenticator(store, RING, monotonic=Clock())
    assert await find_owner(authenticator, key, here) is None
    assert await find_owner(authenticator, SECRET.encode(), here) == KeyOwner(brand("acme"), "1")


@define
class Counting:
    """Counts how often a store is asked for a key."""

    store: SqliteStore
    asked: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def key_owner(self, *digests: bytes) -> KeyOwner | None:
        self.asked += 1
        return await self.store.key_owner(*digests)


@pytest.mark.spec("A2", "A3")
async def test_a_verified_key_is_believed_for_a_minute_and_not_longer(store: SqliteStore) -> None:
    counting, now = Counting(store), Clock()
    authenticator = Authenticator(
        cast(Store, counting), RING, monotonic=now, cache_ttl=Span(5 * clock.MINUTE)
    )
    key = SECRET.encode()
    begin = now.now
    assert await find_owner(authenticator, key, here) == KeyOwner(brand("acme"), "1")
    (stored,) = await keys_of(store, "acme")
    assert await store.admin.retire_key("acme", stored.id, now=Instant(2))
    now.now = later(begin, clock.Span(clock.MINUTE - 1))
    assert await find_owner(authenticator, key, here) == KeyOwner(brand("acme"), "1")
    assert counting.asked == 1
    now.now = later(begin, clock.MINUTE)
    assert await find_owner(authenticator, key, here) is None
    assert await find_owner(authenticator, key, here) is None


@pytest.mark.spec("A3")
async def test_a_new_key_works_at_once_even_if_it_was_refused_just_before(
    store: SqliteStore,
) -> None:
    authenticator = Authenticator(store, RING, monotonic=Clock())
    assert await find_owner(authenticator, b"tomorrows-key", here) is None
    await add_key(store, RING, "globex", "tomorrows-key", now=Instant(3))
    assert await find_owner(authenticator, b"tomorrows-key", here) == KeyOwner(brand("globex"), "2")


async def test_a_key_of_an_earlier_generation_is_verified_again(store: SqliteStore) -> None:
    counting, now, known = Counting(store), Clock(), KnownConfiguration()
    authenticator = Authenticator(cast(Store, counting), RING, monotonic=now, known=known)
    for _ in range(2):
        assert await find_owner(authenticator, SECRET.encode(), here) == KeyOwner(
            brand("acme"), "1"
        )
    assert counting.asked == 1
    (stored,) = await keys_of(store, "acme")
    assert await store.admin.retire_key("acme", stored.id, now=Instant(2))
    known.generation += 1
    assert await find_owner(authenticator, SECRET.encode(), here) is None


async def test_a_process_that_has_not_read_the_store_for_long_trusts_nothing(
    store: SqliteStore,
) -> None:
    counting, now, known = Counting(store), Clock(), KnownConfiguration()
    authenticator = Authenticator(cast(Store, counting), RING, monotonic=now, known=known)
    known.trusted_until = later(now.now, clock.SECOND)
    assert await find_owner(authenticator, SECRET.encode(), here) is not None
    now.now = later(now.now, clock.SECOND)
    for asked in (2, 3):
        assert await find_owner(authenticator, SECRET.encode(), here) is not None
        assert counting.asked == asked


async def test_a_look_up_that_began_before_a_change_is_not_kept(store: SqliteStore) -> None:
    known = KnownConfiguration()

    class Slow(Counting):
        """Answers what was so before the change that is noticed meanwhile."""

        async def key_owner(self, *digests: bytes) -> KeyOwner | None:
            found = await super().key_owner(*digests)
            known.generation += self.asked == 1
            return found

    slow = Slow(store)
    authenticator = Authenticator(cast(Store, slow), RING, monotonic=Clock(), known=known)
    for asked in (1, 2, 2):
        assert await find_owner(authenticator, SECRET.encode(), here) is not None
        assert slow.asked == asked


async def test_the_memory_of_verified_keys_is_bounded(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "CACHE_ENTRIES_MAX", 3)
    authenticator = Authenticator(store, RING, monotonic=Clock())
    for number in range(10):
        await add_key(store, RING, "acme", f"key-number-{number}", now=Instant(3))
        assert await find_owner(authenticator, f"key-number-{number}".encode(), here) is not None
        assert await find_owner(authenticator, b"unknown", here) is None
        assert len(authenticator._verified) <= 3


async def keys_of(store: SqliteStore, of: str) -> Sequence[StoredApiKey]:
    record = await store.brand_record(of)
    assert record is not None
    return record.keys


@pytest.mark.spec("A1")
async def test_unknown_keys_from_one_address_cost_the_store_a_look_up_a_second(
    store: SqliteStore,
) -> None:
    counting, now = Counting(store), Clock()
    authenticator = Authenticator(cast(Store, counting), RING, monotonic=now)
    assert await find_owner(authenticator, SECRET.encode(), here) is not None
    begin = counting.asked
    answers = [await guess(authenticator, b"guess-%d" % number) for number in range(1_000)]
    assert answers == [401] * WRONG_KEYS_BURST + [429] * (1_000 - WRONG_KEYS_BURST)
    assert counting.asked == begin + WRONG_KEYS_BURST
    now.now = later(now.now, Span(3 * clock.SECOND))
    for number in range(1_000):
        await guess(authenticator, b"guess-%d" % number)
    assert counting.asked == begin + WRONG_KEYS_BURST + 3
    await add_key(store, RING, "acme", "another-key-of-acme", now=Instant(2))
    assert await guess(authenticator, b"another-key-of-acme") == 429, "it was not looked up"
    assert await find_owner(authenticator, b"another-key-of-acme", lambda: "192.0.2.8") is not None
    now.now = later(now.now, Span(2 * clock.MINUTE))  # Nothing is cached any more.
    for number in range(1_000):
        await guess(authenticator, b"guess-%d" % number)
    for key in (SECRET.encode(), b"another-key-of-acme"):
        assert await find_owner(authenticator, key, here) is not None, (
            "a merchant behind the same address works on"
        )


async def test_unknown_keys_are_counted_by_the_slash_64_of_ipv6(store: SqliteStore) -> None:
    counting = Counting(store)
    authenticator = Authenticator(cast(Store, counting), RING, monotonic=Clock())
    for number in range(200):
        await guess(authenticator, b"guess", f"2001:db8::{number:x}".__str__)
    assert counting.asked == WRONG_KEYS_BURST
    assert await find_owner(authenticator, b"guess", lambda: "2001:db8:0:1::1") is None
    assert counting.asked == WRONG_KEYS_BURST + 1
