"""A process never has more sessions than it says, and nobody waits in vain for a server that is
lost."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import pytest
import trio
from structlog.testing import capture_logs

from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.connection_pool import ConnectionPool
from mmo_trio.storage.postgres.connections import (
    READER_CONNECTIONS,
    WRITER_CONNECTIONS,
    WRITER_SETUP,
    build_conninfo,
)
from mmo_trio.storage.postgres.pipeline import PreparedStatement, execute_pipeline
from mmo_trio.storage.postgres.primary import PrimaryFinder, split_servers
from mmo_trio.storage.postgres.queries import run_statement
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.statements import SqlStatement
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from tests.conformance.inputs import creation, reference
from tests.support.postgres_cluster import postgres_cluster
from tests.support.postgres_process import PostgresProcess, postgres_process

# isort: split
import psycopg

from tests.support.store_timeouts import set_timeout
from tests.support.time_limits import HANGS_AFTER_S

CONNECTIONS_MAX = 8
"""As docs/postgresql.md says it."""

_SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'mmo-gateway' AND backend_type = "
    "'client backend'"
)
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mmo-gateway' AND "
    "wait_event_type = 'Lock'"
)


def test_the_limit_is_what_is_documented() -> None:
    assert WRITER_CONNECTIONS + READER_CONNECTIONS == CONNECTIONS_MAX


class Load:
    """Creates and look-ups, several at once, that go on whatever is answered."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store = store
        self.engine = engine
        self.answers: dict[int, str] = {}
        self._numbers = count()

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.answers.values())

    async def create(self) -> None:
        while True:
            number = next(self._numbers)
            try:
                self.answers[number] = type(await self.engine.submit(creation(number))).__name__
            except (StoreUnavailable, OutcomeUnknown) as error:
                self.answers[number] = type(error).__name__
            await trio.sleep(0.01)

    async def look_up(self) -> None:
        while True:
            try:
                await self.store.check()
                await self.store.transaction(reference(0))
            except StoreUnavailable:
                pass
            await trio.sleep(0.01)

    async def is_answered(self) -> bool:
        """Tell whether the store answers a reader."""
        try:
            await self.store.check()
        except StoreUnavailable:
            return False
        return True

    async def more(self, answer: str, number: int) -> None:
        """Wait for so many more of these answers."""
        wanted = self.counts[answer] + number
        with trio.fail_after(HANGS_AFTER_S):
            while self.counts[answer] < wanted:  # noqa: ASYNC110  (simpler than an event for each)
                await trio.sleep(0.01)

    async def assert_stored(self) -> None:
        """What was accepted is there, and what was refused is not."""
        for number, answer in self.answers.items():
            if answer in ("Accepted", "StoreUnavailable"):
                assert (await self.store.transaction(reference(number)) is not None) == (
                    answer == "Accepted"
                ), number


@asynccontextmanager
async def loaded(url: str, timeout_s: float) -> AsyncIterator[Load]:
    """Run a process's store under load."""
    async with open_postgres(url, serving=True, timeout_s=timeout_s) as store:
        engine = Engine(store, GatewayClock(), Outbox())
        load = Load(store, engine)
        async with trio.open_nursery() as nursery:
            await nursery.start(engine.run)
            async with trio.open_nursery() as callers:
                for _ in range(6):
                    callers.start_soon(load.create)
                for _ in range(4):
                    callers.start_soon(load.look_up)
                await load.more("Accepted", 20)
                yield load
                callers.cancel_scope.cancel()
            with trio.fail_after(
                HANGS_AFTER_S
            ):  # Readers have a pool of their own, which finds the server by itself.
                while not await load.is_answered():  # noqa: ASYNC110  (simpler than an event for each)
                    await trio.sleep(0.01)
            set_timeout(store, HANGS_AFTER_S)
            await load.assert_stored()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def sessions_counted(server: PostgresProcess) -> AsyncIterator[Callable[[], int]]:
    """Look all the time how many sessions the process has; the function returns the most there
    were."""
    most = 0

    async def look() -> None:
        nonlocal most
        with psycopg.connect(
            server.tcp_url, autocommit=True, application_name="observer"
        ) as connection:
            while True:
                found = await trio.to_thread.run_sync(
                    lambda: connection.execute(_SESSIONS).fetchall()
                )
                most = max(most, len(found))
                await trio.sleep(0.02)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        yield lambda: most
        nursery.cancel_scope.cancel()


@pytest.mark.long
@pytest.mark.spec("P5")
async def test_a_standby_that_is_away_does_not_fill_the_server_with_sessions() -> None:
    with postgres_cluster() as cluster, trio.fail_after(HANGS_AFTER_S):
        async with (
            sessions_counted(cluster.primary) as most,
            loaded(cluster.url, timeout_s=1) as load,
        ):
            await trio.to_thread.run_sync(cluster.kill_standby)
            await load.more("StoreUnavailable", 100)
            await trio.sleep(3)  # Several times the deadline of a call.
            await trio.to_thread.run_sync(cluster.standby.start)
            await load.more("Accepted", 20)
        assert most() <= CONNECTIONS_MAX


