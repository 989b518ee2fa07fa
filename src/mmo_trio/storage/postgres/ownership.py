"""Leases and channels on PostgreSQL, by the server's clock: which processes are alive, and which
own which channel.

A lease that has run out isn't over until some process has marked its row (`EXPIRE_LEASES`), and can
be renewed before. To mark and to renew a lease exclude each other, however long either's commit
takes, so no process claims a channel whose owner may still rely on it. Every statement may be
repeated when its outcome is unknown."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import psycopg
import trio
from attrs import Factory, define

from mmo_sansio.messages.intents import IntentKind, durable_intent
from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT, BreakerSnapshot
from mmo_sansio.resilience.ownership import (
    LEASE_DURATION,
    LEASE_RENEWAL_INTERVAL,
    Channel,
    OwnershipCounts,
)
from mmo_sansio.values.clock import SECOND
from mmo_trio.storage.interface.admin_types import ServingProcess
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from mmo_trio.storage.postgres.connection_pool import ConnectionPool, PostgresCall
from mmo_trio.storage.postgres.errors import (
    PostgresErrorKind,
    classify_error,
    require_confirmation,
    translate_error,
)
from mmo_trio.storage.postgres.repeated_scans import ScanMarks, WholeScans
from mmo_trio.storage.postgres.tables import CallbackSearch, Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.serialization import parse_breaker, parse_transaction, serialize_breaker
from mmo_trio.system.waiting import end_then_checkpoint

T = TypeVar("T")

# How long a request may take: a lease has to be renewed in time.
OWNERSHIP_TIMEOUT_S = 2.0

# Seconds between two searches for channels without an owner at least: a little less than the
# owner's rounds.
CHANNEL_SCAN_INTERVAL_S = 0.25

# The holder of what commands schedule that serve nothing.
NO_HOLDER = 0

LEASE_DURATION_S = LEASE_DURATION / SECOND
LEASE_RENEWAL_INTERVAL_S = LEASE_RENEWAL_INTERVAL / SECOND

_BEGIN_LEASE = """
    INSERT INTO holders (alive_until) VALUES (clock_timestamp() + make_interval(secs => %s))
    RETURNING id
"""
_RENEW_LEASE = """
    UPDATE holders SET alive_until = clock_timestamp() + make_interval(secs => %s)
    WHERE id = %s AND id > 0 AND NOT is_over RETURNING id
"""
_END_LEASE = "UPDATE holders SET is_over = true, alive_until = clock_timestamp() WHERE id = %s"
EXPIRE_LEASES = """
    UPDATE holders SET is_over = true WHERE NOT is_over AND id > 0
    AND alive_until <= clock_timestamp()
"""
_COUNT_OWNERSHIP = """
    SELECT count(DISTINCT h.id), count(c.brand)
    FROM holders AS h LEFT JOIN channels AS c ON c.holder = h.id
    WHERE NOT h.is_over AND h.alive_until > clock_timestamp()
"""

# The recursion skips from brand to brand, along one callback of each.
_WAITING = """
    RECURSIVE waiting (brand) AS (
        (SELECT brand FROM intents WHERE kind = 'callback' ORDER BY brand LIMIT 1)
        UNION ALL
        SELECT (
            SELECT i.brand FROM intents AS i WHERE i.kind = 'callback' AND i.brand > w.brand
            ORDER BY i.brand LIMIT 1
        ) FROM waiting AS w WHERE w.brand IS NOT NULL
    )
