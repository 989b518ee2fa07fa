"""PostgreSQL stands still for seconds, by a lock or as a whole, while no process of the gateway
dies: callbacks go on afterwards, each is sent, and none twice (K3, P5)."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from tests.conformance.inputs import reference
from tests.support.callback_nodes import Node, Receiver, recorded_outcomes, running_nodes
from tests.support.connection_owner import children_of
from tests.support.effort import QUICK, by_effort
from tests.support.postgres_process import PostgresProcess, postgres_process

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

TABLES = ("transactions", "intents", "channels", "holders", "batches", "horizon")
STALLS_S = [float(1 + nth) for nth in range(9)]
LOCKS = [("transactions", 3.0)]
if not QUICK:
    each_stall = [(TABLES[nth % len(TABLES)], stall_s) for nth, stall_s in enumerate(STALLS_S)]
    LOCKS = [*dict.fromkeys([*LOCKS, *each_stall, *((table, 9.0) for table in TABLES)])]
PAUSES_S = by_effort([3.0], STALLS_S)
PAYMENTS_PER_S = 20
BEFORE_S = 6.0
"""Seconds of load before the server stands still: then every process renews its lease steadily."""
AFTER_S = 3.0


@asynccontextmanager
async def loaded_nodes(database: str) -> AsyncIterator[None]:
    """Run two nodes under load: first for BEFORE_S, then during the block, then for AFTER_S."""
    receiver = Receiver(answering_s=0.4)
    ended: list[int] = []
    async with (
        open_postgres(database, serving=True) as first,
        open_postgres(database, serving=True) as second,
    ):
        nodes = [Node("one", first, receiver), Node("other", second, receiver)]
        is_over = trio.Event()

        async def pay(number: int) -> None:
            try:
                await nodes[number % 2].pay(number, of=("acme", "globex", "initech")[number % 3])
            except (StoreUnavailable, OutcomeUnknown):
                return  # It may have ended all the same, and then it is called back once.
            ended.append(number)

        async def load(payments: trio.Nursery) -> None:
            number = 0
            while not is_over.is_set():
                payments.start_soon(pay, number)
                number += 1
                await trio.sleep(1 / PAYMENTS_PER_S)

        with trio.fail_after(HANGS_AFTER_S):
            async with running_nodes(*nodes):
                async with trio.open_nursery() as payments:
                    payments.start_soon(load, payments)
                    await trio.sleep(BEFORE_S)
                    yield
                    await trio.sleep(AFTER_S)
                    is_over.set()
                outcomes = await recorded_outcomes(first, *ended)
                while await callbacks_open(first):  # noqa: ASYNC110  (the database tells no events)
                    await trio.sleep(0.2)
    sent = [about for _, about, _ in receiver.sent]
    assert len(sent) == len(set(sent)), "a callback was sent twice"
    assert {reference(number) for number in ended} <= set(sent)
    assert set(outcomes.values()) == {DeliveryOutcome.DELIVERED}
    assert len(ended) > BEFORE_S * PAYMENTS_PER_S / 2


async def callbacks_open(store: Store) -> int:
    """Return how many callbacks have no outcome yet."""
    now = GatewayClock().own_time()
    return (await store.admin.backlog(now, overdue_before=now)).callbacks


@pytest.mark.spec("K3", "P5")
@pytest.mark.parametrize(("table", "stall_s"), LOCKS)
async def test_a_locked_table_repeats_no_callback(
    table: str, stall_s: float, database: str
) -> None:
    async with loaded_nodes(database):
        with psycopg.connect(database) as staff:
            lock = f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode()
            # In a thread: what it waits for may be a transaction of a node, which goes on in this
            # one.
            await trio.to_thread.run_sync(staff.execute, lock)
            await trio.sleep(stall_s)


@pytest.mark.spec("K3", "P5")
@pytest.mark.parametrize("stall_s", PAUSES_S)
async def test_a_server_that_is_paused_repeats_no_callback(stall_s: float) -> None:
    with postgres_process() as server:
        async with loaded_nodes(server.tcp_url):
            pause(server, signal.SIGSTOP)
            try:
                await trio.sleep(stall_s)
            finally:
                pause(server, signal.SIGCONT)


def pause(server: PostgresProcess, number: signal.Signals) -> None:
    """Stop the server's processes, or let them go on."""
    for pid in (server.pid, *children_of([server.pid])):
        os.kill(pid, number)
