"""Two nodes on a primary with a synchronous standby, and everything that can happen to them, in one
run under load: nothing that was answered is lost, nothing is submitted twice, and no callback comes
twice but across a death."""

from __future__ import annotations

import math
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, frozen

from mmo_sansio.values.clock import HOUR, Span
from mmo_trio.storage.postgres.connections import READER_CONNECTIONS, WRITER_CONNECTIONS
from tests.runtime.contract.test_kill import Log
from tests.runtime.contract.test_nodes import NODES, Cluster, all_is_well, cluster, loaded
from tests.runtime.contract.test_processes import stopped, until
from tests.support.connection_owner import children_of
from tests.support.effort import by_effort
from tests.support.mmo_process import recording_callbacks
from tests.support.postgres_cluster import Cluster as PostgresCluster
from tests.support.postgres_cluster import postgres_cluster
from tests.support.postgres_process import execute

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.own_store, pytest.mark.long]

PROCESSES = 2 * NODES
CONNECTIONS_MAX = PROCESSES * (WRITER_CONNECTIONS + READER_CONNECTIONS) + 1
"""Of all processes, as docs/postgresql.md says; one more while a process starts."""
SEED = 11
LASTS = Span(HOUR)
"""No callback waits longer: many are left where the database was away for most of the time."""
PAUSE_S = 0.5
"""Between two events: time for the load to reach the database again."""
STOPPED_S = 12.0
"""How long a node stands still: longer than its leases last."""
STANDBY_AWAY_S = 3.0
ANSWERS = 10
"""So many creates are answered between two events, at least."""

_OWN = "FROM pg_stat_activity WHERE application_name = 'mmo-gateway'"


@frozen
class Amounts:
    """Says how often each event happens."""

    kills: int
    storms: int
    restarts: int
    cancelled_waits: int
    stops: int
    failovers: int


AMOUNTS = by_effort(Amounts(1, 1, 1, 1, 0, 1), Amounts(20, 20, 10, 5, 2, 5))


@define(eq=False)
class Course:
    """Holds the nodes, their database, and what merchants know of it."""

    nodes: Cluster
    database: PostgresCluster
    log: Log
    chance: random.Random
    most_connections: int = 0

    def events(self, amounts: Amounts) -> list[Callable[[], Awaitable[None]]]:
        """Return what is to happen, in an order by chance."""
        events: list[Callable[[], Awaitable[None]]] = [
            *(self.kill_worker for _ in range(amounts.kills)),
            *(self.sever_sessions for _ in range(amounts.storms)),
            *(self.restart_database for _ in range(amounts.restarts)),
            *(self.cancel_waits for _ in range(amounts.cancelled_waits)),
            *(self.stop_node for _ in range(amounts.stops)),
            *(self.fail_over for _ in range(amounts.failovers)),
        ]
        self.chance.shuffle(events)
        return events

    async def settle(self) -> None:
        """Wait until creates are answered again."""
        enough = len(self.log.answered) + ANSWERS
        await until(lambda: len(self.log.answered) >= enough)
        await trio.sleep(PAUSE_S)

    async def kill_worker(self) -> None:
        """End one worker with SIGKILL."""
        await until(self.nodes.alive)
        self.nodes.kill_one(self.chance)

    async def sever_sessions(self) -> None:
        """End all sessions of the gateway, again and again for a moment."""
        for _ in range(5):
            await self.ask(f"SELECT pg_terminate_backend(pid) {_OWN}")
            await trio.sleep(0.1)

    async def restart_database(self) -> None:
        """End the primary as a loss of power would, and start it again."""
        await trio.to_thread.run_sync(self.database.primary.restart, signal.SIGQUIT)
        await trio.to_thread.run_sync(self.database.wait_for_standby)

    async def cancel_waits(self) -> None:
        """Let commits wait for a standby that is away, and cancel the waits by hand."""
        await trio.to_thread.run_sync(self.database.kill_standby)
        until_s, cancelled = trio.current_time() + STANDBY_AWAY_S, 0
        while trio.current_time() < until_s or not cancelled:
            waits = f"SELECT pg_cancel_backend(pid) {_OWN} AND wait_event = 'SyncRep'"
            cancelled += len(await self.ask(waits))
            await trio.sleep(0.05)
        await trio.to_thread.run_sync(self.database.standby.start)
        await trio.to_thread.run_sync(self.database.wait_for_standby)

    async def stop_node(self) -> None:
        """Let all workers of a node stand still and go on. What they were sending then may come
        twice: the others take them for dead meanwhile."""
        workers = children_of([self.nodes.nodes[-1].process.pid])
        self.nodes.paused.update(workers)
        async with AsyncExitStack() as stack:
            for each in workers:
                await stack.enter_async_context(stopped(each))
            await trio.sleep(STOPPED_S)

    async def fail_over(self) -> None:
        """Kill the primary, promote the standby, and make a new standby."""
        await trio.to_thread.run_sync(self.database.kill_primary)
        await trio.to_thread.run_sync(self.database.promote)
        await trio.to_thread.run_sync(self.database.replace_standby)

    async def deliver_all(self) -> None:
        """Wait until every payment has ended and every callback is recorded, however many are left,
        as long as they become fewer."""
        left = math.inf
        while left:
            before = left
            with trio.fail_after(HANGS_AFTER_S):
                while left >= before:
                    await trio.sleep(0.5)
                    ((left,),) = await self.ask("SELECT count(*) FROM intents")

    async def count_connections(self) -> None:
        """Look without end how many connections the gateway has."""
        while True:
            with suppress(psycopg.OperationalError):
                ((count,),) = await self.ask(f"SELECT count(*) {_OWN}")
                self.most_connections = max(self.most_connections, count)
            await trio.sleep(0.1)

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement on the primary."""
        url = self.database.primary.tcp_url
        return await trio.to_thread.run_sync(execute, url, statement)


@pytest.mark.spec("S1", "S6", "K3", "C6", "P5")
async def test_nothing_that_happens_to_nodes_or_database_loses_or_doubles_anything(
    tmp_path: Path,
) -> None:
    chance, log = random.Random(SEED), Log()
    with postgres_cluster() as database:
        async with (
            recording_callbacks(tmp_path) as recorder,
            cluster(tmp_path, database.url) as nodes,
        ):
            recorder.find_sender = nodes.sender
            course = Course(nodes, database, log, chance)
            events = course.events(AMOUNTS)
            async with loaded(nodes, log, recorder.url) as faults, trio.open_nursery() as watching:
                watching.start_soon(course.count_connections)
                await course.settle()
                for event in events:
                    begun_at = trio.current_time()
                    await event()
                    await course.settle()
                    took_s = trio.current_time() - begun_at
                    print(
                        f"{event.__name__}: {took_s:.1f} s, {len(log.answered)} answered,"
                        f" at most {course.most_connections} connections"
                    )
                    assert course.most_connections <= CONNECTIONS_MAX
                    course.most_connections = 0
                watching.cancel_scope.cancel()
            await course.deliver_all()
            await all_is_well(nodes, log, recorder, heard_within=LASTS)
    print(
        f"{len(events)} events, {len(log.answered)} answered, {len(faults.refused)} refused, "
        f"{faults.broken} broken"
    )
