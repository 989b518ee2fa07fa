"""Connections that calls share: never more than a limit, however the calls ended.

A call that is given up at its deadline leaves a session behind, whose statement may run on: it
waits for a lock, for the synchronous standby, or the server is paused. Such a session keeps its
place in the pool until the server has ended it, so that a server that answers nobody isn't filled
with sessions."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

import psycopg
import structlog
import trio
from attrs import Factory, define, field

from mmo_sansio.resilience.reachability import Reachability, ServerState
from mmo_trio.storage.interface.store import StoreLost, StoreUnavailable
from mmo_trio.storage.postgres.errors import PostgresErrorKind, classify_error
from mmo_trio.storage.postgres.pipeline import PreparedStatement, execute_pipeline
from mmo_trio.storage.postgres.primary import PrimaryFinder
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, end_session, use_until

logger = structlog.get_logger(__name__)

T = TypeVar("T")
PostgresCall = Callable[[PostgresConnection], Awaitable[T]]


class RunCall(Protocol):
    """Runs a call on a connection of the store."""

    def __call__(self, call: PostgresCall[T], /) -> Awaitable[T]: ...


# Seconds after which a connection plans its statements again. PostgreSQL makes a plan for the size
# that a table has at that moment, and keeps it until the table is analysed: a plan for an empty
# table would read all of a large one.
PLAN_LIFETIME_S = 10.0

# Seconds after which a connection is replaced: a session's memory grows, and addresses of servers
# change.
CONNECTION_LIFETIME_S = 3600.0

# Seconds between two attempts to reach a lost server.
PROBE_INTERVAL_S = 0.25

_PROBE_TIMEOUT_S = 1.0
_SETUP_TIMEOUT_S = 10.0

# Seconds for sessions to end when the pool is closed.
_CLOSE_TIMEOUT_S = 3.0

_PROBE = "SELECT current_setting('transaction_read_only')"
_ROLLBACK = PreparedStatement("ROLLBACK")


@define(eq=False)
class Outage:
    """Logs once that the server is lost to some of a process's pools, and once that it is back."""

    _pools: int = 0
    """Pools to which it is lost."""
    _began_at: float = 0.0

    def begin(self, error: BaseException) -> None:
        """Count a pool to which the server is lost now."""
        if not self._pools:
            self._began_at = trio.current_time()
            logger.error("store_lost", error=str(error).partition("\n")[0])
        self._pools += 1

    def end(self) -> None:
        """Count a pool to which the server is back."""
        self._pools -= 1
        if not self._pools:
            logger.info("store_recovered", after_s=round(trio.current_time() - self._began_at, 1))


