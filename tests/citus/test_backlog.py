"""A merchant who is down has a long backlog of callbacks, which the search for channels without an
owner leaves out."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg
import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from tests.citus.test_shards import Recorder
from tests.conformance.driver import after_noon, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.time_limits import HANGS_AFTER_S

BACKLOG = 3_000
READ = re.compile(
    r"Scan[^\n]* on intents_\d+[^\n]*\(actual rows=(\d+) loops=(\d+)\)|Rows Removed by "
    r"[^\n]*: (\d+)"
)


def insert_callbacks(url: str, brand: str, count: int) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        for first in range(0, count, 500):
            rows = [
                (brand, f"{brand}-{number}") for number in range(first, min(first + 500, count))
            ]
            connection.cursor().executemany(
                "INSERT INTO intents (brand, gateway_reference, kind, holder) VALUES (%s, %s, "
                "'callback', 0)",
                rows,
            )
        connection.execute("ANALYZE intents")


def count_read_rows(url: str, recorder: Recorder) -> int:
    """The rows of intents that the recorded statements to all shards read."""
    total = 0
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("SET citus.explain_all_tasks = on")
        for text, values in recorder.executed.items():
            if "SELECT DISTINCT" in text:
                explain = b"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) " + text.encode()
                plan = "\n".join(line for (line,) in connection.execute(explain, values).fetchall())
                for rows, loops, removed in READ.findall(plan):
                    total += int(removed) if removed else int(rows) * int(loops)
    return total


async def test_callbacks_of_a_channel_with_an_owner_are_not_read_in_search_of_others(
    distributed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for brand in ("fifth", "second"):
        insert_callbacks(distributed, brand, BACKLOG)
    with trio.fail_after(HANGS_AFTER_S):
        async with (
            open_postgres(distributed, serving=True) as store,
            open_postgres(distributed, serving=True) as other,
        ):
            assert store.ownership is not None
            assert other.ownership is not None
            owned = {each.brand: each.fence for each in await store.ownership.claim()}
            assert set(owned) == {"fifth", "second"}
            recorder = Recorder()
            monkeypatch.setattr(
                PostgresConnection, "execute", recorder.recording(PostgresConnection.execute)
            )
            assert await store.ownership.claim(known=owned) == []
            assert await other.ownership.claim(known={}) == []
            assert count_read_rows(distributed, recorder) == 0
            for brand in ("first", "from", "zone"):
                insert_callbacks(distributed, brand, 1)
            found = await other.ownership.claim(known={})
            assert [each.brand for each in found] == ["first", "from", "zone"]
            again = await store.ownership.claim(known={"fifth": owned["fifth"]})
            assert [each.brand for each in again] == ["second"], (
                "an owner that does not know of it claims it again"
            )
            assert await store.ownership.claim(known={}, excluding=["fifth", "second"]) == []


async def test_a_search_for_callbacks_is_one_statement_for_one_server(
    distributed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What joins the coordinator's tables is planned in parts, whose rows are sent to the worker:
    with 64 merchants it took longer than the deadline, and no callback was sent."""
    recorder = Recorder()
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(distributed, serving=True) as store:
            for number in range(20):
                brand = f"brand-{number}"
                await submit_batch(store, (creation(number, brand_id=brand), after_noon(number)))
                await submit_batch(
                    store, (BeginSubmission(reference(number)), after_noon(50 + number))
                )
                await submit_batch(store, (succeeded(number), after_noon(100 + number)))
            assert store.ownership is not None
            owned = {each.brand: each.fence for each in await store.ownership.claim()}
            assert len(owned) == 20
            monkeypatch.setattr(
                PostgresConnection, "execute", recorder.recording(PostgresConnection.execute)
            )
            found = await store.ownership.find_callbacks(dict.fromkeys(owned, 10), known=owned)
            assert {each.transaction.order.brand for each in found} == set(owned)
            taken = {each.transaction.order.brand: [each.transaction.reference] for each in found}
            assert (
                await store.ownership.find_callbacks(
                    dict.fromkeys(owned, 10), known=owned, taken=taken
                )
                == []
            )
    [search] = [text for text in recorder.executed if "FOR UPDATE SKIP LOCKED" in text]
    with closing(psycopg.connect(distributed, autocommit=True)) as connection:
        explain = b"EXPLAIN (COSTS OFF) " + search.encode()
        explained = connection.execute(explain, recorder.executed[search]).fetchall()
    plan = "\n".join(line for (line,) in explained)
    assert "Task Count: 1" in plan
    assert "Distributed Subplan" not in plan
