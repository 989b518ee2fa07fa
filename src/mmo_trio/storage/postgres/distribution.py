"""Tables that are distributed by brand over the workers of Citus, co-located, so that a payment's
batch has one shard.

What has no brand, or is written apart from payments, stays on the coordinator: leases, channels,
brands and their keys, the suspense book, deposits, the audit log and the console's tables. Each
commit leaves a row that says whether it took place. One that writes only rows of brands leaves it
in `brand_batches`, in a shard of its rows: then one worker commits, in one phase. One that writes
the coordinator's tables as well leaves it in `batches`, of which Citus knows: then it commits in
two phases, and the coordinator's commit decides for all of them.

What has to be claimed or found goes to all shards first, reads an index of few rows there, and
locks nothing. Each claim or search is then a statement for one brand, so for one shard; what
another process has claimed meanwhile doesn't match it any more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import trio
from attrs import evolve, frozen

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.postgres.commits import Commit
from mmo_trio.storage.postgres.errors import PostgresErrorKind, classify_error
from mmo_trio.storage.postgres.ownership import count_serving
from mmo_trio.storage.postgres.pipeline import BoundStatement, Row
from mmo_trio.storage.postgres.statements import BrandStatement, CountRows, InsertStatement, Rows
from mmo_trio.storage.postgres.tables import POSTGRES_SCHEMA, CallbackSearch, Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sql.schema import SqlSchema

# The oldest version that this was made for; 13.0 is tested.
CITUS_MAJOR_MIN = 12

# All have a column `brand`, which is in each unique key of theirs.
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

# The rows of commits that write only rows of brands.
BRAND_BATCHES = "brand_batches"

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
_IS_DISTRIBUTED = (
    "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = "
    "to_regclass('brand_batches'))"
)
_SELECT_UNDISTRIBUTED = """
    SELECT wanted FROM unnest(%s::text[]) WITH ORDINALITY AS named (wanted, nth)
    WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(wanted))
    ORDER BY nth
"""

# The gaps between brands whose channels are not to be claimed, in the order of the index.
_SELECT_GAPS = """
    SELECT coalesce(lag(brand) OVER (ORDER BY brand), ''), brand FROM (
        SELECT c.brand FROM channels AS c JOIN holders AS h ON h.id = c.holder AND h.id > 0
        AND NOT h.is_over
        WHERE c.holder <> %(me)s OR NOT %(is_known)s OR EXISTS (
            SELECT FROM unnest(%(known)s::text[], %(fences)s::bigint[]) AS k (brand, fence)
            WHERE k.brand = c.brand AND k.fence = c.fence
        )
        UNION SELECT unnest(%(excluding)s::text[])
    ) AS settled ORDER BY brand
"""

SELECT_WAITING_IN_GAPS = """
    SELECT DISTINCT i.brand FROM intents AS i
    JOIN unnest(%s::text[], %s::text[]) AS gap (after, before) ON i.brand > gap.after
    AND i.brand < gap.before
    WHERE i.kind = 'callback'
"""

# To all shards; each reads the index of its waiting callbacks, but not where a channel has an
# owner: a merchant who is down may have many.
SELECT_WAITING_AFTER = (
    "SELECT DISTINCT i.brand FROM intents AS i WHERE i.kind = 'callback' AND i.brand > %s"
)

# To all shards; each reads the index of its waiting callbacks. Without it each owned brand would
# cost a statement.
SELECT_WAITING_BRANDS = """
    SELECT DISTINCT i.brand FROM intents AS i
    JOIN unnest(%s::text[]) AS owned (brand) ON i.brand = owned.brand
    WHERE i.kind = 'callback' AND i.gateway_reference <> ALL (%s::text[])
"""

# Brands whose callbacks are searched for in one transaction.
BRANDS_PER_SEARCH = 8

# Seconds after which no further brands' callbacks are searched for; the next search finds the
# others. A search that takes longer than its deadline would be in doubt, and with it every channel
# of this process.
SEARCH_FOR_S = 0.5

_SELECT_FENCES = """
    SELECT c.brand, c.fence FROM channels AS c JOIN holders AS h ON h.id = c.holder
    AND NOT h.is_over
    WHERE c.holder = %s AND c.brand = ANY (%s::text[])
"""
_SELECT_ENDED_HOLDERS = "SELECT id FROM holders WHERE is_over OR id = 0"

# To all shards; each reads at most so many rows of an index.
SELECT_ABANDONED = """
    SELECT brand, gateway_reference, kind FROM intents
    WHERE holder = ANY (%s::bigint[]) AND kind <> 'callback' ORDER BY id LIMIT %s
"""

CLAIM_ABANDONED = """
    WITH taken AS (
        UPDATE intents AS i SET holder = %(me)s
        FROM unnest(%(references)s::text[], %(kinds)s::text[]) AS old (gateway_reference, kind)
        WHERE i.brand = %(brand)s AND i.gateway_reference = old.gateway_reference
        AND i.kind = old.kind
            AND i.holder = ANY (%(ended)s::bigint[])
        RETURNING i.id, i.gateway_reference, i.kind, i.since, i.hint, i.provider_reference
    )
    SELECT gateway_reference, kind, since, hint, provider_reference, order_row, progress
    FROM taken JOIN transactions AS t USING (gateway_reference) WHERE t.brand = %(brand)s
    ORDER BY taken.id
