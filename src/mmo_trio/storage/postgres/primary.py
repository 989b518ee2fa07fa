"""Finds the server to write to, and never goes back to a primary that another server has replaced.

Each promotion begins another timeline of the same system, with a higher number. So of two servers
that both take writes, as when a standby was promoted while the old primary lived on, the one with
the lower timeline is the old one: what it takes is lost when it is ended at last. A process that
has seen a timeline uses no server with a lower one, and from time to time it looks whether another
of its servers has a higher one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import psycopg
import structlog
import trio
from attrs import Factory, define
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mmo_sansio.resilience.store_mark import (
    StoreMark,
    StoreState,
    lost_epochs,
    may_lack_last_commits,
)
from mmo_trio.storage.postgres.errors import PostgresErrorKind, StoreReplaced, classify_error
from mmo_trio.storage.postgres.trio_connection import (
    PostgresConnection,
    Timeline,
    end_session,
    fetch_rows,
    open_connection,
    use_until,
)
from mmo_trio.storage.sql.configuration import SELECT_STORE_STATE, parse_store_state
from mmo_trio.storage.sql.statements import Row

logger = structlog.get_logger(__name__)

OpenConnection: TypeAlias = Callable[[str], Awaitable[PostgresConnection]]

# Seconds between two looks at the other servers.
LOOK_INTERVAL_S = 10.0

_LOOK_TIMEOUT_S, _LOOK_CONNECT_TIMEOUT_S = 3.0, 2

_SELECT_TIMELINE = """
    SELECT system_identifier,
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer,
        current_setting('synchronous_standby_names') <> ''
    FROM pg_control_system() WHERE NOT pg_is_in_recovery()
"""


@define(eq=False)
class PrimaryFinder:
    """Opens connections to the primary among the servers of an address; all pools of a process
    share one."""

    servers: Sequence[str]
    """The connection parameters of each server, in the order of the address."""
    open_connection: OpenConnection = open_connection
    latest: Timeline | None = None
    """The latest timeline that a connection or a look has shown; None before, and where the role
    may not see it."""
    _preferred: int = 0
    _reported: set[int] = Factory(set)
    """Servers that were said to be replaced."""
    mark: StoreMark | None = None
    """How far the store has come, as far as this process knows; None while it has not looked."""
    replaced_by: StoreState | None = None
    """What was found in place of the store that this process serves: nothing is read or written any
    more."""

    async def connect(self) -> PostgresConnection:
        """Return a connection to the first server that takes writes and isn't replaced. Raises
        psycopg.Error."""
        errors: list[psycopg.Error] = []
        for place in self._order():
            try:
                connection = await self._open(self.servers[place])
            except psycopg.Error as error:
                errors.append(error)
                continue

            if self.is_current(connection):
                self._preferred = place
                self._note(place, connection.timeline)
                return connection

            self._report(place, connection.timeline)
            await end_session(connection)
            errors.append(
                psycopg.OperationalError("a primary that was replaced still takes writes: end it")
            )

        # An error that waiting does not mend, such as a wrong password, says more than a server
        # that is away.
        final = [
            error for error in errors if classify_error(error) is not PostgresErrorKind.DISCONNECTED
        ]
        raise (final or errors)[-1]

    def is_current(self, connection: PostgresConnection) -> bool:
        """Return whether the connection's server wasn't replaced, as far as this process knows."""
        return connection.timeline is None or not connection.timeline.is_replaced_by(self.latest)

    async def require_same_store(self, connection: PostgresConnection) -> None:
        """Return when the connection, whose session is prepared, leads to the store that this
        process serves, with all that it has committed. Raises StoreReplaced, from the first time on
        always, and what psycopg raises."""
        if self.mark is None:
            return

        if self.replaced_by is None:
            known = self.mark
            found = await read_store_state(connection)
            is_same = found.mark.store_id == known.store_id
            may_lack = lost_epochs(found.mark, known) or may_lack_last_commits(found.mark, known)
            if is_same and not may_lack:
                return

            self.replaced_by = found

        raise StoreReplaced(
            "the database lacks what was committed to it: a backup was restored, or a "
            "failover lost it"
        )

    async def look_at_others(self) -> None:
        """Look whether another server has replaced the preferred one, or whether one that was
        replaced lives on."""
        if len(self.servers) > 1:
            # The preferred one is known, unless nothing is.
            places = self._order()
            if self.latest is not None:
                places = places[1:]

            async with trio.open_nursery() as nursery:
                for place in places:
                    nursery.start_soon(self._look, place)

    async def watch(self) -> None:
        """Look at the other servers from time to time, if the address names several."""
        while len(self.servers) > 1:
            await trio.sleep(LOOK_INTERVAL_S)
            await self.look_at_others()

    def _order(self) -> Sequence[int]:
        every = range(len(self.servers))
        return [self._preferred, *(server for server in every if server != self._preferred)]

    async def _look(self, place: int) -> None:
        """Note the timeline of a server, if it is reached and takes writes."""
        server = make_conninfo(
            self.servers[place], target_session_attrs="any", connect_timeout=_LOOK_CONNECT_TIMEOUT_S
        )
        try:
            connection = await self._open(server)
        except psycopg.Error:
            return

        await end_session(connection)
        if connection.timeline is not None and connection.timeline.is_replaced_by(self.latest):
            self._report(place, connection.timeline)
        else:
            self._note(place, connection.timeline)

    async def _open(self, server: str) -> PostgresConnection:
        """Return a connection with its server's timeline. Raises psycopg.Error."""
        connection = await self.open_connection(server)
        try:
            async with use_until(connection, trio.current_time() + _LOOK_TIMEOUT_S):
                rows = await fetch_rows(connection, _SELECT_TIMELINE)

            connection.timeline = None
            if rows:
                system, number, connection.is_synchronous = rows[0]
                connection.timeline = Timeline(system, number)
        except psycopg.Error as error:
            # With an SQLSTATE the server has answered: the role may not see its timeline, or it has
            # none.
            if error.sqlstate is None:
                await end_session(connection)
                raise

        return connection

    def _note(self, place: int, timeline: Timeline | None) -> None:
        if timeline is None or self.latest == timeline:
            return

        # Timelines of another system are not compared: it is taken as it is.
        if self.latest is not None and self.latest.is_replaced_by(timeline):
            logger.warning(
                "primary_replaced",
                server=server_name(self.servers[place]),
                timeline=timeline.number,
            )
            self._preferred = place

        self.latest = timeline
        self._reported.discard(place)

    def _report(self, place: int, timeline: Timeline | None) -> None:
        if place not in self._reported:
            self._reported.add(place)
            number = None
            if timeline is not None:
                number = timeline.number

            logger.error(
                "replaced_primary_lives", server=server_name(self.servers[place]), timeline=number
            )


