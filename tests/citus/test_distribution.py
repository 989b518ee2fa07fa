"""Tables are distributed with their rows, spread over the workers, and stay so."""

from __future__ import annotations

from contextlib import closing
from uuid import UUID, uuid4

import pytest
import trio

from mmo_sansio.messages.queries import LookUp
from mmo_sansio.values.clock import HOUR, Instant
from mmo_trio.storage.interface.admin_types import CountDimension, CountQuery
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import distribute_store
from mmo_trio.storage.postgres import migrations, open_postgres
from mmo_trio.storage.postgres.distribution import DISTRIBUTED_TABLES
from mmo_trio.storage.postgres.migrations import scripts
from mmo_trio.storage.postgres.partitions import maintain_partitions
from mmo_trio.storage.postgres.trio_connection import open_connection
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import after_noon, submit_batch
from tests.conformance.inputs import creation, reference
from tests.support.citus_cluster import SHARDS

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

BRANDS = [f"brand-{number}" for number in range(16)]


async def create_one_each(store: Store, first: int = 0) -> None:
    """A payment of each brand, in one batch over both workers."""
    await submit_batch(
        store,
        *(
            (creation(first + nth, brand_id=brand), after_noon(first + nth))
            for nth, brand in enumerate(BRANDS)
        ),
    )


async def all_found(store: Store, first: int = 0) -> bool:
    """Whether the payment of each brand is there."""
    found = [
        await store.look_up(LookUp(brand, reference(first + nth)))
        for nth, brand in enumerate(BRANDS)
    ]
    return None not in found


