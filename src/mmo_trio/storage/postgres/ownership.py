"""Leases and channels on PostgreSQL, by the server's clock: who is alive, and who calls which merchant back.

A lease that has run out isn't over for others until somebody has said so in its row (`_BURY`): saying so and renewing
it exclude each other, however long either's commit takes. So nobody takes a channel whose holder may still rely on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import psycopg
from attrs import define

from mmo_sansio.messages.intents import IntentKind, kept
from mmo_sansio.resilience.circuit_breaker import FRESH, BreakerSnapshot
from mmo_sansio.resilience.ownership import LEASE, OVERDUE, Channel, Standing
from mmo_sansio.values.clock import SECOND, Instant
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, Work
from mmo_trio.storage.postgres.bridge import Bridge, Connection, monotonic_s
from mmo_trio.storage.postgres.connections import Ask, Pool, on_a_connection
from mmo_trio.storage.postgres.errors import Meaning, meaning_of, translated
from mmo_trio.storage.postgres.queries import rows, work_of
from mmo_trio.storage.sql.serialization import breaker_of, transaction_of

T = TypeVar("T")

PATIENCE_S = 2.0
"""How long a question may take: a lease has to be renewed in time."""

_RENEW = """
    UPDATE holders SET alive_until = clock_timestamp() + make_interval(secs => %s)
    WHERE id = %s AND NOT is_over AND alive_until > clock_timestamp() RETURNING id
"""
_LEAVE = "UPDATE holders SET is_over = true, alive_until = clock_timestamp() WHERE id = %s"
_BURY = """
    UPDATE holders SET is_over = true WHERE NOT is_over AND alive_until <= clock_timestamp()
"""
_STANDING = """
    SELECT count(DISTINCT h.id), count(c.brand)
    FROM holders AS h LEFT JOIN channels AS c ON c.holder = h.id
    WHERE NOT h.is_over AND h.alive_until > clock_timestamp()
"""
_TAKE = """
    WITH RECURSIVE waiting (brand) AS (
        (SELECT brand FROM intents WHERE kind = 'callback' ORDER BY brand LIMIT 1)
        UNION ALL
        SELECT (
            SELECT i.brand FROM intents AS i WHERE i.kind = 'callback' AND i.brand > w.brand
            ORDER BY i.brand LIMIT 1
        ) FROM waiting AS w WHERE w.brand IS NOT NULL
    ), free AS (
        SELECT w.brand, coalesce(c.fence, 0) AS fence
        FROM waiting AS w LEFT JOIN channels AS c ON c.brand = w.brand
        WHERE w.brand IS NOT NULL AND w.brand <> ALL (%s::text[]) AND NOT EXISTS (
            SELECT FROM holders AS h WHERE h.id = c.holder AND NOT h.is_over
        )
    )
    INSERT INTO channels AS c (brand, holder, fence)
    SELECT free.brand, h.id, free.fence + 1 FROM free CROSS JOIN holders AS h
    WHERE h.id = %s AND NOT h.is_over ORDER BY free.brand
    ON CONFLICT (brand) DO UPDATE SET holder = excluded.holder, fence = excluded.fence
        WHERE c.fence = excluded.fence - 1
    RETURNING brand, fence, breaker
"""
"""The fence guards against who was quicker. A skip from brand to brand looks at one waiting callback of each."""

_CLAIM = """
    WITH found AS (
        SELECT c.brand, i.gateway_reference, c.fence
        FROM unnest(%s::text[], %s::bigint[]) AS wanted (brand, room)
        JOIN channels AS c ON c.brand = wanted.brand AND c.holder = %s
        JOIN holders AS h ON h.id = c.holder AND NOT h.is_over
        CROSS JOIN LATERAL (
            SELECT gateway_reference FROM intents
            WHERE kind = 'callback' AND intents.brand = c.brand AND intents.fence < c.fence
                AND gateway_reference <> ALL (%s::text[])
            ORDER BY id LIMIT wanted.room FOR UPDATE SKIP LOCKED
        ) AS i
    ), claimed AS (
        UPDATE intents AS i SET fence = found.fence FROM found
        WHERE i.brand = found.brand AND i.gateway_reference = found.gateway_reference
            AND i.kind = 'callback'
        RETURNING i.id, i.brand, i.gateway_reference, i.fence
    )
    SELECT gateway_reference, fence, order_row, progress
    FROM claimed JOIN transactions USING (brand, gateway_reference) ORDER BY claimed.id
