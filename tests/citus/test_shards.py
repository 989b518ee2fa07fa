"""What is about a payment goes to one shard; what goes to all shards is what docs/citus.md
lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from typing import Any

import psycopg
import pytest
import trio
from attrs import Factory, define
from psycopg import pq

from mmo_sansio.messages import inputs
from mmo_sansio.messages.queries import ListRecords, LookUp, LookUpByMerchantReference
from mmo_sansio.values.clock import HOUR, Instant
from mmo_trio.storage.interface.admin_types import CountDimension, CountQuery, PaymentFilter
from mmo_trio.storage.postgres import batch_load, commits, open_postgres, queries
from mmo_trio.storage.postgres.pipeline import BoundStatement, Row, execute_pipeline
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, after_noon, create_payments, submit_batch
from tests.conformance.inputs import DELIVERED, creation, reference, succeeded
from tests.support.citus_cluster import SHARDS
from tests.support.time_limits import HANGS_AFTER_S

ACROSS_SHARDS = {
    "payments that wake": r"FROM wakes",
    "brands with callbacks waiting": r"SELECT DISTINCT (i\.)?brand FROM intents",
    "intents that an ended process has left": r"SELECT brand, gateway_reference, kind FROM "
    r"intents\s+WHERE holder",
    "a payment that is not known here": r"FROM transactions (AS t )?WHERE gateway_reference =",
    "its intents": r"JOIN intents USING \(gateway_reference, kind\)",
    "a payment by its page": r"WHERE page_token =",
    "a payment by its end": r"WHERE right\(gateway_reference, 12\) =",
    "searches and lists": r"FROM (reference_uses|receipts) AS|ORDER BY t\.created_at",
    "figures": r"FROM (counts|figures)",
    "backlog": r"SELECT count\(\*\) FROM intents WHERE kind = 'callback'",
    "usage": r"SELECT brand, counter, day, amount FROM brand_usage",
    "a payment's history for staff": r"FROM (journal|callbacks)\b",
}
"""As in docs/citus.md."""

IN_ONE_SHARD = (
    r"INSERT INTO brand_batches",
    r"INSERT INTO transactions",
    r"INSERT INTO reference_uses",
    r"INSERT INTO journal",
    r"INSERT INTO intents",
    r"INSERT INTO wakes",
    r"INSERT INTO callbacks",
    r"INSERT INTO figure_deltas",
    r"UPDATE transactions AS t",
    r"DELETE FROM intents AS i",
    r"SELECT id, gateway_reference FROM intents\s+WHERE brand = ",
    r"FROM unnest\(\$1::text\[\], \$2::text\[\]\) AS wanted \(brand, gateway_reference\)",
    r"AS wanted \(brand, merchant_reference\)",
    r"AS wanted \(brand, gateway_reference, place\)",
    r"AS wanted \(brand, merchant_reference, place\)",
    r"FROM transactions WHERE brand = %s",
)
"""One of each kind: a batch's writes and loads, claims, look-ups and records."""