"""

_NAMED = "waiting (brand) AS (SELECT unnest(%(waiting)s::text[]))"

# The fence detects a process that was quicker, and counts also what this process claims again.
_CLAIM_CHANNELS = """
    WITH {waiting}, free AS (
        SELECT w.brand, coalesce(c.fence, 0) AS fence
        FROM waiting AS w LEFT JOIN channels AS c ON c.brand = w.brand
        WHERE w.brand IS NOT NULL AND w.brand <> ALL (%(excluding)s::text[]) AND CASE
            WHEN c.holder = %(me)s THEN %(is_known)s AND NOT EXISTS (
                SELECT FROM unnest(%(known)s::text[], %(fences)s::bigint[]) AS k (brand, fence)
                WHERE k.brand = w.brand AND k.fence = c.fence
            )
            ELSE NOT EXISTS (SELECT FROM holders AS h WHERE h.id = c.holder
                AND h.id > 0 AND NOT h.is_over)
        END
    )
    INSERT INTO channels AS c (brand, holder, fence)
    SELECT free.brand, h.id, free.fence + 1 FROM free CROSS JOIN holders AS h
    WHERE h.id = %(me)s AND NOT h.is_over ORDER BY free.brand COLLATE "C"
    ON CONFLICT (brand) DO UPDATE SET holder = excluded.holder, fence = excluded.fence
        WHERE c.fence = excluded.fence - 1
    RETURNING brand, fence, breaker
"""

# In the order of the brands, as batches write them: no two wait for each other.
_RELEASE_CHANNELS = """
    WITH locked AS MATERIALIZED (
        SELECT c.brand, old.breaker
        FROM unnest(%s::text[], %s::bigint[], %s::bytea[]) AS old (brand, fence, breaker)
        JOIN channels AS c ON c.brand = old.brand AND c.fence = old.fence
        WHERE c.holder = %s ORDER BY c.brand COLLATE "C" FOR NO KEY UPDATE OF c
    )
    UPDATE channels AS c SET holder = 0, breaker = coalesce(locked.breaker, c.breaker)
    FROM locked WHERE c.brand = locked.brand