"""

# Without a look at the channel, which is on another server and would cost several times as much. If
# another process has claimed the channel since `_SELECT_FENCES`, this process sends nothing, as it
# does not own the channel any more.
FIND_CALLBACKS = """
    WITH found AS MATERIALIZED (
        SELECT id, gateway_reference FROM intents
        WHERE brand = %(brand)s AND kind = 'callback' AND gateway_reference
            <> ALL (%(taken)s::text[])
        ORDER BY id LIMIT %(room)s FOR UPDATE SKIP LOCKED
    )
    SELECT gateway_reference, %(fence)s::bigint, order_row, progress, t.brand, found.id
    FROM found JOIN transactions AS t USING (gateway_reference) WHERE t.brand = %(brand)s
    ORDER BY found.id
"""


@frozen
class DistributedTables(Tables):
    """Our tables where they are distributed by brand."""

    schema: SqlSchema = evolve(
        POSTGRES_SCHEMA,
        held_until=(*POSTGRES_SCHEMA.held_until, (BRAND_BATCHES, "stamp")),
        is_distributed=True,
    )
    session_setup: str = "SET plan_cache_mode = force_custom_plan;"
    """A statement's shard is found by its values."""
    commit_tables: Sequence[str] = ("batches", BRAND_BATCHES)

    def bind(
        self, statement: BrandStatement | InsertStatement, rows: Rows
    ) -> Iterator[BoundStatement]:
        return statement.bind_on_shards(rows)

    def bind_counted(
        self, statement: BrandStatement, rows: Rows, count: CountRows = len
    ) -> Iterator[BoundStatement]:
        return statement.bind_on_shards(rows, count)

    def guard(self, commit: Commit[Any], effect: NetEffect) -> None:
        """Leave the epoch, which is in no shard: it would make a second phase of the commit."""
        commit.brand = commit_brand(effect)
        commit.raiser = None
        commit.may_join = False

    async def waiting_brands(
        self, connection: PostgresConnection, values: Mapping[str, object]
    ) -> Sequence[str]:
        # Between brands that are settled, and after the last of them.
        cursor = await connection.execute(_SELECT_GAPS.encode(), values)
        gaps = await cursor.fetchall()
        if not gaps:
            return [brand for (brand,) in await fetch_rows(connection, SELECT_WAITING_AFTER, "")]

        last_settled = gaps[-1][1]
        waiting = await fetch_rows(connection, SELECT_WAITING_AFTER, last_settled)
        after, before = map(list, zip(*gaps, strict=True))
        waiting += await fetch_rows(connection, SELECT_WAITING_IN_GAPS, after, before)
        return [brand for (brand,) in waiting]

    async def find_callbacks(
        self, connection: PostgresConnection, search: CallbackSearch
    ) -> tuple[int | None, Sequence[Row]]:
        """Search for those of as many brands as is possible in SEARCH_FOR_S, without their
        marks."""
        # 1. Which channels are ours, as far as the caller knows the same.
        began_at = trio.current_time()
        stored = dict[str, int](
            await fetch_rows(connection, _SELECT_FENCES, search.holder, list(search.room))
        )
        known: Mapping[str, int] = stored
        if search.known is not None:
            known = search.known

        owned = {brand: fence for brand, fence in stored.items() if known.get(brand) == fence}

        # 2. Which of their brands have callbacks waiting: one statement for all shards.
        taken = [payment for brand in owned for payment in search.taken.get(brand, ())]
        brands = [
            brand
            for (brand,) in await fetch_rows(connection, SELECT_WAITING_BRANDS, list(owned), taken)
        ]

        # 3. The callbacks, shard by shard, in any order: no brand is always among those for which
        #    the time is not enough.
        random.shuffle(brands)
        found: list[Row] = []
        for first in range(0, len(brands), BRANDS_PER_SEARCH):
            if first and trio.current_time() - began_at > SEARCH_FOR_S:
                break

            some = {brand: owned[brand] for brand in brands[first : first + BRANDS_PER_SEARCH]}
            try:
                found += await _find_of_brands(connection, some, search)
            except psycopg.Error as error:
                if not found or classify_error(error) is PostgresErrorKind.DISCONNECTED:
                    raise

                # What has been found is this process's to send.
                break

        return None, found

    async def claim_abandoned(
        self, connection: PostgresConnection, holder: int, limit: int
    ) -> Sequence[Row]:
        """Claim the oldest of each brand first."""
        ended = [id for (id,) in await fetch_rows(connection, _SELECT_ENDED_HOLDERS)]
        by_brand: dict[str, list[tuple[str, str]]] = {}
        for brand, reference, kind in await fetch_rows(connection, SELECT_ABANDONED, ended, limit):
            by_brand.setdefault(brand, []).append((reference, kind))

        # In the order of the brands, as every process claims: no two wait for each other.
        claimed: list[Row] = []
        for brand, keys in sorted(by_brand.items()):
            references, kinds = map(list, zip(*keys, strict=True))
            values = {
                "me": holder,
                "brand": brand,
                "references": references,
                "kinds": kinds,
                "ended": ended,
            }
            cursor = await connection.execute(CLAIM_ABANDONED.encode(), values, binary=True)
            claimed += await cursor.fetchall()

        return claimed

    async def counted_groups(
        self, connection: PostgresConnection
    ) -> Sequence[tuple[str, Sequence[object]]]:
        brands = await fetch_rows(connection, "SELECT DISTINCT brand FROM figure_deltas")
        return [("WHERE brand = %s", brand) for brand in brands]


