"""Administers brands in the store of a running gateway, as `mmo brands` does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from attrs import evolve, frozen

from mmo_sansio.values.clock import Instant
from mmo_trio.brands.apply import add_key
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.storage.sql.store import Store
from tests.support.sandbox_gateway import Running


@frozen
class BrandAdmin:
    """Changes brands and their API keys in an open store."""

    store: Store
    keyring: KeyRing

    async def change(self, brand: str, **changes: Any) -> None:
        """Change this brand."""
        [found] = [each.brand for each in await self.store.admin.brands() if each.brand.id == brand]
        await self.store.admin.save_brands([evolve(found, **changes)])

    async def add_key(self, brand: str, api_key: str) -> None:
        """Give the brand a further key."""
        assert await add_key(self.store, self.keyring, brand, api_key, now=Instant(_now()))

    async def retire_key(self, brand: str, api_key: str) -> None:
        """Retire a key of the brand."""
        digest = self.keyring.digest(api_key.encode())
        record = await self.store.brand_record(brand)
        assert record is not None
        [id] = [each.id for each in record.keys if each.digest == digest]
        assert await self.store.admin.retire_key(brand, id, now=Instant(_now()))


def _now() -> int:
    return time.time_ns() // 1_000


@asynccontextmanager
async def brand_admin(running: Running) -> AsyncIterator[BrandAdmin]:
    """Open the store of this gateway for administration."""
    keyring = KeyRing(*load_master_keys(running.directory / "master.key"))
    async with running.storage.open_for_admin() as store:
        yield BrandAdmin(store, keyring)
