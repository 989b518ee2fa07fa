"""Which key a callback carries, and when nothing may be sent (A4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import a_transaction
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, later
from mmo_sansio.values.model import Flow, Order
from mmo_trio.brands.apply import add_key, create_key
from mmo_trio.brands.delivery_key import (
    HOST_NOT_VOUCHED_FOR,
    KEY_LEAKED,
    KEY_MAY_BE_LEAKED,
    KEY_REMOVED,
    NO_API_KEY,
    DeliveryKeys,
    DeliveryRefused,
    keys_disclosed_through,
)
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.used_hosts import READ_AGAIN_AFTER, UsedHosts
from mmo_trio.storage.interface.admin_types import StoredApiKey
from mmo_trio.storage.sqlite import SqliteStore
from tests.conformance.inputs import brand
from tests.support.stored_ledger import store_ledger

RING = KeyRing(bytes(range(32)))
SECRET = "canary-of-a-key"


class Clock:
    """A monotonic clock that a test moves."""

    now = MonotonicInstant(1_000 * clock.SECOND)

    def __call__(self) -> MonotonicInstant:
        return self.now


def delivery_keys(store: SqliteStore, monotonic: Clock | None = None) -> DeliveryKeys:
    return DeliveryKeys(store, RING, UsedHosts(store.admin, monotonic or Clock()))


@pytest.fixture
async def store(store: SqliteStore) -> SqliteStore:
    """A store with two brands, one of which has a key."""
    await store.admin.save_brands([brand("acme"), brand("globex")])
    await add_key(store, RING, "acme", SECRET, now=Instant(1))
    return store


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
    finder = delivery_keys(store)
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
        return [await finder.find(each, URL) for each in (*orders, order_of(flow=Flow.PUSH))]

    assert await carried() == [first, first, second, third, first]
    assert await store.admin.retire_key("acme", keys[0], now=Instant(3))
    assert await carried() == [second, second, second, third, second]
    assert await store.admin.retire_key("acme", keys[2], now=Instant(4))
    assert await carried() == [second, second, second, second, second]
    assert await store.admin.retire_key("acme", keys[1], now=Instant(5))
    assert await carried() == [NO_API_KEY] * 5
    assert await finder.find(order_of("nobody"), URL) is NO_API_KEY


@pytest.mark.spec("A4")
async def test_nothing_is_sent_for_a_payment_whose_key_was_retired_as_leaked(
    store: SqliteStore,
) -> None:
    finder = delivery_keys(store)
    newer = await create_key(store, RING, "acme", now=Instant(20))
    leaked, other = (str(key.id) for key in await keys_of(store, "acme"))
    assert await store.admin.mark_key_leaked("acme", int(leaked), now=Instant(30))
    assert await finder.find(order_of(key_id=leaked), URL) is KEY_LEAKED
    assert await finder.find(order_of(key_id=other), URL) == newer.encode()
    assert await finder.find(order_of(flow=Flow.PUSH), URL) == newer.encode()
    assert await finder.find(order_of(key_id="77"), URL) is KEY_REMOVED


@pytest.mark.spec("A4")
async def test_after_a_plain_retirement_nothing_is_sent_to_hosts_that_no_other_key_has_used(
    store: SqliteStore,
) -> None:
    now = Clock()
    finder = delivery_keys(store, now)
    await store.admin.save_brands([evolve(brand("acme"), result_hosts=())])
    newer = (await create_key(store, RING, "acme", now=Instant(20))).encode()
    await create_key(store, RING, "acme", now=Instant(20))
    retired, other, leaked = (str(key.id) for key in await keys_of(store, "acme"))

    async def pay(reference: str, **members: Any) -> None:
        payment = a_transaction(gateway_reference=reference, brand="acme", **members)
        await store_ledger(store, Ledger(transactions={reference: payment}))

    async def carried(maker: str | None = retired, url: str = URL, **members: Any) -> object:
        return await finder.find(order_of(key_id=maker, **members), url)

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
    finder = delivery_keys(store)
    newer = await create_key(store, RING, "acme", now=Instant(20))
    first, second = (key.id for key in await keys_of(store, "acme"))
    assert await store.admin.mark_key_leaked("acme", second, now=Instant(30))
    assert await finder.find(order_of(), URL) == SECRET.encode()  # Made before the second key was.
    assert await store.admin.mark_key_leaked("acme", first, now=Instant(31))
    newer = await create_key(store, RING, "acme", now=Instant(40))
    assert await finder.find(order_of(), URL) is KEY_MAY_BE_LEAKED
    assert await finder.find(order_of(key_id="3"), URL) == newer.encode()


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
    finder = delivery_keys(store)
    assert await finder.find(order_of(), URL) == SECRET.encode()
    await store.admin.save_brands(
        [evolve(brand("acme"), result_hosts=("*.shop.example", "pay.acme.example"))]
    )
    refused = await finder.find(order_of(), URL)
    assert isinstance(refused, DeliveryRefused)
    assert refused.outcome is DeliveryOutcome.EGRESS_REFUSED
    assert "acme.example is not one of the brand's result hosts" in refused.detail
    for url in ("https://pay.acme.example:8443/", "https://a.b.shop.example/x"):
        assert await finder.find(order_of(), url) == SECRET.encode()
    assert await finder.find(order_of(flow=Flow.PUSH), URL) == SECRET.encode()
