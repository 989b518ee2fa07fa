"""Opening a PostgreSQL database: bringing its schema up to date, and being alive in it while it is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import trio

from mmo_trio.storage.interface.store import StoreRefused, StoreUnavailable
from mmo_trio.storage.postgres import migrations, ownership
from mmo_trio.storage.postgres.bridge import Connection, alone, monotonic_s, open_bridge
from mmo_trio.storage.postgres.connections import (
    PATIENCE_S,
    Pool,
    conninfo_of,
    first_answer,
    reading_pool,
    writing_pool,
)
from mmo_trio.storage.postgres.store import PostgresStore

logger = structlog.get_logger(__name__)

_TIDYING_S = 300.0

_MIGRATING_S = 24 * 3600.0
"""How long bringing the schema up to date may take: an index of a large table is built beside the traffic."""


@asynccontextmanager
async def open_postgres(
    url: str, *, serving: bool, make: bool = True, patience_s: float = PATIENCE_S
) -> AsyncIterator[PostgresStore]:
    """Open the database that the address names.

    Any number of processes may serve it; each brings the schema up to date and holds what it takes on as long as it
    lives. Administration leaves what it schedules to them. Without `make` the tables must be there. Raises StoreRefused
    when the database isn't as we need it, StoreUnavailable when it can't be reached.
    """
    conninfo = conninfo_of(url)
    with alone():
        async with open_bridge() as bridge:
            holder = await bridge.run(_prepare, conninfo, serving, make, patience_s)
            writing, reading = writing_pool(conninfo), reading_pool(conninfo)
            try:
                await bridge.run(_open, writing, reading)
                store = PostgresStore(bridge, writing, reading, holder, patience_s)
                async with trio.open_nursery() as nursery:
                    if serving:
                        nursery.start_soon(_stay_alive, store)
                    try:
                        yield store
                    finally:
                        nursery.cancel_scope.cancel()
                        with trio.CancelScope(shield=True):
                            await store.aclose()
            finally:
                await bridge.run(_close, writing, reading)


async def _prepare(conninfo: str, serving: bool, make: bool, patience_s: float) -> int:
    """Bring the schema up to date; the number by which this process holds what it takes on."""

    async def begin(connection: Connection) -> int:
        return await ownership.register(connection) if serving else ownership.NOBODY

    async def look(connection: Connection) -> int | None:
        version = await migrations.stored_version(connection)
        if version >= migrations.latest():
            return await begin(connection)
        if not version and not (serving or make):
            raise StoreUnavailable(
                "the database has none of our tables; `mmo db migrate` makes them"
            )
        if version and not serving:
            raise StoreRefused(
                f"the database has schema {version}: bring it up to date with `mmo db migrate`"
            )
        return None

    async def migrate(connection: Connection) -> int:
        await migrations.migrate(connection)
        return await begin(connection)

    deadline = monotonic_s() + patience_s
    number = await first_answer(conninfo, look, deadline)
    if number is None:
        number = await first_answer(conninfo, migrate, deadline, work_s=_MIGRATING_S)
    return number


async def _open(writing: Pool, reading: Pool) -> None:
    await writing.open()
    await reading.open()


async def _close(writing: Pool, reading: Pool) -> None:
    await writing.close()
    await reading.close()


async def _stay_alive(store: PostgresStore) -> None:
    """Renew the lease as long as the store is open; when the server is away, as soon as it is back."""
    tidied_at = trio.current_time()
    while True:
        await trio.sleep(ownership.RENEWAL_S)
        try:
            await store.renew()
            if trio.current_time() - tidied_at > _TIDYING_S:
                tidied_at = trio.current_time()
                await store.tidy()
        except StoreUnavailable as error:
            logger.warning("lease not renewed", error=str(error))
