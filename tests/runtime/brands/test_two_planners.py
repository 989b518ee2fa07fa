"""Whatever two people plan and carry out, in whatever order: nothing that was decided later is
undone by what was planned before, and the audit log tells both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest
from attrs import define, evolve, field, frozen

from mmo_sansio.testing import a_brand
from mmo_sansio.values.clock import HOUR, Instant
from mmo_sansio.values.model import Brand, BrandLimits
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.change_control import ChangeRefused, ConfigurationChanges, brand_version
from mmo_trio.brands.apply import BrandsOvertaken, apply_plan, create_key, plan_brands
from mmo_trio.brands.file import ConfiguredBrand
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditKey,
    BrandHold,
    BrandRecord,
    ConsoleUser,
    Role,
)
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, OpenStore
from tests.runtime.storage.test_conformance import sqlite

RING = KeyRing(bytes(range(32)))
STARTED, REVERTED, APPROVED, OF_FILE = (BrandLimits(each, each, each) for each in (60, 50, 40, 30))

Commit: TypeAlias = Callable[[], Awaitable[bool]]
"""Carries out what was planned; returns whether anything was done."""


@frozen
class InForce:
    """What is in force of a brand."""

    limits: BrandLimits | None
    is_enabled: bool
    is_held: bool
    keys: int


@define
class Actor:
    """Somebody who looks at a brand, and acts later by what was seen."""

    name: str
    store: Store
    brand: str
    changes: ConfigurationChanges
    ids: dict[str, int]
    """Of a change that may be approved, and of one that may be reverted."""
    _seen: BrandRecord | None = field(default=None, init=False)

    async def look(self) -> None:
        self._seen = await self.record()

    async def record(self) -> BrandRecord:
        found = await self.store.brand_record(self.brand)
        assert found is not None
        return found

    async def apply(self) -> bool:
        assert self._seen is not None
        described = evolve(self._seen.brand, limits=OF_FILE, enabled=True)
        plan = plan_brands([self._seen], [ConfiguredBrand(described, ())], RING, prune=False)
        event = self._event("brands_applied")
        try:
            await apply_plan(self.store, RING, plan, now=NOON, event=event)
        except BrandsOvertaken:
            return False
        return True

    async def enable(self) -> bool:
        event = self._event("brand_enabled")
        return await self.store.admin.switch_brand(self.brand, enabled=True, event=event)

    async def disable(self) -> bool:
        event = self._event("brand_disabled")
        return await self.store.admin.switch_brand(self.brand, enabled=False, event=event)

    async def hold(self) -> bool:
        await self.store.admin.append_audit(*self._event("brand_held"))
        await self.store.admin.hold_brand(BrandHold(self.brand, NOON, self.name))
        return True

    async def approve(self) -> bool:
        return await self._decided(self.changes.apply(self.name, self.ids["open"]))

    async def revert(self) -> bool:
        return await self._decided(self.changes.revert(self.name, self.ids["applied"], "a mistake"))

    async def rotate(self) -> bool:
        assert self._seen is not None
        await self.store.admin.append_audit(*self._event("key_rotated"))
        await create_key(self.store, RING, self.brand, now=NOON)
        await self.store.admin.retire_key(self.brand, self._seen.keys[0].id, now=NOON)
        return True

    async def _decided(self, decision: Awaitable[object]) -> bool:
        try:
            await decision
        except ChangeRefused:
            return False
        return True

    def _event(self, action: str) -> tuple[AuditEvent, AuditKey]:
        return self.changes.audit_log.event(f"user:{self.name}", action, f"brand:{self.brand}")


EFFECTS: dict[str, Callable[[InForce], InForce]] = {
    "apply": lambda was: evolve(was, limits=OF_FILE),
    "enable": lambda was: evolve(was, is_enabled=True, is_held=False),
    "disable": lambda was: evolve(was, is_enabled=False),
    "hold": lambda was: evolve(was, is_held=True),
    "approve": lambda was: evolve(was, limits=APPROVED),
    "revert": lambda was: evolve(was, limits=REVERTED),
    "rotate": lambda was: was,
}
"""What each says about a brand, and nothing else of it."""

ORDERS = ("look0 do0 look1 do1", "look0 look1 do0 do1", "look0 look1 do1 do0")
"""The others are these with the two exchanged."""


def cases() -> Iterator[tuple[str, str, str]]:
    """Yield what the two do, and in which order."""
    yield from product(EFFECTS, EFFECTS, ORDERS)


async def play(store: Store, number: int, actions: tuple[str, str], order: str) -> None:
    """Let two people act on a brand of its own, and compare with what each has said about it."""
    brand, log = f"brand-{number}", AuditLog(store.admin, AuditKey("k1", bytes(32)), lambda: NOON)
    changes = ConfigurationChanges(store.admin, log)
    ids = await _begin(store, changes, a_brand(id=brand, limits=REVERTED))
    actors = [Actor(name, store, brand, changes, ids) for name in ("cora", "dan")]
    expected = await in_force(store, brand)

    done = []
    for step in order.split():
        who = int(step[-1])
        if step.startswith("look"):
            await actors[who].look()
        elif await getattr(actors[who], actions[who])():
            expected = EFFECTS[actions[who]](expected)
            done.append(f"user:{actors[who].name}")

    found = await in_force(store, brand)
    assert evolve(found, keys=expected.keys) == expected, (actions, order)
    assert found.keys > 0, "no brand is left without a key"
    told = {each.event.actor for each in await store.admin.audit(about=f"brand:{brand}", limit=20)}
    assert told >= set(done), (actions, order)


async def _begin(store: Store, changes: ConfigurationChanges, brand: Brand) -> dict[str, int]:
    """Add a brand with a key, a change that is in force, and one that waits for approval."""
    await store.admin.save_brands([brand])
    await create_key(store, RING, brand.id, now=NOON)
    applied = await changes.propose(
        "ann", brand.id, brand_version(brand), lambda was: evolve(was, limits=STARTED), "more"
    )
    await changes.apply("bob", applied.id)
    now = await changes.brand(brand.id)
    waiting = await changes.propose(
        "ann", brand.id, brand_version(now), lambda was: evolve(was, limits=APPROVED), "less"
    )
    return {"applied": applied.id, "open": waiting.id}


async def in_force(store: Store, brand: str) -> InForce:
    """Return what is in force of a brand."""
    record = await store.brand_record(brand)
    assert record is not None
    holds = {each.brand for each in await store.admin.brand_holds()}
    in_use = [key for key in record.keys if key.retired_at is None]
    return InForce(record.brand.limits, record.brand.enabled, brand in holds, len(in_use))


async def check(open_store: OpenStore) -> None:
    """Play every case, each on a brand of its own."""
    async with open_store() as store:
        for name in ("ann", "bob", "cora", "dan"):
            await store.admin.add_user(ConsoleUser(name, Role.APPROVER, "$hash", Instant(HOUR)))
        for number, (first, second, order) in enumerate(cases()):
            await play(store, number, (first, second), order)


@pytest.mark.spec("A3")
async def test_nothing_that_was_decided_later_is_undone_on_sqlite(tmp_path: Path) -> None:
    await check(sqlite(tmp_path))


@pytest.mark.spec("A3")
async def test_nothing_that_was_decided_later_is_undone_on_postgresql(
    migrated_database: str,
) -> None:
    await check(lambda: open_postgres(migrated_database, serving=True))
