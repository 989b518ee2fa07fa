"""Opens a PostgreSQL database: migrates its schema, and renews this process's lease while it is
open."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog
import trio
from attrs import frozen

from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable, log_store_failure
from mmo_trio.storage.postgres import connections, distribution, migrations, ownership
from mmo_trio.storage.postgres.asyncio_loop import unwrap_single_exception
from mmo_trio.storage.postgres.connection_pool import ConnectionPool, Outage
from mmo_trio.storage.postgres.partitions import maintain_partitions
from mmo_trio.storage.postgres.primary import PrimaryFinder, split_servers
from mmo_trio.storage.postgres.server_checks import check_role, prepare_session
from mmo_trio.storage.postgres.store import PostgresStore
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.schema import ReportMigration, report_nothing
from mmo_trio.system.waiting import run_to_end

logger = structlog.get_logger(__name__)

# Seconds between two removals of what nobody needs any more.
_PURGE_INTERVAL_S = 300.0

# Seconds between two additions of counts to the figures: pages read what is not added yet, row by
# row.
_ROLL_UP_INTERVAL_S = 60.0

# The share of a caller's timeout after which a server that answers nobody is probed, and lost
# without an answer.
_SUSPECT_SHARE = 0.5

# Seconds that a migration may take: an index of a large table is built while the gateway serves.
_MIGRATION_TIMEOUT_S = 24 * 3600.0


@asynccontextmanager
async def open_postgres(
    url: str,
    *,
    serving: bool,
    create: bool = True,
    timeout_s: float = connections.STORE_TIMEOUT_S,
    report_migration: ReportMigration = report_nothing,
) -> AsyncIterator[PostgresStore]:
    """Open the database that the address names.

    Any number of processes may serve it; each migrates the schema and holds what it claims as long
    as it lives. A command leaves what it schedules to them. Without `create` the tables must exist.
    Raises StoreUnusable when the database can't be used as it is, StoreUnavailable when it can't be
    reached."""
    connections.limit_psycopg_logs()
    primary = PrimaryFinder(split_servers(connections.build_conninfo(url)))
    database = await run_to_end(
        lambda: _prepare_database(primary, serving, create, timeout_s, report_migration)
    )

    # Two pools, so that no flood of reads takes the connections of commits. What a writer has begun
    # is never cancelled.
    outage = Outage()
    suspect_after_s = timeout_s * _SUSPECT_SHARE
    writers, readers = (
        ConnectionPool(
            primary,
            size,
            setup + database.session_setup,
            suspect_after_s,
            cancels=cancels,
            outage=outage,
        )
        for size, setup, cancels in (
            (connections.WRITER_CONNECTIONS, connections.WRITER_SETUP, False),
            (connections.READER_CONNECTIONS, connections.READER_SETUP, True),
        )
    )
    with unwrap_single_exception():
        async with writers.serve(), readers.serve():
            store = PostgresStore(writers, readers, database.holder, timeout_s, database.tables)
            async with trio.open_nursery() as nursery:
                if store.ownership is not None:
                    nursery.start_soon(_renew_lease, store.ownership)
                    nursery.start_soon(maintain_while_open, store)
                    nursery.start_soon(primary.watch)
                try:
                    yield store
                finally:
                    # First nobody renews the lease any more, then it is ended.
                    nursery.cancel_scope.cancel()
                    with trio.CancelScope(shield=True):
                        await store.aclose()


@frozen
class _PreparedDatabase:
    """A database with this version's schema."""

    holder: int
    """The number of this process's lease, or NO_HOLDER."""
    session_setup: str
    """The statements for each session besides those that all databases need."""
    tables: Tables


async def _prepare_database(
    primary: PrimaryFinder, serving: bool, create: bool, timeout_s: float, report: ReportMigration
) -> _PreparedDatabase:
    """Check the server, migrate the schema, and begin a lease to serve."""

    async def begin(connection: PostgresConnection, search_path: str) -> _PreparedDatabase:
        if serving:
            await check_role(connection)
            await maintain_partitions(connection)

        # The lease last: its time runs from here.
        tables = await distribution.find_tables(connection)
        holder = ownership.NO_HOLDER
        if serving:
            holder = await ownership.begin_lease(connection)

        return _PreparedDatabase(holder, search_path + tables.session_setup, tables)

    async def check_version(connection: PostgresConnection) -> _PreparedDatabase | None:
        search_path = await prepare_session(primary, connection)
        version = await migrations.stored_version(connection)
        if version >= migrations.latest_version():
            return await begin(connection, search_path)

        if not version and not (serving or create):
            raise StoreUnavailable(
                "the database has none of our tables; `mmo db migrate` makes them"
            )

        if version and not serving:
            raise StoreUnusable(
                f"the database has schema {version}: bring it up to date with `mmo db migrate`"
            )

        return None

    async def migrate(connection: PostgresConnection) -> _PreparedDatabase:
        search_path = await prepare_session(primary, connection)
        await migrations.migrate(connection, report)
        return await begin(connection, search_path)

    # An old primary that still takes writes is recognised before anything is written to it.
    await primary.look_at_others()
    deadline = trio.current_time() + timeout_s
    database = await connections.call_when_reachable(primary, check_version, deadline)
    if database is None:
        database = await connections.call_when_reachable(
            primary, migrate, deadline, extra_time_s=_MIGRATION_TIMEOUT_S
        )

    return database


async def distribute_postgres(url: str, *, timeout_s: float = connections.STORE_TIMEOUT_S) -> None:
    """Migrate the database that the address names, and distribute its tables by brand over the
    workers of Citus.

    Does nothing where that is done. Raises what `open_postgres` raises, and StoreUnusable where the
    server is no coordinator of Citus with workers, or while a process serves the database."""
    connections.limit_psycopg_logs()
    primary = PrimaryFinder(split_servers(connections.build_conninfo(url)))

    async def distribute(connection: PostgresConnection) -> None:
        await prepare_session(primary, connection)
        await migrations.migrate(connection)
        await distribution.distribute(connection)

    async def call() -> None:
        deadline = trio.current_time() + timeout_s
        await connections.call_when_reachable(
            primary, distribute, deadline, extra_time_s=_MIGRATION_TIMEOUT_S
        )

    await run_to_end(call)


async def _renew_lease(lease: ownership.PostgresChannelOwnership) -> None:
    """While the store is open, renew the lease where no channel owner does."""
    while True:
        await trio.sleep(ownership.LEASE_RENEWAL_INTERVAL_S)
        try:
            await lease.renew_lease_without_owner()
        except Exception as error:
            log_store_failure(logger, "lease_renewal_failed", error)


async def maintain_while_open(store: PostgresStore) -> None:
    """While the store is open, keep its tables small, and let the planner know them. What fails of
    that stops nothing else."""
    purged_at = -math.inf
    while True:
        await trio.sleep(_ROLL_UP_INTERVAL_S)
        # The first round does everything: the process may have been away for long.
        steps: list[Callable[[], Awaitable[object]]] = [store.roll_up_counts]
        if trio.current_time() - purged_at > _PURGE_INTERVAL_S:
            purged_at = trio.current_time()
            steps += store.purge_steps

        for step in steps:
            try:
                await step()
            except Exception as error:
                log_store_failure(logger, "store_maintenance_failed", error)
