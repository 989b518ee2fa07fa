"""Checks of what a store keeps of API keys that leaked and of master keys."""

from __future__ import annotations

from attrs import evolve

from mmo_trio.storage.interface.admin_types import KeyOwner, StoredMasterKey
from tests.conformance.driver import NOON, OpenStore, after_noon
from tests.conformance.inputs import brand


async def check_leaked_keys(open_store: OpenStore) -> None:
    """A key is marked as leaked once, in use or retired; it is retired from then on, and every
    reader sees the mark."""
    async with open_store() as store:
        await store.admin.save_brands([brand("globex"), brand("acme")])
        for number in (1, 2, 3):
            assert await store.admin.add_key(
                "acme", b"digest-%d" % number, b"sealed", now=after_noon(number)
            )
        record = await store.brand_record("acme")
        assert record is not None
        first, second, third = (key.id for key in record.keys)
        assert await store.admin.retire_key("acme", second, now=after_noon(5))
        assert not await store.admin.mark_key_leaked("globex", first, now=after_noon(6))
        assert await store.admin.mark_key_leaked("acme", first, now=after_noon(6))
        assert not await store.admin.mark_key_leaked("acme", first, now=after_noon(7))
        assert await store.admin.mark_key_leaked("acme", second, now=after_noon(8))
        assert not await store.admin.retire_key("acme", first, now=after_noon(9))
        assert await store.key_owner(b"digest-1") is None
    async with open_store() as store:
        record = await store.brand_record("acme")
        assert record is not None
        assert [(key.retired_at, key.leaked_at) for key in record.keys] == [
            (after_noon(6), after_noon(6)),
            (after_noon(5), after_noon(8)),
            (None, None),
        ]
        assert record == (await store.admin.brands())[0]
        assert await store.key_owner(b"digest-3") == KeyOwner(brand("acme"), str(third))


async def check_master_keys(open_store: OpenStore) -> None:
    """Each generation of the master key is added once, and ends once."""
    async with open_store() as store:
        assert not await store.admin.master_keys()
        assert await store.admin.add_master_key(StoredMasterKey(1, "one", NOON))
        assert not await store.admin.add_master_key(StoredMasterKey(1, "other", NOON)), (
            "another process was faster"
        )
        assert not await store.admin.add_master_key(StoredMasterKey(2, "one", NOON))
        assert await store.admin.add_master_key(StoredMasterKey(2, "two", after_noon(1)))
    async with open_store() as store:
        both = [StoredMasterKey(1, "one", NOON), StoredMasterKey(2, "two", after_noon(1))]
        assert await store.admin.master_keys() == both
        for minutes in (5, 6):
            await store.admin.end_master_keys(below=2, now=after_noon(minutes))
    async with open_store() as store:
        assert await store.admin.master_keys() == [evolve(both[0], ended_at=after_noon(5)), both[1]]


async def check_resealed_keys(open_store: OpenStore) -> None:
    """A key that is sealed by another master key, in use or retired, is the same key: it has its id
    and its times."""
    async with open_store() as store:
        await store.admin.save_brands([brand("acme")])
        for number in (1, 2):
            assert await store.admin.add_key(
                "acme", b"digest-%d" % number, b"sealed", now=after_noon(number)
            )
        before = await store.brand_record("acme")
        assert before is not None
        first, second = before.keys
        assert await store.admin.retire_key("acme", first.id, now=after_noon(3))
        for key in before.keys:
            await store.admin.reseal_key(key.id, b"new " + key.digest, b"sealed again")
    async with open_store() as store:
        after = await store.brand_record("acme")
        assert after is not None
        assert [(key.id, key.added_at, key.sealed) for key in after.keys] == [
            (key.id, key.added_at, b"sealed again") for key in before.keys
        ]
        assert after.keys[0].retired_at == after_noon(3)
        assert await store.key_owner(b"digest-2") is None
        assert await store.key_owner(b"new digest-1") is None
        assert await store.key_owner(b"new digest-2") == KeyOwner(brand("acme"), str(second.id))