async def read_store_state(connection: PostgresConnection) -> StoreState:
    """Return the state of the store, with the timeline of its server. Raises psycopg.Error."""
    return state_of_rows(connection, await fetch_rows(connection, SELECT_STORE_STATE))


def state_of_rows(connection: PostgresConnection, rows: Sequence[Row]) -> StoreState:
    """Return the state of the store that its row says, with what is known of the connection's
    server."""
    timeline = None
    if connection.timeline is not None:
        timeline = connection.timeline.number

    return parse_store_state(rows, timeline, is_synchronous=connection.is_synchronous)


async def lock_store_state(connection: PostgresConnection) -> None:
    """Let nobody else raise an epoch before the connection's transaction has ended. Raises
    psycopg.Error."""
    await fetch_rows(connection, "SELECT FROM store_state FOR UPDATE")


def split_servers(conninfo: str) -> Sequence[str]:
    """Return the connection parameters of each server that an address names."""
    parameters = conninfo_to_dict(conninfo)
    parts = {
        name: str(parameters[name]).split(",")
        for name in ("host", "hostaddr", "port")
        if parameters.get(name)
    }
    # As libpq reads it: hosts and ports are paired, and one port stands for all.
    total = max((len(values) for name, values in parts.items() if name != "port"), default=1)
    if total == 1:
        return [conninfo]

    return [
        make_conninfo(
            conninfo,
            **{name: values[place if len(values) > 1 else 0] for name, values in parts.items()},
        )
        for place in range(total)
    ]


def server_name(conninfo: str) -> str:
    """Return host and port of a server, for messages."""
    parameters = conninfo_to_dict(conninfo)
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    port = parameters.get("port") or 5432
    return f"{host}:{port}"