"""
"""The oldest first, also those that a holder before had claimed: behind all that comes new they would wait for ever."""

_GIVE_UP = """
    UPDATE channels AS c SET holder = 0 FROM unnest(%s::text[], %s::bigint[]) AS old (brand, fence)
    WHERE c.brand = old.brand AND c.fence = old.fence AND c.holder = %s
"""
_MINE = """
    (NOT EXISTS (SELECT FROM alive WHERE id = %(me)s) OR EXISTS (
        SELECT FROM alive WHERE id = %(me)s
            AND mod(hashtext(gateway_reference)::bigint + 2147483648, total) = nth
    ))
"""
_ALIVE = """
    WITH alive AS MATERIALIZED (
        SELECT id, row_number() OVER (ORDER BY id) - 1 AS nth, count(*) OVER () AS total
        FROM holders WHERE NOT is_over AND alive_until > clock_timestamp()
    )
"""
_NEXT_WAKE = f"""
    {_ALIVE} SELECT wake_at FROM transactions WHERE wake_at IS NOT NULL AND {_MINE}
    ORDER BY wake_at LIMIT 1
"""
_WOKEN = f"""
    {_ALIVE} SELECT gateway_reference FROM transactions
    WHERE wake_at <= %(now)s AND (wake_at <= %(overdue)s OR {_MINE})
    ORDER BY wake_at, created_at LIMIT %(limit)s
"""


@define(eq=False)
class PostgresChannels:
    """See :class:`mmo_trio.storage.interface.store.Channels`."""

    bridge: Bridge
    pool: Pool
    number: int
    """Of this process's lease."""
    _has_left: bool = False
    _is_closed: bool = False

    async def renew(self) -> int:
        number = 0 if self._has_left else self.number
        self.number = await self._once(lambda c: renewed(c, number))
        self._has_left = False
        return self.number

    async def leave(self) -> None:
        self._has_left = True
        await self._once(lambda c: leave(c, self.number))

    async def standing(self) -> Standing:
        return await self._once(standing)

    async def take(self, *, but: Collection[str] = ()) -> Sequence[Channel]:
        return await self._once(lambda c: take(c, self.number, but))

    async def take_callbacks(
        self, room: Mapping[str, int], *, in_hand: Collection[str] = ()
    ) -> Sequence[Work]:
        return await self._once(lambda c: claim(c, self.number, room, in_hand))

    async def give_up(self, fences: Mapping[str, int]) -> None:
        await self._once(lambda c: give_up(c, self.number, fences))

    def close(self) -> None:
        """Later calls raise StoreUnavailable."""
        self._is_closed = True

    async def _once(self, ask: Ask[T]) -> T:
        """Ask once: what was asked twice would have an answer that leaves out what the first one did."""
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        return await self.bridge.run(_ask_once, self.pool, ask)


async def _ask_once(pool: Pool, ask: Ask[T]) -> T:
    has_begun = False

    async def begin(connection: Connection) -> T:
        nonlocal has_begun
        has_begun = True
        return await ask(connection)

    try:
        return await on_a_connection(pool, begin, monotonic_s() + PATIENCE_S)
    except (psycopg.Error, TimeoutError) as error:
        if has_begun and meaning_of(error) is Meaning.AWAY:
            raise OutcomeUnknown("the connection was lost on the way") from error
        raise translated(error) from error


async def renewed(connection: Connection, number: int) -> int:
    """The number of this lease, if it is good, now for longer; else of a new one."""
    if await rows(connection, _RENEW, LEASE_S, number):
        return number
    return await register(connection)


async def leave(connection: Connection, number: int) -> None:
    """End this lease."""
    await connection.execute(_LEAVE.encode(), (number,))


async def standing(connection: Connection) -> Standing:
    """How many hold how many channels."""
    ((alive, held),) = await rows(connection, _STANDING)
    return Standing(alive, held)


async def take(connection: Connection, number: int, but: Collection[str]) -> Sequence[Channel]:
    """Take the channels that have callbacks waiting and that nobody alive holds, but not these."""
    await connection.execute(_BURY.encode())
    found = await rows(connection, _TAKE, list(but), number)
    return [
        Channel(brand, fence, FRESH if breaker is None else breaker_of(breaker))
        for brand, fence, breaker in found
    ]