async def pause_sessions(server: PostgresProcess, paused: set[int]) -> None:
    """Pause each session that the process has or makes."""
    with psycopg.connect(
        server.tcp_url, autocommit=True, application_name="observer"
    ) as connection:
        while True:
            found = await trio.to_thread.run_sync(lambda: connection.execute(_SESSIONS).fetchall())
            for (pid,) in found:
                if pid not in paused:
                    os.kill(pid, signal.SIGSTOP)
                    paused.add(pid)
            await trio.sleep(0.1)


@pytest.mark.long
@pytest.mark.spec("P5")
async def test_paused_sessions_are_not_replaced_by_others() -> None:
    with postgres_process() as server, trio.fail_after(HANGS_AFTER_S):
        async with sessions_counted(server) as most, loaded(server.tcp_url, timeout_s=1) as load:
            paused = set[int]()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pause_sessions, server, paused)
                await load.more("StoreUnavailable", 100)
                await trio.sleep(3)  # Several times the deadline of a call.
                nursery.cancel_scope.cancel()
            for pid in paused:
                os.kill(pid, signal.SIGCONT)
            await load.more("Accepted", 20)
        assert most() <= CONNECTIONS_MAX


@pytest.mark.long
@pytest.mark.spec("P5")
async def test_reads_that_were_given_up_do_not_wait_on() -> None:
    """Their sessions are asked to cancel; a lock would keep them for as long as it lasts."""
    with postgres_process() as server, trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(server.tcp_url, serving=False, timeout_s=1) as store:
            with psycopg.connect(server.tcp_url, application_name="observer") as other:
                other.execute("LOCK TABLE transactions IN ACCESS EXCLUSIVE MODE")
                for _ in range(2 * CONNECTIONS_MAX):
                    with pytest.raises(StoreUnavailable):
                        await store.transaction(reference(0))
                while other.execute(_WAITING).fetchone() != (0,):  # noqa: ASYNC110  (the database tells no events)
                    await trio.sleep(0.05)
                set_timeout(store, HANGS_AFTER_S)
                await store.check()


@pytest.mark.long
async def test_sessions_of_a_machine_that_vanished_do_not_stay_for_hours() -> None:
    with postgres_process() as server, trio.fail_after(HANGS_AFTER_S):
        pool = ConnectionPool(
            PrimaryFinder(split_servers(build_conninfo(server.tcp_url))),
            1,
            WRITER_SETUP,
            suspect_after_s=5,
        )
        async with pool.serve():
            for name, value in (("tcp_user_timeout", "10000"), ("tcp_keepalives_idle", "5")):
                statement = SqlStatement(f"SELECT current_setting('{name}')")
                found = await pool.call(
                    partial(run_statement, statement=statement), trio.current_time() + 30
                )
                assert found == [(value,)]


@pytest.mark.long
@pytest.mark.spec("P5")
async def test_a_server_that_is_down_refuses_at_once_and_serves_as_soon_as_it_is_up() -> None:
    with postgres_process() as server, capture_logs() as logged, trio.fail_after(HANGS_AFTER_S):
        async with loaded(server.tcp_url, timeout_s=2) as load:
            await trio.to_thread.run_sync(server.stop, signal.SIGQUIT)
            await load.more("StoreUnavailable", 1)
            with trio.fail_after(20):  # Two callers' timeouts each would take minutes.
                await load.more("StoreUnavailable", 300)
            await trio.to_thread.run_sync(server.start)
            await load.more("Accepted", 20)
    events = Counter(each["event"] for each in logged)
    assert (events["store_lost"], events["store_recovered"]) == (1, 1)
    assert events["batch_commit_failed"] < 20, "no line for each request that is refused"


@pytest.mark.spec("S2")
async def test_a_transaction_that_a_call_leaves_open_costs_no_prepared_statement(
    migrated_database: str,
) -> None:
    """As that of a batch which was decided again, and then changes nothing."""
    begin, select = PreparedStatement("BEGIN"), PreparedStatement("SELECT 1")
    pool = ConnectionPool(
        PrimaryFinder(split_servers(build_conninfo(migrated_database))), 1, WRITER_SETUP, 5.0
    )

    async def leave_open(connection: PostgresConnection) -> int:
        await execute_pipeline(connection, [begin.bind(), select.bind()])
        return connection.info.backend_pid

    async def read(connection: PostgresConnection) -> tuple[int, bool]:
        was_idle = connection.is_idle
        assert await execute_pipeline(connection, [select.bind()]) == [[(1,)]]
        return connection.info.backend_pid, was_idle

    with trio.fail_after(HANGS_AFTER_S):
        async with pool.serve():
            deadline = trio.current_time() + HANGS_AFTER_S
            pid = await pool.call(leave_open, deadline)
            assert await pool.call(read, deadline) == (pid, True)