async def _find_of_brands(
    connection: PostgresConnection, fences: Mapping[str, int], search: CallbackSearch
) -> Sequence[Row]:
    cursors = []
    async with connection.pipeline():
        for brand, fence in sorted(fences.items()):
            taken = list(search.taken.get(brand, ()))
            values = {"brand": brand, "fence": fence, "room": search.room[brand], "taken": taken}
            cursors.append(await connection.execute(FIND_CALLBACKS.encode(), values, binary=True))

    return [row for cursor in cursors for row in await cursor.fetchall()]


async def find_tables(connection: PostgresConnection) -> Tables:
    """Return how the tables of this database lie."""
    if await _is_distributed(connection):
        return DistributedTables()
    return Tables()


async def _is_distributed(connection: PostgresConnection) -> bool:
    """Return whether `distribute` has been completed in this database."""
    ((has_catalog,),) = await fetch_rows(connection, _HAS_CATALOG)
    if not has_catalog:
        return False
    ((found,),) = await fetch_rows(connection, _IS_DISTRIBUTED)
    return bool(found)


def commit_brand(effect: NetEffect) -> str | None:
    """Return the brand in whose shard a batch leaves its row; None when it writes the coordinator's
    tables, too."""
    unsharded = (effect.deposits, effect.claims, effect.reversals, effect.breakers)
    book = (effect.suspense, effect.closed, effect.reopened)
    if any(unsharded) or any(book):
        return None
    return next((entry.brand for entry in effect.journal if entry.brand), None)


async def distribute(connection: PostgresConnection) -> None:
    """Distribute the tables of this version, with their rows. May be repeated, also after an
    interruption.

    Raises StoreUnusable when the server has no Citus of a suitable version, knows no workers, or
    while a process serves the database."""
    await _require_citus(connection)
    serving = await count_serving(connection)
    if serving and not await _is_distributed(connection):
        raise StoreUnusable(
            f"processes that serve this database: {serving}: stop them before its tables are "
            f"distributed, as their"
            " statements are for one server"
        )

    # `brand_batches` last: by it the tables count as distributed.
    await fetch_rows(connection, "SELECT create_distributed_function('still_so(boolean)')")
    await _distribute_tables(connection, DISTRIBUTED_TABLES)
    await connection.execute(_CREATE_BRAND_BATCHES.encode())
    for _ in await fetch_rows(connection, _SELECT_UNDISTRIBUTED, ["batches"]):
        await connection.execute("SELECT citus_add_local_table_to_metadata('batches')")

    await _distribute_tables(connection, ["brand_batches"])


async def _distribute_tables(connection: PostgresConnection, tables: Sequence[str]) -> None:
    # All beside the first, so that the rows of a brand are on one worker.
    for (table,) in await fetch_rows(connection, _SELECT_UNDISTRIBUTED, list(tables)):
        together = "transactions"
        if table == "transactions":
            together = "default"

        await connection.execute(
            "SELECT create_distributed_table(%s, 'brand', colocate_with => %s)",
            (table, together),
            prepare=False,
        )


async def _require_citus(connection: PostgresConnection) -> None:
    found = await fetch_rows(
        connection, "SELECT extversion FROM pg_extension WHERE extname = 'citus'"
    )
    if not found:
        raise StoreUnusable(
            "tables can't be distributed: the database has no extension citus. Install Citus on "
            "all servers, add it to"
            " shared_preload_libraries, and run CREATE EXTENSION citus"
        )

    version = str(found[0][0])
    if int(version.split(".")[0]) < CITUS_MAJOR_MIN:
        raise StoreUnusable(f"Citus {version} is too old: {CITUS_MAJOR_MIN} or later is needed")

    ((coordinators, workers),) = await fetch_rows(
        connection,
        "SELECT count(*) FILTER (WHERE groupid = 0), count(*) FILTER (WHERE shouldhaveshards AND "
        "isactive)"
        " FROM pg_dist_node",
    )
    if not coordinators:
        raise StoreUnusable(
            "Citus doesn't know its coordinator: run SELECT citus_set_coordinator_host('HOST', "
            "PORT) on it"
        )

    if not workers:
        raise StoreUnusable(
            "Citus has no workers: run SELECT citus_add_node('HOST', PORT) on its coordinator"
        )
