"""Tables that are distributed by brand over the workers of Citus, co-located, so that a payment's batch has one shard.

What has no brand, or is written apart from payments, stays on the coordinator: leases, channels, brands and their keys,
the suspense book, deposits, the audit log and the console's tables. Each commit leaves a row that says whether it took
place. One that writes only rows of brands leaves it in `brand_batches`, in a shard of its rows: then one worker
commits, in one phase. One that writes the coordinator's tables as well leaves it in `batches`, of which Citus knows:
then it commits in two phases, and the coordinator's commit decides for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.net_effect import NetEffect

CITUS_MAJOR_MIN = 12
"""The oldest version that this was made for; 13.0 is tested."""

DISTRIBUTED_TABLES: Sequence[str] = (
    "transactions",
    "reference_uses",
    "intents",
    "callbacks",
    "callback_bodies",
    "journal",
    "wakes",
    "receipts",
    "figures",
    "figure_deltas",
    "brand_usage",
)
"""All have a column `brand`, which is in each unique key of theirs."""

BRAND_BATCHES = "brand_batches"
"""The rows of commits that write only rows of brands."""

_CREATE_BRAND_BATCHES = """
    CREATE TABLE IF NOT EXISTS brand_batches (
        brand text NOT NULL,
        id uuid NOT NULL,
        stamp bigint NOT NULL,
        is_void boolean NOT NULL DEFAULT false,
        touched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (brand, id)
    )
"""
_HAS_CATALOG = "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL"
_IS_DISTRIBUTED = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('brand_batches'))"
_SELECT_UNDISTRIBUTED = """
    SELECT wanted FROM unnest(%s::text[]) WITH ORDINALITY AS named (wanted, nth)
    WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(wanted))
    ORDER BY nth
"""
_COUNT_SERVING = "SELECT count(*) FROM holders WHERE NOT is_over AND alive_until > clock_timestamp()"


async def is_distributed(connection: PostgresConnection) -> bool:
    """Return whether `distribute` has been completed in this database."""
    ((has_catalog,),) = await fetch_rows(connection, _HAS_CATALOG)
    if not has_catalog:
        return False
    ((found,),) = await fetch_rows(connection, _IS_DISTRIBUTED)
    return bool(found)


async def distribute(connection: PostgresConnection) -> None:
    """Distribute the tables of this version, with their rows. May be repeated, also after an interruption.

    Raises StoreUnusable when the server has no Citus of a suitable version, knows no workers, or while a process serves
    the database.
    """
    await _require_citus(connection)
    ((serving,),) = await fetch_rows(connection, _COUNT_SERVING)
    if serving and not await is_distributed(connection):
        raise StoreUnusable(
            f"processes that serve this database: {serving}: stop them before its tables are distributed, as their"
            " statements are for one server"
        )
    await fetch_rows(connection, "SELECT create_distributed_function('still_so(boolean)')")
    await _distribute_tables(connection, DISTRIBUTED_TABLES)
    await connection.execute(_CREATE_BRAND_BATCHES.encode())
    for _ in await fetch_rows(connection, _SELECT_UNDISTRIBUTED, ["batches"]):
        await connection.execute("SELECT citus_add_local_table_to_metadata('batches')")
    await _distribute_tables(connection, ["brand_batches"])


async def _distribute_tables(connection: PostgresConnection, tables: Sequence[str]) -> None:
    for (table,) in await fetch_rows(connection, _SELECT_UNDISTRIBUTED, list(tables)):
        together = "default" if table == "transactions" else "transactions"
        await connection.execute(
            "SELECT create_distributed_table(%s, 'brand', colocate_with => %s)", (table, together), prepare=False
        )


async def _require_citus(connection: PostgresConnection) -> None:
    found = await fetch_rows(connection, "SELECT extversion FROM pg_extension WHERE extname = 'citus'")
    if not found:
        raise StoreUnusable(
            "tables can't be distributed: the database has no extension citus. Install Citus on all servers, add it to"
            " shared_preload_libraries, and run CREATE EXTENSION citus"
        )
    version = str(found[0][0])
    if int(version.split(".")[0]) < CITUS_MAJOR_MIN:
        raise StoreUnusable(f"Citus {version} is too old: {CITUS_MAJOR_MIN} or later is needed")
    ((coordinators, workers),) = await fetch_rows(
        connection,
        "SELECT count(*) FILTER (WHERE groupid = 0), count(*) FILTER (WHERE shouldhaveshards AND isactive)"
        " FROM pg_dist_node",
    )
    if not coordinators:
        raise StoreUnusable(
            "Citus doesn't know its coordinator: run SELECT citus_set_coordinator_host('HOST', PORT) on it"
        )
    if not workers:
        raise StoreUnusable("Citus has no workers: run SELECT citus_add_node('HOST', PORT) on its coordinator")


def commit_brand(effect: NetEffect) -> str | None:
    """Return the brand in whose shard a batch leaves its row; None when it writes the coordinator's tables, too."""
    if effect.deposits or effect.claims or effect.suspense or effect.breakers:
        return None
    return next((each.brand for each in effect.journal if each.brand), None)