async def test_rows_of_before_are_distributed_and_found(undistributed: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(undistributed, serving=True) as store:
            await create_one_each(store)
            with pytest.raises(
                StoreUnusable, match=r"processes that serve this database: 1: stop them"
            ):
                await distribute_store(undistributed)
        for _ in range(2):
            await distribute_store(undistributed)
        async with open_postgres(undistributed, serving=True) as store:
            assert await all_found(store)
            await create_one_each(store, 100)
            assert await all_found(store, 100)
            assert await store.integrity_errors() == []


async def test_brands_are_spread_over_both_workers(distributed: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(distributed, serving=True) as store:
            await create_one_each(store)
    with closing(psycopg.connect(distributed)) as connection:
        rows = connection.execute(
            "SELECT nodeport, result::integer FROM run_command_on_placements('transactions', "
            "'SELECT count(*) FROM %s')"
        ).fetchall()
    by_worker: dict[int, int] = {}
    for port, count in rows:
        by_worker[port] = by_worker.get(port, 0) + count
    assert sum(by_worker.values()) == len(BRANDS)
    assert len(by_worker) == 2
    assert min(by_worker.values()) > 0


async def test_every_table_has_the_same_shards_in_the_same_places(distributed: str) -> None:
    with closing(psycopg.connect(distributed)) as connection:
        rows = connection.execute(
            "SELECT logicalrelid::text, partmethod, colocationid FROM pg_dist_partition"
        ).fetchall()
    methods = {table: method for table, method, _ in rows}
    assert all(methods[table] == "h" for table in (*DISTRIBUTED_TABLES, "brand_batches"))
    assert methods["batches"] == "n", "Citus knows it, so a commit that writes it is in two phases"
    assert len({place for _, method, place in rows if method == "h"}) == 1


async def test_partitions_that_are_made_later_are_distributed(distributed: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with await open_connection(distributed) as connection:
            partitions = await connection.execute(
                "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = "
                "'callback_bodies'::regclass"
                " ORDER BY 1 DESC LIMIT 3"
            )
            dropped = [
                name for (name,) in await partitions.fetchall() if not name.endswith("_default")
            ]
            for name in dropped:
                await connection.execute(f"DROP TABLE {name}".encode())
            await maintain_partitions(connection)
            for name in dropped:
                shards = await connection.execute(
                    "SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = to_regclass(%s)",
                    (name,),
                )
                assert await shards.fetchone() == (SHARDS,), name


async def test_a_commit_of_several_brands_is_atomic(distributed: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(distributed, serving=True) as store:
            await create_one_each(store)
            assert await all_found(store)
    with closing(psycopg.connect(distributed)) as connection:
        records = connection.execute("SELECT brand FROM brand_batches WHERE stamp > 0").fetchall()
    assert records == [(BRANDS[0],)], "one row, in the shard of the first brand"


async def test_a_commit_that_was_given_up_never_takes_place(distributed: str) -> None:
    lost = uuid4()
    with closing(psycopg.connect(distributed, autocommit=True)) as connection:
        void = connection.execute(
            "INSERT INTO brand_batches (brand, id, stamp, is_void) VALUES ('brand-1', %s, 0, true)"
            " ON CONFLICT (brand, id) DO UPDATE SET touched_at = excluded.touched_at RETURNING "
            "NOT is_void",
            (lost,),
        ).fetchone()
        assert void == (False,)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(
                "INSERT INTO brand_batches (brand, id, stamp) VALUES ('brand-1', %s, 1)", (lost,)
            )


async def test_counts_are_added_up_and_old_rows_of_commits_purged(distributed: str) -> None:
    query = CountQuery(HOUR, Instant(0), after_noon(HOUR))
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(distributed, serving=True) as store:
            await create_one_each(store)
            counted = await store.admin.count_payments(query, by=CountDimension.BRAND)
            assert {each.key: each.count for each in counted} == dict.fromkeys(BRANDS, 1)
            await store.roll_up_counts()
            await create_one_each(store, 100)
            await store.roll_up_counts()
            counted = await store.admin.count_payments(query, by=CountDimension.BRAND)
            assert {each.key: each.count for each in counted} == dict.fromkeys(BRANDS, 2)
            with closing(psycopg.connect(distributed, autocommit=True)) as connection:
                old = UUID(int=1 << 64)
                connection.execute(
                    "INSERT INTO brand_batches (brand, id, stamp, touched_at) VALUES ('brand-1', "
                    "%s, 77, '2020-01-01')",
                    (old,),
                )
                connection.execute(
                    "INSERT INTO batches (id, stamp, touched_at) VALUES (%s, 78, '2020-01-01')",
                    (UUID(int=1 << 65),),
                )
                await store.purge()
                left = connection.execute(
                    "SELECT stamp FROM brand_batches WHERE stamp < 100"
                ).fetchall()
                assert left == []
                assert connection.execute(
                    "SELECT stamp FROM batches WHERE stamp < 100"
                ).fetchall() == [(78,)]


async def test_a_migration_of_later_sets_what_the_shards_need(
    undistributed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await distribute_store(undistributed)
    later = scripts() | {
        2: "ALTER TABLE transactions SET (autovacuum_vacuum_scale_factor = 0.03);\n"
    }
    monkeypatch.setattr(migrations, "scripts", lambda: later)
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(undistributed, serving=True) as store:
            await create_one_each(store)
            assert await all_found(store)
    with closing(psycopg.connect(undistributed, autocommit=True)) as connection:
        options = connection.execute("""
            SELECT DISTINCT result FROM run_command_on_shards('transactions',
                'SELECT array_to_string(reloptions, '','')
                FROM pg_class WHERE oid = ''%s''::regclass')
        """).fetchall()
        keys = connection.execute("""
            SELECT DISTINCT result FROM run_command_on_shards('transactions',
                'SELECT string_agg(attname, '' ''
                ORDER BY attnum) FROM pg_attribute WHERE attrelid = (SELECT indexrelid FROM pg_index
                WHERE indrelid = ''%s''::regclass AND indisprimary)')
        """).fetchall()
    assert len(options) == 1
    assert "autovacuum_vacuum_scale_factor=0.03" in options[0][0]
    assert keys == [("gateway_reference brand",)]
