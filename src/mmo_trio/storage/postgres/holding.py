"""Who holds kept intents: a process with a lease that runs by the server's clock, renewed while the process lives."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.channels import LEASE
from mmo_sansio.clock import SECOND
from mmo_trio.storage.base import Work
from mmo_trio.storage.postgres.bridge import Connection
from mmo_trio.storage.postgres.reading import rows, work_of

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