"""


@define(eq=False)
class PostgresChannelOwnership:
    """See :class:`mmo_trio.storage.interface.store.ChannelOwnership`."""

    pool: ConnectionPool
    lease_number: int
    """The number of this process's lease."""
    tables: Tables
    _has_ended_lease: bool = False
    _owner_renewed_at: float = -math.inf
    """When the channel owner renewed the lease last, by Trio's clock."""
    _channel_scans: WholeScans = Factory(lambda: WholeScans(CHANNEL_SCAN_INTERVAL_S))
    _marks: ScanMarks = Factory(ScanMarks)
    """Below which ids nothing waits of each brand's callbacks."""
    _is_closed: bool = False

    async def renew_lease(self) -> int:
        self._owner_renewed_at = trio.current_time()
        return await self._renew_lease()

    async def renew_lease_without_owner(self) -> None:
        """Renew the lease, unless this process has a channel owner that does."""
        if trio.current_time() - self._owner_renewed_at > 2 * LEASE_RENEWAL_INTERVAL_S:
            await self._renew_lease()

    async def _renew_lease(self) -> int:
        # One that was ended by this process is never renewed, whatever the server has learnt of it.
        number = self.lease_number
        if self._has_ended_lease:
            number = NO_HOLDER

        self.lease_number = await self._call_once(lambda c: renew_lease(c, number))
        self._has_ended_lease = False
        return self.lease_number

    async def end_lease(self) -> None:
        self._has_ended_lease = True
        await self._call_once(lambda c: end_lease(c, self.lease_number))

    async def counts(self) -> OwnershipCounts:
        ((alive, held),) = await self._call_once(lambda c: fetch_rows(c, _COUNT_OWNERSHIP))
        return OwnershipCounts(alive, held)

    async def claim(
        self,
        *,
        excluding: Collection[str] = (),
        known: Mapping[str, int] | None = None,
        waiting: Collection[str] | None = None,
        end_leases: bool = False,
    ) -> Sequence[Channel]:
        began_at = trio.current_time()

        # Most times only brands that this process knows of are looked at: to look through all that
        # wait costs as much as there are.
        is_whole = waiting is None or self._channel_scans.is_due(began_at)
        named = waiting
        if is_whole:
            named = None

        if named is not None and not named and not end_leases:
            return ()

        claim = partial(
            claim_channels, excluding=excluding, known=known, waiting=named, end_leases=end_leases
        )
        claimed = await self._call_once(lambda c: claim(c, self.tables, self.lease_number))
        if is_whole:
            self._channel_scans.record(began_at, trio.current_time())

        # What waits there from before is below any mark.
        self._marks.forget(claim.brand for claim in claimed)
        return claimed

    async def find_callbacks(
        self,
        room: Mapping[str, int],
        *,
        known: Mapping[str, int] | None = None,
        taken: Mapping[str, Collection[str]] | None = None,
        afresh: Collection[str] = (),
    ) -> Sequence[WorkItem]:
        """Search from the marks on, and make the search's end the next mark of each brand of which
        nothing is left."""
        began_at = time.monotonic()
        self._marks.forget(afresh)
        is_whole = self._marks.whole_scans.is_due(began_at)
        if is_whole:
            marks = dict.fromkeys(room, 0)
        else:
            marks = {brand: self._marks.begin(brand, began_at) for brand in room}

        search = CallbackSearch(self.lease_number, room, marks, taken or {}, known)
        last_id, rows = await self._call_once(lambda c: self.tables.find_callbacks(c, search))
        now = time.monotonic()
        if is_whole:
            self._marks.whole_scans.record(began_at, now)

        # A brand whose room was used up has more above its last row; of any other nothing waits up
        # to the last id that was given when the search began.
        found = Counter(brand for *_, brand, _ in rows)
        for *_, brand, id in rows:
            self._marks.set(brand, now, id)

        if last_id is not None:
            for brand in room.keys() - set(afresh):
                if found[brand] < room[brand]:
                    self._marks.set(brand, now, last_id)

        return [
            WorkItem(
                durable_intent(IntentKind.CALLBACK, reference, fence),
                parse_transaction(order, progress),
            )
            for reference, fence, order, progress, brand, _ in rows
            if known is None or known.get(brand) == fence
        ]

    async def release(
        self, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]
    ) -> None:
        stored: list[bytes | None] = []
        for brand in fences:
            if brand in breakers:
                stored.append(serialize_breaker(breakers[brand]))
            else:
                stored.append(None)

        values = (list(fences), list(fences.values()), stored, self.lease_number)
        await self._call_once(lambda c: c.execute(_RELEASE_CHANNELS.encode(), values))

    def close(self) -> None:
        """Later calls raise StoreUnavailable."""
        self._is_closed = True

    async def _call_once(self, call: PostgresCall[T]) -> T:
        """Call once: the result of a second call would leave out what the first one did."""
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        return await end_then_checkpoint(_run_call_once(self.pool, call))


async def _run_call_once(pool: ConnectionPool, call: PostgresCall[T]) -> T:
    has_begun = False

    # While it waits for a connection nothing has happened, and nothing is in doubt.
    async def begin(connection: PostgresConnection) -> T:
        nonlocal has_begun
        has_begun = True
        with require_confirmation(connection):
            return await call(connection)

    try:
        return await pool.call(begin, trio.current_time() + OWNERSHIP_TIMEOUT_S)
    except psycopg.Error as error:
        if has_begun and classify_error(error) is PostgresErrorKind.DISCONNECTED:
            raise OutcomeUnknown("the connection was lost on the way") from error
        raise translate_error(error) from error


async def begin_lease(connection: PostgresConnection) -> int:
    """Begin a lease and return its number."""
    ((number,),) = await fetch_rows(connection, _BEGIN_LEASE, LEASE_DURATION_S)
    return int(number)


async def renew_lease(connection: PostgresConnection, number: int) -> int:
    """Renew this lease, or begin another if it was ended; return the number of the lease that
    runs."""
    if await fetch_rows(connection, _RENEW_LEASE, LEASE_DURATION_S, number):
        return number
    return await begin_lease(connection)


async def end_lease(connection: PostgresConnection, number: int) -> None:
    """End this lease, so that other processes may claim at once what it holds."""
    await connection.execute(_END_LEASE.encode(), (number,))


