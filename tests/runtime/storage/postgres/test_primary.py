"""Two servers that both take writes: the gateway uses the one that was promoted last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from structlog.testing import capture_logs

from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.postgres import PostgresStore, open_postgres, primary
from mmo_trio.storage.postgres.primary import server_name, split_servers
from tests.conformance.driver import create_payments
from tests.conformance.inputs import reference
from tests.support.postgres_cluster import Cluster, postgres_cluster
from tests.support.postgres_process import PostgresProcess, execute
from tests.support.store_timeouts import set_timeout
from tests.support.time_limits import HANGS_AFTER_S


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run a primary and its synchronous standby."""
    with postgres_cluster() as found:
        yield found


def references(server: PostgresProcess) -> set[str]:
    """Return the payments that a server has."""
    return {
        f"{each}"
        for (each,) in execute(server.tcp_url, "SELECT gateway_reference FROM transactions")
    }


async def take_until_stored_by(
    server: PostgresProcess, store: PostgresStore, numbers: Iterator[int]
) -> None:
    """Take payments until this server has one."""
    while True:
        number = next(numbers)
        try:
            await create_payments(store, [number])
        except StoreUnavailable:
            continue
        if reference(number) in references(server):
            return
        await trio.sleep(0.05)


@pytest.mark.long
async def test_a_process_leaves_a_primary_that_was_replaced_for_good(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old primary is named first and lives on. A process that serves, and one that begins, use
    the new one; while that is away, no other."""
    monkeypatch.setattr(primary, "LOOK_INTERVAL_S", 0.1)
    numbers = iter(range(100_000))
    with trio.fail_after(HANGS_AFTER_S), capture_logs() as logged:
        async with open_postgres(cluster.url, serving=True, timeout_s=60) as store:
            await create_payments(store, [next(numbers)])
            assert reference(0) in references(cluster.primary)
            # The old one takes writes without it from now on, but nothing before was lost.
            await trio.to_thread.run_sync(cluster.stop_waiting)
            await trio.to_thread.run_sync(cluster.promote)
            await take_until_stored_by(cluster.standby, store, numbers)
            before = references(cluster.primary)
            await create_payments(store, [next(numbers), next(numbers)])
            async with open_postgres(cluster.url, serving=False) as command:
                await create_payments(command, [next(numbers)])
            await trio.to_thread.run_sync(cluster.standby.stop)
            set_timeout(store, 1)
            with pytest.raises(StoreUnavailable):
                await create_payments(store, [next(numbers)])
            set_timeout(store, HANGS_AFTER_S)
            await trio.to_thread.run_sync(cluster.standby.start)
            await take_until_stored_by(cluster.standby, store, numbers)
        assert references(cluster.primary) == before
    names = [server_name(each) for each in split_servers(cluster.url)]
    events = {(each["event"], each.get("server"), each.get("timeline")) for each in logged}
    assert ("primary_replaced", names[1], 2) in events
    assert ("replaced_primary_lives", names[0], 1) in events


def test_each_server_of_an_address_has_its_own_parameters() -> None:
    def names(url: str) -> list[str]:
        return [server_name(each) for each in split_servers(url)]

    assert names("postgresql://mmo@db1,db2:5433/mmo") == ["db1:5432", "db2:5433"]
    assert names("host=a,b,c port=6432 dbname=mmo") == ["a:6432", "b:6432", "c:6432"]
    assert names("hostaddr=10.0.0.1,10.0.0.2 host=a,b port=1,2") == ["a:1", "b:2"]
    assert names("postgresql://mmo@db1/mmo") == ["db1:5432"]
    assert names("dbname=mmo") == ["localhost:5432"]