@define(eq=False)
class ConnectionPool:
    """Lends connections to one call at a time, and makes them when they are needed; used within
    `serve`."""

    primary: PrimaryFinder
    size: int
    """Connections at most, with those whose session the server has not ended yet."""
    session_setup: str
    """Statements that prepare each session."""
    suspect_after_s: float
    """How long the server may stay without an answer before it is probed, in seconds."""
    cancels: bool = True
    """Whether the statement of a call that was given up is cancelled. One that commits is not: the
    wait for a standby would end with a commit that everybody sees and that a failover loses."""
    outage: Outage = Factory(Outage)
    reachability: Reachability = field(init=False)
    _idle: list[PostgresConnection] = Factory(list)
    """The connections that no call uses, the last used one last."""
    _places: trio.Semaphore = field(init=False)
    """The places that neither a call has taken, nor a connection that is being made or ended."""
    _nursery: trio.Nursery | None = None
    """Runs the pool's own tasks; None outside `serve`."""
    _may_cancel: trio.Event = Factory(trio.Event)
    """Set once statements of given-up calls may be cancelled: at once, or when the pool closes."""
    _ending: list[trio.CancelScope] = Factory(list)
    """The waits for the ends of sessions."""

    def __attrs_post_init__(self) -> None:
        self.reachability = Reachability(self.suspect_after_s)
        self._places = trio.Semaphore(self.size, max_value=self.size)
        if self.cancels:
            self._may_cancel.set()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Serve calls within the block, and end all sessions after it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                yield
            finally:
                self._nursery = None

                # What still runs is cancelled, so that its session ends in the time it has.
                self._may_cancel.set()
                for scope in self._ending:
                    scope.deadline = trio.current_time() + _CLOSE_TIMEOUT_S

                with trio.CancelScope(shield=True):
                    while self._idle:
                        await self._idle.pop().close()

                nursery.cancel_scope.cancel()

    async def call(
        self, call: PostgresCall[T], deadline: float, *, waits_while_lost: bool = False
    ) -> T:
        """Call once, on a connection that is given up at the deadline, by Trio's clock.

        psycopg's errors come through. While the server is lost, raises StoreLost at once, or tries
        all the same where the caller `waits_while_lost`."""
        if self.reachability.state is ServerState.LOST and not waits_while_lost:
            # A caller that tries again at once must let others run.
            await trio.lowlevel.checkpoint()
            raise StoreLost("PostgreSQL can't be reached")

        began = trio.current_time()
        try:
            connection = await self._take(deadline)
        except psycopg.Error as error:
            self._record(error, began)
            raise

        # Only an answer proves that the session is in a state that we know.
        is_reusable = False
        try:
            # Shielded: a caller that is cancelled still learns whether its commit took place.
            with trio.CancelScope(deadline=deadline, shield=True) as scope:
                if began - connection.planned_at >= PLAN_LIFETIME_S:
                    await connection.execute("DISCARD PLANS", prepare=False)
                    connection.planned_at = began

                result = await call(connection)

            if scope.cancelled_caught:
                raise psycopg.OperationalError("PostgreSQL didn't answer in time")

            is_reusable = True
        except psycopg.Error as error:
            # A refused statement is an answer, too.
            self._record(error, began)
            is_reusable = classify_error(error) is not PostgresErrorKind.DISCONNECTED
            raise
        except Exception:
            # An error of our own code, such as a decision's: the session is well.
            is_reusable = True
            raise
        else:
            self._record(None, began)
            return result
        finally:
            await self._give_back(connection, is_reusable, deadline)

    def _record(self, error: psycopg.Error | None, began: float) -> None:
        """Tell `reachability` how a call ended, and probe the server once it may be lost."""
        before = self.reachability.state
        now = trio.current_time()
        if error is None or classify_error(error) is not PostgresErrorKind.DISCONNECTED:
            self.reachability.record_answer(now)
            if before is ServerState.LOST:
                self.outage.end()

            return

        self.reachability.record_silence(began, now)
        if self.reachability.state is not before and self._nursery is not None:
            self._nursery.start_soon(self._probe_until_answered)

    async def _probe_until_answered(self) -> None:
        while self.reachability.state is not ServerState.REACHABLE:
            began = trio.current_time()
            try:
                await self.call(_probe, began + _PROBE_TIMEOUT_S, waits_while_lost=True)
            except psycopg.Error as error:
                # A lost server is logged by the first probe that fails, not by each.
                before = self.reachability.state
                self.reachability.record_failed_probe()
                if self.reachability.state is not before:
                    self.outage.begin(error)

                await trio.sleep(PROBE_INTERVAL_S)

    async def _take(self, deadline: float) -> PostgresConnection:
        """Return a connection, with its place. Raises psycopg.Error."""
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            with trio.CancelScope(deadline=deadline, shield=True) as scope:
                await self._places.acquire()

            if scope.cancelled_caught:
                raise psycopg.OperationalError("no connection became free in time") from None

        # The last used one first: the others stay unused, and are found ended or old in the end.
        while self._idle:
            connection = self._idle.pop()
            if not _is_spoken_to(connection) and self.primary.is_current(connection):
                return connection

            await connection.close()

        return await self._open(deadline)

    async def _open(self, deadline: float) -> PostgresConnection:
        """Make a connection for this caller or, when it takes longer, for another one."""
        opened: list[PostgresConnection] = []
        errors: list[Exception] = []
        has_ended = trio.Event()
        is_wanted = True

        async def open_one() -> None:
            keeps_place = False
            try:
                connection = await self._open_prepared()
                keeps_place = True
                if is_wanted:
                    opened.append(connection)
                else:
                    await self._give_back(connection, True, deadline)
            except Exception as error:
                errors.append(error)
            finally:
                if not keeps_place:
                    self._places.release()

                has_ended.set()

        if self._nursery is None:
            self._places.release()
            raise StoreUnavailable("the store is closed")

        # In a task of the pool: when this caller gives up, the next one has the connection.
        self._nursery.start_soon(open_one)
        with trio.CancelScope(deadline=deadline, shield=True):
            await has_ended.wait()

        # A task that goes on finds that nobody waits for its connection, and gives it back.
        is_wanted = has_ended.is_set()
        if opened:
            return opened[0]
        if errors:
            raise errors[0]
        raise psycopg.OperationalError("PostgreSQL took too long to accept a connection")

    async def _open_prepared(self) -> PostgresConnection:
        connection = await self.primary.connect()
        try:
            async with use_until(connection, trio.current_time() + _SETUP_TIMEOUT_S):
                await connection.execute(self.session_setup.encode(), prepare=False)
                await self.primary.require_same_store(connection)
        except BaseException:
            await end_session(connection, may_cancel=self._may_cancel)
            raise
        return connection

    async def _give_back(
        self, connection: PostgresConnection, is_reusable: bool, deadline: float
    ) -> None:
        """Keep the connection for the next call, or end its session; then its place is free."""
        # A call that failed within a transaction has left it open. psycopg's own rollback would
        # drop the prepared statements.
        if is_reusable and not connection.closed and not connection.is_idle:
            with suppress(psycopg.Error):
                async with use_until(connection, deadline):
                    await execute_pipeline(connection, [_ROLLBACK.bind()])

        # 1. Broken: there is no session on the server.
        if connection.closed:
            self._places.release()
            return

        # 2. The pool is closing: nobody takes it any more, and no task may be started.
        if self._nursery is None:
            await connection.close()
            self._places.release()
            return

        # 3. Sound: kept for the next call.
        if is_reusable and connection.is_idle and self._is_lasting(connection):
            self._idle.append(connection)
            self._places.release()
            return

        # 4. Its statement may still run: it keeps its place until the server has ended the session.
        self._nursery.start_soon(self._end, connection)

    def _is_lasting(self, connection: PostgresConnection) -> bool:
        age_s = trio.current_time() - connection.opened_at
        return age_s < CONNECTION_LIFETIME_S and self.primary.is_current(connection)

    async def _end(self, connection: PostgresConnection) -> None:
        with trio.CancelScope(shield=True) as scope:
            # `serve` gives it a deadline when the pool is closed.
            self._ending.append(scope)
            await end_session(connection, may_cancel=self._may_cancel)

        self._ending.remove(scope)
        self._places.release()


async def _probe(connection: PostgresConnection) -> None:
    cursor = await connection.execute(_PROBE)
    if await cursor.fetchone() == ("on",):
        raise psycopg.errors.ReadOnlySqlTransaction("the server is a standby, or takes no writes")


def _is_spoken_to(connection: PostgresConnection) -> bool:
    """Whether the server has sent something that nobody asked for: as a rule that it has ended the
    session."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
