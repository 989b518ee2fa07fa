"""The claims of `ownership` where tables are distributed by brand: leases and channels are on the coordinator, and the
durable intents in the shards of their brands.

What has to be found first goes to all shards, reads an index of few rows there, and locks nothing. Each claim or search
is then a statement for one brand, so for one shard; what another process has claimed meanwhile doesn't match it any
more.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

import psycopg
import trio

from mmo_trio.storage.postgres.errors import PostgresErrorKind, classify_error
from mmo_trio.storage.postgres.queries import fetch_rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.statements import Row

_SELECT_GAPS = """
    SELECT coalesce(lag(brand) OVER (ORDER BY brand), ''), brand FROM (
        SELECT c.brand FROM channels AS c JOIN holders AS h ON h.id = c.holder AND h.id > 0 AND NOT h.is_over
        WHERE c.holder <> %(me)s OR NOT %(is_known)s OR EXISTS (
            SELECT FROM unnest(%(known)s::text[], %(fences)s::bigint[]) AS k (brand, fence)
            WHERE k.brand = c.brand AND k.fence = c.fence
        )
        UNION SELECT unnest(%(excluding)s::text[])
    ) AS settled ORDER BY brand
"""
"""The gaps between brands whose channels are not to be claimed, in the order of the index."""

SELECT_WAITING_IN_GAPS = """
    SELECT DISTINCT i.brand FROM intents AS i
    JOIN unnest(%s::text[], %s::text[]) AS gap (after, before) ON i.brand > gap.after AND i.brand < gap.before
    WHERE i.kind = 'callback'
"""
SELECT_WAITING_AFTER = "SELECT DISTINCT i.brand FROM intents AS i WHERE i.kind = 'callback' AND i.brand > %s"
"""To all shards; each reads the index of its waiting callbacks, but not where a channel has an owner: a merchant who
is down may have many."""

SELECT_WAITING_BRANDS = """
    SELECT DISTINCT i.brand FROM intents AS i
    JOIN unnest(%s::text[]) AS owned (brand) ON i.brand = owned.brand
    WHERE i.kind = 'callback' AND i.gateway_reference <> ALL (%s::text[])
"""
"""To all shards; each reads the index of its waiting callbacks. Without it each owned brand would cost a statement."""

BRANDS_PER_SEARCH = 8
"""Brands whose callbacks are searched for in one transaction."""

SEARCH_FOR_S = 0.5
"""Seconds after which no further brands' callbacks are searched for; the next search finds the others. A search that
takes longer than its deadline would be in doubt, and with it every channel of this process."""

_SELECT_FENCES = """
    SELECT c.brand, c.fence FROM channels AS c JOIN holders AS h ON h.id = c.holder AND NOT h.is_over
    WHERE c.holder = %s AND c.brand = ANY (%s::text[])
"""
_SELECT_ENDED_HOLDERS = "SELECT id FROM holders WHERE is_over OR id = 0"
SELECT_ABANDONED = """
    SELECT brand, gateway_reference, kind FROM intents
    WHERE holder = ANY (%s::bigint[]) AND kind <> 'callback' ORDER BY id LIMIT %s
"""
"""To all shards; each reads at most so many rows of an index."""

CLAIM_ABANDONED = """
    WITH taken AS (
        UPDATE intents AS i SET holder = %(me)s
        FROM unnest(%(references)s::text[], %(kinds)s::text[]) AS old (gateway_reference, kind)
        WHERE i.brand = %(brand)s AND i.gateway_reference = old.gateway_reference AND i.kind = old.kind
            AND i.holder = ANY (%(ended)s::bigint[])
        RETURNING i.id, i.gateway_reference, i.kind
    )
    SELECT gateway_reference, kind, order_row, progress
    FROM taken JOIN transactions AS t USING (gateway_reference) WHERE t.brand = %(brand)s ORDER BY taken.id
"""
FIND_CALLBACKS = """
    WITH found AS MATERIALIZED (
        SELECT id, gateway_reference FROM intents
        WHERE brand = %(brand)s AND kind = 'callback' AND gateway_reference <> ALL (%(taken)s::text[])
        ORDER BY id LIMIT %(room)s FOR UPDATE SKIP LOCKED
    )
    SELECT gateway_reference, %(fence)s::bigint, order_row, progress, t.brand, found.id
    FROM found JOIN transactions AS t USING (gateway_reference) WHERE t.brand = %(brand)s ORDER BY found.id
