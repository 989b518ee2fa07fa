"""The synchronous standby is away, and somebody cancels the wait for it: what is answered is on the
standby."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mmo_sansio.messages.queries import ListRecords
from mmo_trio.storage.interface.admin_types import BrandHold
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.system.clock import GatewayClock
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import creation, reference
from tests.support.postgres_cluster import Cluster, postgres_cluster

# isort: split
import psycopg

from mmo_sansio.values.clock import Span, later
from tests.support.store_timeouts import set_timeout
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

WAITS_FOR_STANDBY = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@asynccontextmanager
async def waits_that_are_ended(cluster: Cluster, how: str) -> AsyncIterator[None]:
    """While the block runs, end each wait for the standby with this function of PostgreSQL, as an
    administrator who wants to free the server might."""
    ended = 0

    def end_waits(connection: psycopg.Connection) -> int:
        return len(
            connection.execute(
                f"SELECT {how}(pid) FROM ({WAITS_FOR_STANDBY}) AS waiting".encode()
            ).fetchall()
        )

    async def end_all() -> None:
        nonlocal ended
        with psycopg.connect(cluster.primary.tcp_url, autocommit=True) as connection:
            while True:
                ended += await trio.to_thread.run_sync(end_waits, connection)
                await trio.sleep(0.02)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_all)
        yield
        nursery.cancel_scope.cancel()
    assert ended


@pytest.mark.spec("P5", "C6")
@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_a_commit_whose_wait_for_the_standby_was_cancelled_is_not_answered(how: str) -> None:
    """The primary has it, and says so, also to a role whose sessions hide warnings; after a
    failover it would be gone."""
    answers = dict[int, str]()
    with postgres_cluster() as cluster, trio.fail_after(HANGS_AFTER_S):
        with psycopg.connect(cluster.primary.tcp_url, autocommit=True) as connection:
            connection.execute("ALTER ROLE postgres SET client_min_messages = error")
        async with open_postgres(cluster.url, serving=True) as store:
            await submit_batch(store, (creation(0), NOON))
            answers[0] = "Accepted"
            set_timeout(store, 1)
            cluster.kill_standby()
            async with waits_that_are_ended(cluster, how):
                for number in range(1, 3):
                    try:
                        (reply,) = await submit_batch(
                            store, (creation(number), later(NOON, Span(number)))
                        )
                        answers[number] = type(reply).__name__
                    except (StoreUnavailable, OutcomeUnknown) as error:
                        answers[number] = type(error).__name__
                with pytest.raises(OutcomeUnknown):
                    await store.admin.hold_brand(BrandHold("acme", NOON, "ada"))
            cluster.kill_primary()
            cluster.standby.start()
            cluster.promote()
            set_timeout(store, HANGS_AFTER_S)
            found = {
                number
                for number in answers
                if await store.transaction(reference(number)) is not None
            }
    assert {number for number, answer in answers.items() if answer == "Accepted"} <= found
    assert answers[1] == "CommitInDoubt", "it is asked again later, and its work isn't forgotten"


@pytest.mark.spec("P5")
async def test_a_commit_whose_wait_was_cancelled_is_answered_when_the_standby_has_it() -> None:
    """The standby comes back while it is asked whether the commit is safe."""
    with postgres_cluster() as cluster, trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(cluster.url, serving=True, timeout_s=60) as store:
            cluster.kill_standby()
            async with trio.open_nursery() as nursery:

                async def bring_back() -> None:
                    async with waits_that_are_ended(cluster, "pg_cancel_backend"):
                        await trio.sleep(0.5)
                    cluster.standby.start()

                nursery.start_soon(bring_back)
                await submit_batch(store, (creation(1), NOON))
            cluster.kill_primary()
            cluster.promote()
            assert await store.transaction(reference(1)) is not None


@pytest.mark.spec("R7")
async def test_records_are_not_listed_up_to_a_horizon_that_only_the_primary_has() -> None:
    """After a failover a node could create below that horizon, behind a page that was answered as
    complete."""
    with postgres_cluster() as cluster, trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(cluster.url, serving=True, timeout_s=60) as store:
            await submit_batch(store, (creation(1), NOON))
            page = ListRecords("acme", NOON, GatewayClock().wall_time(), page_size=10)
            cluster.kill_standby()
            set_timeout(store, 2)
            async with waits_that_are_ended(cluster, "pg_cancel_backend"):
                with pytest.raises(StoreUnavailable):
                    await store.list_records(page)
            set_timeout(store, HANGS_AFTER_S)
            cluster.standby.start()
            cluster.wait_for_standby()
            assert len((await store.list_records(page)).objects) == 1
