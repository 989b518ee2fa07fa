"""Keys at rest, and whose request it is (A1 to A5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
import trio
from attrs import define, evolve

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.http.messages import RequestHead
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import a_transaction
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, later
from mmo_sansio.values.model import Flow, Order
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api import authentication
from mmo_trio.api.authentication import WRONG_KEYS_BURST, Authenticator
from mmo_trio.brands.apply import add_key, create_key
from mmo_trio.brands.delivery_key import (
    HOST_NOT_VOUCHED_FOR,
    KEY_LEAKED,
    KEY_MAY_BE_LEAKED,
    KEY_REMOVED,
    NO_API_KEY,
    DeliveryRefused,
    keys_disclosed_through,
)
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.used_hosts import READ_AGAIN_AFTER
from mmo_trio.http.handler import RequestContext
from mmo_trio.storage.interface.admin_types import KeyOwner, StoredApiKey
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.workers.configuration_watch import ConfigurationWatch
from tests.conformance.inputs import brand
from tests.support.stored_ledger import store_ledger

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


URL = "https://acme.example/results"


def order_of(of: str = "acme", key_id: str | None = None, **members: Any) -> Order:
    return a_transaction(brand=of, api_key_id=key_id, created_at=Instant(10), **members).order


@pytest.mark.spec("A4")
async def test_a_callback_carries_the_key_of_its_payment_while_that_is_in_use_else_the_oldest(
    store: SqliteStore,
) -> None:
    authenticator = Authenticator(store, RING, monotonic=Clock())
    first, second = (
        SECRET.encode(),
        (await create_key(store, RING, "acme", now=Instant(2))).encode(),
    )
    third = (await create_key(store, RING, "acme", now=Instant(2))).encode()
    keys = [key.id for key in await keys_of(store, "acme")]

    async def carried() -> list[object]:
        """The keys of callbacks of payments that no key on record, and each of the three, has made,
        and of a push."""
        orders = [order_of(key_id=maker) for maker in (None, *map(str, keys))]
        return [
            await authenticator.delivery_key(each, URL)
            for each in (*orders, order_of(flow=Flow.PUSH))
        ]

    assert await carried() == [first, first, second, third, first]
    assert await store.admin.retire_key("acme", keys[0], now=Instant(3))
    assert await carried() == [second, second, second, third, second]
    assert await store.admin.retire_key("acme", keys[2], now=Instant(4))
    assert await carried() == [second, second, second, second, second]
    assert await store.admin.retire_key("acme", keys[1], now=Instant(5))
    assert await carried() == [NO_API_KEY] * 5
    assert await authenticator.delivery_key(order_of("nobody"), URL) is NO_API_KEY


@pytest.mark.spec("A4")
async def test_nothing_is_sent_for_a_payment_whose_key_was_retired_as_leaked(
    store: SqliteStore,
) -> None:
    authenticator = Authenticator(store, RING, monotonic=Clock())
    newer = await create_key(store, RING, "acme", now=Instant(20))
    leaked, other = (str(key.id) for key in await keys_of(store, "acme"))
    assert await store.admin.mark_key_leaked("acme", int(leaked), now=Instant(30))
    assert await authenticator.delivery_key(order_of(key_id=leaked), URL) is KEY_LEAKED
    assert await authenticator.delivery_key(order_of(key_id=other), URL) == newer.encode()
    assert await authenticator.delivery_key(order_of(flow=Flow.PUSH), URL) == newer.encode()
    assert await authenticator.delivery_key(order_of(key_id="77"), URL) is KEY_REMOVED


@pytest.mark.spec("A4")
async def test_after_a_plain_retirement_nothing_is_sent_to_hosts_that_no_other_key_has_used(
    store: SqliteStore,
) -> None:
    now = Clock()
    authenticator = Authenticator(store, RING, monotonic=now)
    await store.admin.save_brands([evolve(brand("acme"), result_hosts=())])
    newer = (await create_key(store, RING, "acme", now=Instant(20))).encode()
    await create_key(store, RING, "acme", now=Instant(20))
    retired, other, leaked = (str(key.id) for key in await keys_of(store, "acme"))

    async def pay(reference: str, **members: Any) -> None:
        payment = a_transaction(gateway_reference=reference, brand="acme", **members)
        await store_ledger(store, Ledger(transactions={reference: payment}))

    async def carried(maker: str | None = retired, url: str = URL, **members: Any) -> object:
        return await authenticator.delivery_key(order_of(key_id=maker, **members), url)

    await pay("its own", api_key_id=retired, result_url=URL)
    await pay("of a leaked key", api_key_id=leaked, result_url=URL)
    await pay("of nobody", api_key_id=None, result_url=URL)
    await pay("elsewhere", api_key_id=other, result_url="https://a.example/")
    assert await carried() == SECRET.encode(), "it is in use"
    assert await store.admin.mark_key_leaked("acme", int(leaked), now=Instant(30))
    assert await store.admin.retire_key("acme", int(retired), now=Instant(30))
    assert await carried() is HOST_NOT_VOUCHED_FOR
    assert await carried(other) == newer
    assert await carried(flow=Flow.PUSH, maker=None) == newer
    assert await carried(url="https://a.example:8443/x") == newer
    await pay("the first with the next key", api_key_id=other, display_qr_url=URL)
    now.now = later(now.now, READ_AGAIN_AFTER)
    assert await carried() == newer
    assert await carried(url="https://b.example/") is HOST_NOT_VOUCHED_FOR
    await store.admin.save_brands([evolve(brand("acme"), result_hosts=("b.example",))])
    assert await carried(url="https://b.example/") == newer, "staff have named the host"


async def test_a_payment_of_unknown_make_counts_as_the_leaked_key_s_if_that_was_there(
    store: SqliteStore,
) -> None:
    authenticator = Authenticator(store, RING, monotonic=Clock())
    newer = await create_key(store, RING, "acme", now=Instant(20))
    first, second = (key.id for key in await keys_of(store, "acme"))
    assert await store.admin.mark_key_leaked("acme", second, now=Instant(30))
    assert (
        await authenticator.delivery_key(order_of(), URL) == SECRET.encode()
    )  # Made before the second key was.
    assert await store.admin.mark_key_leaked("acme", first, now=Instant(31))
    newer = await create_key(store, RING, "acme", now=Instant(40))
    assert await authenticator.delivery_key(order_of(), URL) is KEY_MAY_BE_LEAKED
    assert await authenticator.delivery_key(order_of(key_id="3"), URL) == newer.encode()


def test_the_keys_that_callbacks_brought_to_the_owner_of_a_leaked_one() -> None:
    def key(
        id: int, added: int, retired: int | None = None, leaked: int | None = None
    ) -> StoredApiKey:
        ends = (None if each is None else Instant(each) for each in (retired, leaked))
        return StoredApiKey(id, "acme", b"", b"", Instant(added), *ends)

    def disclosed(leaked: int, *keys: StoredApiKey) -> list[int]:
        (of,) = (each for each in keys if each.id == leaked)
        return [each.id for each in keys_disclosed_through(of, keys, now=Instant(100))]

    assert disclosed(1, key(1, 0)) == []
    assert disclosed(1, key(1, 0), key(2, 10)) == [], "callbacks carried the leaked key itself"
    assert disclosed(2, key(1, 0), key(2, 10)) == []
    assert disclosed(2, key(1, 0), key(2, 10, retired=20)) == [1], (
        "the plain retirement brought the oldest one"
    )
    assert disclosed(2, key(1, 0, retired=15), key(2, 10, retired=20)) == [], (
        "it was retired before"
    )
    assert disclosed(1, key(1, 0, retired=20), key(2, 10)) == [2], (
        "the plain retirement brought the next one"
    )
    assert disclosed(1, key(1, 0, retired=20, leaked=90), key(2, 10, retired=30), key(3, 15)) == [
        2,
        3,
    ]
    assert disclosed(3, key(1, 0, leaked=50, retired=50), key(2, 10), key(3, 15)) == []
    assert disclosed(3, key(1, 0, leaked=50, retired=50), key(2, 10), key(3, 15, retired=20)) == [2]


@pytest.mark.spec("C8")
async def test_nothing_is_sent_beyond_the_brand_s_result_hosts_as_they_are_now(
    store: SqliteStore,
) -> None:
    authenticator = Authenticator(store, RING, monotonic=Clock())
    assert await authenticator.delivery_key(order_of(), URL) == SECRET.encode()
    await store.admin.save_brands(
        [evolve(brand("acme"), result_hosts=("*.shop.example", "pay.acme.example"))]
    )
    refused = await authenticator.delivery_key(order_of(), URL)
    assert isinstance(refused, DeliveryRefused)
    assert refused.outcome is DeliveryOutcome.EGRESS_REFUSED
    assert "acme.example is not one of the brand's result hosts" in refused.detail
    for url in ("https://pay.acme.example:8443/", "https://a.b.shop.example/x"):
        assert await authenticator.delivery_key(order_of(), url) == SECRET.encode()
    assert await authenticator.delivery_key(order_of(flow=Flow.PUSH), URL) == SECRET.encode()


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