async def claim_channels(
    connection: PostgresConnection,
    tables: Tables,
    holder: int,
    excluding: Collection[str],
    known: Mapping[str, int] | None,
    waiting: Collection[str] | None,
    end_leases: bool,
) -> Sequence[Channel]:
    """Claim the channels that have callbacks waiting and no owner, or this one under a fence that
    is not known. With `waiting`, claim only channels of these brands."""
    # All that the dead have left is wanted.
    if end_leases and (await connection.execute(EXPIRE_LEASES.encode())).rowcount:
        waiting = None

    values = {
        "excluding": list(excluding),
        "me": holder,
        "is_known": known is not None,
        "known": list(known or ()),
        "fences": list((known or {}).values()),
    }
    if waiting is None:
        waiting = await tables.waiting_brands(connection, values)

    values["waiting"] = list(waiting or ())
    source = _NAMED
    if waiting is None:
        source = _WAITING

    cursor = await connection.execute(_CLAIM_CHANNELS.format(waiting=source).encode(), values)
    claimed: list[Channel] = []
    for brand, fence, row in await cursor.fetchall():
        breaker = INITIAL_SNAPSHOT
        if row is not None:
            breaker = parse_breaker(row)

        claimed.append(Channel(brand, fence, breaker))

    return claimed


_USE_CONFIGURATION = "UPDATE holders SET process = %s, configuration = %s WHERE id = %s AND id > 0"
_SELECT_SERVING = """
    SELECT coalesce(process, 'the process with lease ' || id), configuration FROM holders
    WHERE NOT is_over AND id > 0 AND alive_until > clock_timestamp() ORDER BY process, id
"""


async def use_configuration(
    connection: PostgresConnection, holder: int, generation: int, process: str
) -> None:
    """Record the name of the process with this lease, and the generation of the configuration that
    it uses."""
    await connection.execute(_USE_CONFIGURATION.encode(), (process, generation, holder))


async def serving_processes(connection: PostgresConnection) -> Sequence[ServingProcess]:
    """Return the processes whose leases run."""
    return [ServingProcess(*row) for row in await fetch_rows(connection, _SELECT_SERVING)]


# It names only what the first schema has, as a database is asked that is not brought up to date
# yet.
_COUNT_SERVING = (
    "SELECT count(*) FROM holders WHERE NOT is_over AND alive_until > clock_timestamp()"
)


async def count_serving(connection: PostgresConnection) -> int:
    """Return how many processes serve the database."""
    ((count,),) = await fetch_rows(connection, _COUNT_SERVING)
    return int(count)


_SELECT_LONG_ENDED = """
    SELECT id FROM holders WHERE alive_until < clock_timestamp() - interval '30 days' AND id > 0
"""


# Intents to submit that one purge looks at, the oldest first.
LEFT_OVER_MAX = 1_000

_DELETE_LEFT_OVER = """
    DELETE FROM intents AS i
    USING (SELECT brand, gateway_reference FROM intents WHERE kind = 'submit'
        ORDER BY id LIMIT %s) AS old
        JOIN transactions AS t USING (brand, gateway_reference)
    WHERE i.brand = old.brand AND i.gateway_reference = old.gateway_reference AND i.kind = 'submit'
        AND t.status <> 'pending'
"""


async def purge(connection: PostgresConnection) -> None:
    """Delete leases that ended long ago and hold nothing, and intents to submit what has ended."""
    await connection.execute(_DELETE_LEFT_OVER.encode(), (LEFT_OVER_MAX,))

    # A lease that intents still name stays: they are claimed by way of it.
    ended = [id for (id,) in await fetch_rows(connection, _SELECT_LONG_ENDED)]
    if ended:
        holding = await fetch_rows(
            connection, "SELECT DISTINCT holder FROM intents WHERE holder = ANY (%s)", ended
        )
        unused = sorted(set(ended).difference(id for (id,) in holding))
        await connection.execute("DELETE FROM holders WHERE id = ANY (%s)", (unused,))
