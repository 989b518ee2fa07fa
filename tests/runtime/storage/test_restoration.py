"""Every store says how far it has come, and holds the brands of a restored one until each is
finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mmo_sansio.messages.inputs import MarkRestored, RecordLostUse
from mmo_sansio.messages.replies import Rejected
from mmo_sansio.testing import a_brand
from mmo_sansio.values.clock import DAY
from mmo_trio.storage.interface.admin_types import RESTORATION, BrandHold
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sqlite import open_sqlite
from tests.conformance.driver import NOON, OpenStore, after_noon, submit_batch
from tests.conformance.inputs import creation, reference
from tests.runtime.storage.test_conformance import sqlite, sqlite_at_once

# isort: split
import psycopg


async def check_restoration(open_store: OpenStore) -> None:
    """Commits raise the epoch. A restored store has another id and knows the former one, and its
    brands take no payments until each is finished; a hold of staff stays. A brand that is added
    meanwhile waits as well."""
    async with open_store() as store:
        before = await store.state()
        await submit_batch(store, (creation(1), NOON))
        used = await store.state()
        assert used.mark.store_id == before.mark.store_id
        assert used.mark.epoch == before.mark.epoch + 1
        assert store.raised_state == used
        await store.admin.hold_brand(BrandHold("globex", NOON, "ada"))
        holds = [BrandHold(each, NOON, RESTORATION) for each in ("acme", "globex")]
        await store.admin.begin_restoration("another", holds)
        lost = RecordLostUse("acme", "order-7", "LOST", "ada")
        await submit_batch(
            store, (MarkRestored(reference(1), "ada"), after_noon(1)), (lost, after_noon(2))
        )
    async with open_store() as store:
        restored = await store.state()
        assert (restored.mark.store_id, *restored.former_ids) == ("another", used.mark.store_id)
        assert restored.mark.epoch >= used.mark.epoch
        assert (await store.configuration()).restored_brands == {"acme", "globex"}
        assert await store.admin.finish_restoration("acme")
        assert not await store.admin.finish_restoration("acme")
        for _ in range(2):
            await store.admin.save_brands([a_brand(id="initech")])
            assert (await store.configuration()).restored_brands == {"globex", "initech"}
        finished = [await store.admin.finish_restoration(each) for each in ("globex", "initech")]
        assert finished == [True, True]
        await store.admin.save_brands([a_brand(id="initech"), a_brand(id="hooli")])
        assert not (await store.configuration()).restored_brands
        assert [(each.brand, each.held_by) for each in await store.admin.brand_holds()] == [
            ("globex", "ada")
        ]
        found = await store.transaction(reference(1))
        assert found is not None
        assert found.progress.is_restored
        again = creation(2, merchant_reference="order-7")
        (refused,) = await submit_batch(store, (again, after_noon(DAY)))
        assert isinstance(refused, Rejected), "a reference of a lost payment is used for good (C12)"
        assert "ask the gateway's staff" in refused.problem.detail, "nobody can look it up"


@pytest.mark.spec("C6", "C12", "S6")
@pytest.mark.parametrize("fresh", [sqlite_at_once, sqlite])
async def test_a_store_says_how_far_it_has_come(
    fresh: Callable[[Path], OpenStore], tmp_path: Path
) -> None:
    await check_restoration(fresh(tmp_path))


@pytest.mark.spec("C6", "C12", "S6")
async def test_postgresql_says_how_far_it_has_come(migrated_database: str) -> None:
    await check_restoration(lambda: open_postgres(migrated_database, serving=True))


async def check_epochs(open_store: OpenStore, open_command: OpenStore) -> None:
    """Of a process that serves one commit in a second raises the epoch, and another may be made to;
    of a command each raises one of its own, once it counts them."""
    async with open_store() as store:
        before = (await store.state()).mark
        await submit_batch(store, (creation(1), NOON))
        await submit_batch(store, (creation(2), after_noon(1)))
        assert store.has_unmarked_commits
        await store.raise_epoch()
        assert not store.has_unmarked_commits
        raised = await store.state()
        assert store.raised_state == raised
        assert (raised.mark.epoch, raised.mark.command_epoch) == (before.epoch + 2, 0)

    async with open_command() as command:
        await submit_batch(command, (creation(3), after_noon(2)))
        assert (await command.state()).mark == raised.mark
        assert command.raised_state is None
        command.count_commands()
        await submit_batch(command, (creation(4), after_noon(3)))
        await command.admin.save_brands([a_brand()])
        assert not command.has_unmarked_commits
        counted = await command.state()
        assert command.raised_state == counted
        assert (counted.mark.epoch, counted.mark.command_epoch) == (raised.mark.epoch, 2)
        assert counted.has_all_of(raised.mark)
        assert not raised.has_all_of(counted.mark)


@pytest.mark.spec("C6")
async def test_a_store_tells_commits_of_commands_from_those_that_were_served(
    tmp_path: Path,
) -> None:
    file = tmp_path / "gateway.db"
    await check_epochs(
        lambda: open_sqlite(file, serving=True), lambda: open_sqlite(file, serving=False)
    )


@pytest.mark.spec("C6")
async def test_postgresql_tells_them_apart(migrated_database: str) -> None:
    await check_epochs(
        lambda: open_postgres(migrated_database, serving=True),
        lambda: open_postgres(migrated_database, serving=False),
    )


@pytest.mark.spec("C6")
async def test_a_node_does_not_wait_for_one_that_raises_the_epoch(migrated_database: str) -> None:
    async with open_postgres(migrated_database, serving=True) as store:
        with psycopg.connect(migrated_database) as other:
            other.execute("SELECT FROM store_state FOR UPDATE")
            await submit_batch(store, (creation(1), NOON))
            assert store.raised_state is None, "it was raised by nobody, and is by a later commit"