async def claim(
    connection: Connection, number: int, room: Mapping[str, int], in_hand: Collection[str]
) -> Sequence[Work]:
    """Claim callbacks of channels under this lease."""
    found = await rows(connection, _CLAIM, list(room), list(room.values()), number, list(in_hand))
    return [
        Work(kept(IntentKind.CALLBACK, reference, fence), transaction_of(order, progress))
        for reference, fence, order, progress in found
    ]


async def give_up(connection: Connection, number: int, fences: Mapping[str, int]) -> None:
    """Free these channels."""
    await connection.execute(_GIVE_UP.encode(), (list(fences), list(fences.values()), number))


async def breakers(connection: Connection) -> Mapping[str, BreakerSnapshot]:
    """Every breaker, by brand."""
    found = await rows(connection, "SELECT brand, breaker FROM channels WHERE breaker IS NOT NULL")
    return {brand: breaker_of(row) for brand, row in found}


async def next_wake(connection: Connection, number: int) -> Instant | None:
    """The earliest `wake_at` in the share of this lease."""
    cursor = await connection.execute(_NEXT_WAKE.encode(), {"me": number})
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def woken(connection: Connection, number: int, now: Instant, limit: int) -> Sequence[str]:
    """What is due in the share of this lease, and what is long overdue, the earliest first."""
    values = {"me": number, "now": now, "overdue": now - OVERDUE, "limit": limit}
    cursor = await connection.execute(_WOKEN.encode(), values)
    return [reference for (reference,) in await cursor.fetchall()]


LEASE_S = LEASE // SECOND
"""How long a process counts as alive after it was last heard of."""

RENEWAL_S = 3
"""How often it is heard of."""

NOBODY = 0
"""The holder of what administration schedules."""

_TAKE_ON = """
    WITH free AS (
        SELECT i.brand, i.gateway_reference, i.kind
        FROM holders AS h JOIN intents AS i ON i.holder = h.id
        WHERE h.alive_until <= clock_timestamp() AND i.kind <> 'callback'
        ORDER BY i.id LIMIT %s FOR UPDATE OF i SKIP LOCKED
    ), taken AS (
        UPDATE intents AS i SET holder = %s FROM free
        WHERE i.brand = free.brand AND i.gateway_reference = free.gateway_reference
            AND i.kind = free.kind
        RETURNING i.id, i.brand, i.gateway_reference, i.kind
    )
    SELECT gateway_reference, kind, order_row, progress
    FROM taken JOIN transactions USING (brand, gateway_reference) ORDER BY taken.id
"""


async def register(connection: Connection) -> int:
    """A new holder's number; alive from now on."""
    ((id,),) = await rows(
        connection,
        "INSERT INTO holders (alive_until)"
        " VALUES (clock_timestamp() + make_interval(secs => %s)) RETURNING id",
        LEASE_S,
    )
    return int(id)


async def renew(connection: Connection, holder: int) -> None:
    """This holder is alive, unless its lease has ended: it can't be renewed then, only begun anew."""
    await connection.execute(
        "UPDATE holders SET alive_until = clock_timestamp() + make_interval(secs => %s)"
        " WHERE id = %s AND NOT is_over AND alive_until > clock_timestamp()",
        (LEASE_S, holder),
    )


async def resign(connection: Connection, holder: int) -> None:
    """This holder does nothing any more: others may take its work on at once."""
    await connection.execute(
        "UPDATE holders SET is_over = true, alive_until = clock_timestamp() WHERE id = %s",
        (holder,),
    )


async def take_on(connection: Connection, holder: int, limit: int) -> Sequence[Work]:
    """Make this process the holder of kept intents that nobody alive holds, oldest first."""
    return [work_of(row) for row in await rows(connection, _TAKE_ON, limit, holder)]


async def tidy(connection: Connection) -> None:
    """Forget commits that nobody can be in doubt about any more, and holders long dead without work."""
    await connection.execute(
        "DELETE FROM batches WHERE touched_at < clock_timestamp() - interval '1 hour'"
        " AND stamp < (SELECT max(stamp) FROM batches)"
    )
    await connection.execute(
        "DELETE FROM holders AS h WHERE h.alive_until < clock_timestamp() - interval '30 days'"
        " AND h.id > 0 AND NOT EXISTS (SELECT FROM intents AS i WHERE i.holder = h.id)"
    )