"""
"""Without a look at the channel, which is on another server and would cost several times as much. If another process
has claimed the channel since `_SELECT_FENCES`, this process sends nothing, as it does not own the channel any more."""


async def waiting_brands(connection: PostgresConnection, values: Mapping[str, object]) -> list[str]:
    """Return the brands that have callbacks waiting, except those whose channel would not be claimed with these values:
    `me`, `is_known`, `known`, `fences` and `excluding`."""
    cursor = await connection.execute(_SELECT_GAPS.encode(), values)
    gaps = await cursor.fetchall()
    waiting = await fetch_rows(connection, SELECT_WAITING_AFTER, gaps[-1][1] if gaps else "")
    if gaps:
        after, before = map(list, zip(*gaps, strict=True))
        waiting += await fetch_rows(connection, SELECT_WAITING_IN_GAPS, after, before)
    return [brand for (brand,) in waiting]


async def claim_abandoned(connection: PostgresConnection, holder: int, limit: int) -> Sequence[Row]:
    """Claim durable intents whose holder's lease has ended, the oldest of each brand first; return gateway_reference,
    kind, order_row and progress of each."""
    ended = [id for (id,) in await fetch_rows(connection, _SELECT_ENDED_HOLDERS)]
    by_brand: dict[str, list[tuple[str, str]]] = {}
    for brand, reference, kind in await fetch_rows(connection, SELECT_ABANDONED, ended, limit):
        by_brand.setdefault(brand, []).append((reference, kind))
    claimed: list[Row] = []
    for brand, keys in sorted(by_brand.items()):
        references, kinds = map(list, zip(*keys, strict=True))
        values = {"me": holder, "brand": brand, "references": references, "kinds": kinds, "ended": ended}
        cursor = await connection.execute(CLAIM_ABANDONED.encode(), values, binary=True)
        claimed += await cursor.fetchall()
    return claimed


async def find_callbacks(
    connection: PostgresConnection,
    room: Mapping[str, int],
    taken: Mapping[str, Collection[str]],
    *,
    holder: int,
    known: Mapping[str, int] | None,
) -> Sequence[Row]:
    """Find so many callbacks of each of these brands, the oldest first, of as many brands as is possible in
    SEARCH_FOR_S; return gateway_reference, fence, order_row, progress, brand and id of each."""
    began_at = trio.current_time()
    stored = dict[str, int](await fetch_rows(connection, _SELECT_FENCES, holder, list(room)))
    owned = {brand: fence for brand, fence in stored.items() if known is None or known.get(brand) == fence}
    every_taken = [each for brand in owned for each in taken.get(brand, ())]
    brands = [brand for (brand,) in await fetch_rows(connection, SELECT_WAITING_BRANDS, list(owned), every_taken)]
    random.shuffle(brands)  # No brand is always among those for which the time is not enough.
    found: list[Row] = []
    for first in range(0, len(brands), BRANDS_PER_SEARCH):
        if first and trio.current_time() - began_at > SEARCH_FOR_S:
            break
        some = {brand: owned[brand] for brand in brands[first : first + BRANDS_PER_SEARCH]}
        try:
            found += await _find_of_brands(connection, some, room, taken)
        except psycopg.Error as error:
            if not found or classify_error(error) is PostgresErrorKind.DISCONNECTED:
                raise
            break  # What has been found is this process's to send.
    return found


async def _find_of_brands(
    connection: PostgresConnection,
    fences: Mapping[str, int],
    room: Mapping[str, int],
    taken: Mapping[str, Collection[str]],
) -> Sequence[Row]:
    cursors = []
    async with connection.pipeline():
        for brand, fence in sorted(fences.items()):
            values = {"brand": brand, "fence": fence, "room": room[brand], "taken": list(taken.get(brand, ()))}
            cursors.append(await connection.execute(FIND_CALLBACKS.encode(), values, binary=True))
    return [row for cursor in cursors for row in await cursor.fetchall()]
