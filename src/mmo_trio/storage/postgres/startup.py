"""Opens a PostgreSQL database: migrates its schema, and renews this process's lease while it is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import trio

from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, StoreUnusable
from mmo_trio.storage.postgres import migrations, ownership
from mmo_trio.storage.postgres.bridge import PostgresConnection, loop_time_s, open_bridge, unwrap_single_exception
from mmo_trio.storage.postgres.connections import (
    READER_CONNECTIONS,
    READER_SETUP,
    STORE_TIMEOUT_S,
    WRITER_CONNECTIONS,
    WRITER_SETUP,
    Pool,
    build_conninfo,
    call_when_reachable,
    create_pool,
    limit_psycopg_logs,
)
from mmo_trio.storage.postgres.server_checks import OwnSchema, check_role, prepare_session
from mmo_trio.storage.postgres.store import PostgresStore

logger = structlog.get_logger(__name__)

_PURGE_INTERVAL_S = 300.0

_MIGRATION_TIMEOUT_S = 24 * 3600.0
"""Seconds that a migration may take: an index of a large table is built while the gateway serves."""


@asynccontextmanager
async def open_postgres(
    url: str, *, serving: bool, create: bool = True, timeout_s: float = STORE_TIMEOUT_S
) -> AsyncIterator[PostgresStore]:
    """Open the database that the address names.

    Any number of processes may serve it; each migrates the schema and holds what it claims as long as it lives. A
    command leaves what it schedules to them. Without `create` the tables must exist. Raises StoreUnusable when the
    database can't be used as it is, StoreUnavailable when it can't be reached.
    """
    limit_psycopg_logs()
    conninfo = build_conninfo(url)
    with unwrap_single_exception():
        async with open_bridge() as bridge:
            holder, schema = await bridge.run(_prepare_database, conninfo, serving, create, timeout_s)
            writing = create_pool(conninfo, WRITER_CONNECTIONS, WRITER_SETUP + schema.session_setup)
            reading = create_pool(conninfo, READER_CONNECTIONS, READER_SETUP + schema.session_setup)
            try:
                await bridge.run(_open_pools, writing, reading)
                store = PostgresStore(bridge, writing, reading, holder, timeout_s)
                async with trio.open_nursery() as nursery:
                    if store.ownership is not None:
                        nursery.start_soon(_maintain, store, store.ownership)
                    try:
                        yield store
                    finally:
                        nursery.cancel_scope.cancel()
                        with trio.CancelScope(shield=True):
                            await store.aclose()
            finally:
                await bridge.run(_close_pools, writing, reading)


async def _prepare_database(conninfo: str, serving: bool, create: bool, timeout_s: float) -> tuple[int, OwnSchema]:
    """Check the server and migrate the schema; return the number of this process's lease, or NO_HOLDER, and where our
    tables are."""

    async def begin(connection: PostgresConnection) -> int:
        if not serving:
            return ownership.NO_HOLDER
        await check_role(connection)
        return await ownership.begin_lease(connection)

    async def check_version(connection: PostgresConnection) -> tuple[int | None, OwnSchema]:
        schema = await prepare_session(conninfo, connection)
        version = await migrations.stored_version(connection)
        if version >= migrations.latest_version():
            return await begin(connection), schema
        if not version and not (serving or create):
            raise StoreUnavailable("the database has none of our tables; `mmo db migrate` makes them")
        if version and not serving:
            raise StoreUnusable(f"the database has schema {version}: bring it up to date with `mmo db migrate`")
        return None, schema

    async def migrate(connection: PostgresConnection) -> tuple[int, OwnSchema]:
        schema = await prepare_session(conninfo, connection)
        await migrations.migrate(connection)
        return await begin(connection), schema

    deadline = loop_time_s() + timeout_s
    number, schema = await call_when_reachable(conninfo, check_version, deadline)
    if number is not None:
        return number, schema
    return await call_when_reachable(conninfo, migrate, deadline, extra_time_s=_MIGRATION_TIMEOUT_S)


async def _open_pools(writer_pool: Pool, reader_pool: Pool) -> None:
    await writer_pool.open()
    await reader_pool.open()


async def _close_pools(writer_pool: Pool, reader_pool: Pool) -> None:
    await writer_pool.close()
    await reader_pool.close()


async def _maintain(store: PostgresStore, lease: ownership.PostgresChannelOwnership) -> None:
    """While the store is open, renew the lease where no channel owner does, and purge what has expired."""
    purged_at = trio.current_time()
    while True:
        await trio.sleep(ownership.LEASE_RENEWAL_INTERVAL_S)
        try:
            await lease.renew_lease_without_owner()
            if trio.current_time() - purged_at > _PURGE_INTERVAL_S:
                purged_at = trio.current_time()
                await store.purge()
        except (StoreUnavailable, OutcomeUnknown, StoreUnusable) as error:
            logger.warning("lease_renewal_failed", error=str(error))