@define(eq=False)
class Recorder:
    """Notes the statements that a store runs, each with the last values."""

    bound: dict[str, BoundStatement] = Factory(dict)
    executed: dict[str, Any] = Factory(dict)

    async def execute_pipeline(
        self, connection: PostgresConnection, statements: Sequence[BoundStatement]
    ) -> list[list[Row]]:
        """Run the statements as the store does."""
        self.bound.update((each.statement.text.decode(), each) for each in statements)
        return await execute_pipeline(connection, statements)

    def recording(
        self, execute: Callable[..., Coroutine[Any, Any, Any]]
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Wrap the method of a connection."""

        async def run(
            connection: PostgresConnection, query: Any, values: Any = None, **options: Any
        ) -> Any:
            text = query.decode() if isinstance(query, bytes) else str(query)
            self.executed[text] = values
            return await execute(connection, query, values, **options)

        return run

    def tasks(self, url: str) -> dict[str, int]:
        """The most shards that any part of a statement goes to; statements on the coordinator alone
        are left out."""
        found: dict[str, int] = {}
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute("SET plan_cache_mode = force_custom_plan")
            for text, bound in self.bound.items():
                if is_explained(text):
                    explained = connection.pgconn.exec_params(
                        b"EXPLAIN (COSTS OFF) " + text.encode(),
                        bound.values,
                        None,
                        bound.statement.formats,
                    )
                    assert explained.status == pq.ExecStatus.TUPLES_OK, (
                        text,
                        explained.error_message,
                    )
                    lines = [str(explained.get_value(row, 0)) for row in range(explained.ntuples)]
                    found[text] = most_tasks("\n".join(lines))
            for text, values in self.executed.items():
                if is_explained(text):
                    rows = connection.execute(
                        b"EXPLAIN (COSTS OFF) " + text.encode(), values
                    ).fetchall()
                    found[text] = most_tasks("\n".join(line for (line,) in rows))
        return {text: tasks for text, tasks in found.items() if tasks}


def is_explained(text: str) -> bool:
    """Whether a statement reads or writes tables."""
    return text.split(maxsplit=1)[0].upper() in {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}


def most_tasks(plan: str) -> int:
    """The highest number of tasks in a plan, 0 without any."""
    return max(map(int, re.findall(r"Task Count: (\d+)", plan)), default=0)


async def use_everything(store: Store) -> None:
    """A payment's whole life, and what is looked at meanwhile."""
    await create_payments(store, range(3))
    await submit_batch(store, (creation(4, merchant_reference="order/1 ü"), after_noon(4)))
    await submit_batch(store, (inputs.BeginSubmission(reference(1)), after_noon(5)))
    await submit_batch(store, (succeeded(1), after_noon(6)))
    assert store.ownership is not None
    await store.ownership.claim(end_leases=True)
    claimed = await store.ownership.find_callbacks({"acme": 10})
    assert claimed
    fence = claimed[0].intent
    await submit_batch(
        store,
        (
            inputs.CallbackConcluded(reference(1), DELIVERED, getattr(fence, "fence", 0)),
            after_noon(7),
        ),
    )
    await store.claim_abandoned(limit=10)
    await store.next_wake()
    await store.due(after_noon(HOUR), limit=10)
    assert await store.look_up(LookUp("acme", reference(1)))
    assert await store.look_up(LookUpByMerchantReference("acme", "order/1 ü"))
    assert (
        await store.list_records(ListRecords("acme", NOON, after_noon(100), page_size=10))
    ).objects
    assert await store.transaction(reference(1))
    assert await store.transaction_by_page_token("token-2") is None
    assert await store.transaction_by_suffix(reference(1)[-12:])
    admin = store.admin
    await admin.search_payments("order/1 ü", msisdns=["254700000000"])
    await admin.list_payments(PaymentFilter())
    await admin.timeline(reference(1))
    await admin.callbacks(gateway_reference=reference(1))
    await admin.failed_callbacks()
    await admin.backlog(after_noon(8), overdue_before=after_noon(9))
    await admin.count_payments(
        CountQuery(HOUR, Instant(0), after_noon(HOUR)), by=CountDimension.BRAND
    )


async def test_what_is_about_a_payment_goes_to_one_shard(
    distributed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    for module in (batch_load, commits, queries):
        monkeypatch.setattr(module, "execute_pipeline", recorder.execute_pipeline)
    monkeypatch.setattr(
        PostgresConnection, "execute", recorder.recording(PostgresConnection.execute)
    )
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(distributed, serving=True) as store:
            await use_everything(store)
        async with open_postgres(distributed, serving=True) as another:
            await submit_batch(another, (inputs.TransactionWoke(reference(2)), after_noon(20)))
    tasks = recorder.tasks(distributed)
    crossing = [text for text, count in tasks.items() if count > 1]
    unlisted = [
        text
        for text in crossing
        if not any(re.search(each, text) for each in ACROSS_SHARDS.values())
    ]
    assert unlisted == []
    assert {tasks[text] for text in crossing} == {SHARDS}
    one_shard = [text for text, count in tasks.items() if count == 1]
    missing = [
        kind for kind in IN_ONE_SHARD if not any(re.search(kind, text) for text in one_shard)
    ]
    assert missing == []
