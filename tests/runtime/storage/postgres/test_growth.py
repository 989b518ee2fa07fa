"""What a payment leaves behind: its steps are HOT updates, and what commits count is inserted and
added up later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import trio

from mmo_sansio.messages.inputs import BeginSubmission, Input, ProviderAccepted
from mmo_sansio.messages.queries import LookUp
from mmo_sansio.values.clock import DAY, HOUR, LAST_INSTANT, Instant, Span, later
from mmo_sansio.values.model import Source, Status
from mmo_trio.storage.interface.admin_types import CountDimension, CountQuery, PaymentCount
from mmo_trio.storage.postgres import PostgresStore, maintenance, open_postgres
from mmo_trio.storage.postgres.commits import first_commit_id, make_commit_id
from mmo_trio.storage.sql import monitoring
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import creation, failed, reference, succeeded

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

PAYMENTS = range(3)
"""As many as have room on one page."""


async def live(store: PostgresStore) -> None:
    """Lead a few payments through all steps."""
    step = iter(range(100))

    async def together(make: Callable[[int], Input]) -> None:
        moment = later(NOON, Span(next(step)))
        await submit_batch(store, *((make(number), moment) for number in PAYMENTS))

    await together(creation)
    await together(lambda n: BeginSubmission(reference(n)))
    await together(lambda n: ProviderAccepted(reference(n), "sandbox", Source.WEBHOOK))
    await together(lambda n: failed(n) if n else succeeded(n))


def updates(database: str, table: str) -> tuple[int, int]:
    """Count the updates of a table by sessions that have ended, and those of them that were HOT."""
    with psycopg.connect(database) as connection:
        query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s"
        row = connection.execute(query, (table,)).fetchone()
        assert row is not None
        return row


async def test_every_step_of_a_payment_is_a_hot_update(database: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(database, serving=True) as store:
            await live(store)
            assert not await store.integrity_errors()
        while updates(database, "transactions")[0] < 3 * len(PAYMENTS):  # noqa: ASYNC110  (sessions report at their end)
            await trio.sleep(0.05)
    assert updates(database, "transactions") == (3 * len(PAYMENTS), 3 * len(PAYMENTS))


async def test_commits_count_by_inserting_and_the_sum_is_the_same_after_the_roll_up(
    database: str,
) -> None:
    """No commit updates a row that another one updates, so a long snapshot makes none slower."""
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(database, serving=True) as store:
            await live(store)

            async def counts(span: Span) -> set[PaymentCount]:
                query = CountQuery(span, Instant(0), LAST_INSTANT)
                return set(await store.admin.count_payments(query, by=None))

            async def read_sums() -> Sequence[Sequence[object]]:
                query = CountQuery(HOUR, Instant(0), LAST_INSTANT)
                quarters = await store.admin.provider_quarters(Instant(0), LAST_INSTANT)
                return [await store.admin.sum_payments(query, by=None), quarters]

            before = {span: await counts(span) for span in (HOUR, DAY)}
            sums_before = await read_sums()
            for found in before.values():
                assert {(each.status, each.count) for each in found} == {
                    (Status.PENDING, 3),
                    (Status.SUCCESS, 1),
                    (Status.FAILED, 2),
                }
            with psycopg.connect(database) as connection:
                rows = "SELECT (SELECT count(*) FROM figures), (SELECT count(*) FROM figure_deltas)"
                assert connection.execute(rows).fetchone() == (0, 3)
                await store.roll_up_counts()
                await store.roll_up_counts()
                connection.rollback()
                assert connection.execute(rows).fetchone() == (9, 0)
            assert {span: await counts(span) for span in (HOUR, DAY)} == before
            assert await read_sums() == sums_before
            await submit_batch(store, (creation(7), NOON))
            await store.roll_up_counts()
            assert {each.count for each in await counts(DAY) if each.status is Status.PENDING} == {
                4
            }


async def test_a_count_reads_the_hour_that_it_asks_for_and_no_other(database: str) -> None:
    """A condition that is not passed on to the parts of the view would read all figures that there
    are, once for each hour of a page."""
    hour = Instant(NOON // HOUR * HOUR)
    query = CountQuery(HOUR, hour, later(hour, HOUR))
    async with open_postgres(database, serving=False):
        pass

    statements = [
        next(monitoring.count_payments(query, by=None)),
        next(monitoring.sum_payments(query, by=CountDimension.PROVIDER)),
        next(monitoring.payment_cells(query)),
        next(monitoring.provider_quarters(hour, later(hour, HOUR))),
    ]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO figures SELECT span, %s - n * span, 'acme', 'm', 'p', 0, 'success', 1,"
            " 'payin', 'KES', '', 0, 1, 100 FROM generate_series(0, 9999) AS n,"
            " unnest(ARRAY[900000000, 3600000000, 86400000000]) AS span",
            [hour],
        )
        connection.execute("VACUUM ANALYZE figures")
        for statement in statements:
            explained = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text.replace("?", "%s")
            row = connection.execute(explained.encode(), statement.values).fetchone()
            assert row is not None
            (plan,) = row
            scans = list(scans_of("figures", plan[0]["Plan"]))
            assert {scan["Node Type"] for scan in scans} <= {"Index Scan", "Bitmap Heap Scan"}
            assert sum(scan["Actual Rows"] for scan in scans) <= 4


def scans_of(table: str, node: Any) -> Iterator[Any]:
    """Yield the nodes of a plan that read a table."""
    if node.get("Relation Name") == table:
        yield node
    for inner in node.get("Plans", ()):
        yield from scans_of(table, inner)


async def test_the_object_of_a_pending_payment_is_rendered_and_that_of_one_that_has_ended_is_kept(
    database: str,
) -> None:
    with trio.fail_after(HANGS_AFTER_S), psycopg.connect(database, autocommit=True) as connection:
        async with open_postgres(database, serving=True) as store:
            begin = (BeginSubmission(reference(2)), later(NOON, Span(1)))
            await submit_batch(store, (creation(1), NOON), (creation(2), NOON), begin)
            await submit_batch(store, (succeeded(2), later(NOON, Span(2))))
            kept = "SELECT gateway_reference FROM transactions WHERE length(object) > 0"
            assert connection.execute(kept).fetchall() == [(reference(2),)]
            for number, status in ((1, b'"status":"pending"'), (2, b'"status":"success"')):
                shown = await store.look_up(LookUp("acme", reference(number)))
                assert shown is not None
                assert status in shown


def test_ids_of_commits_are_in_the_order_of_time() -> None:
    made = [make_commit_id() for _ in range(100)]
    assert len(set(made)) == 100
    assert {each.version for each in made} == {7}
    assert {each.variant for each in made} == {"specified in RFC 4122"}
    at = Instant(made[0].int // 2**80 * 1_000)
    assert first_commit_id(at) <= made[0] < first_commit_id(later(at, Span(1_000)))


async def test_rows_of_commits_are_deleted_when_nobody_asks_and_the_latest_stamp_stays(
    database: str,
) -> None:
    with trio.fail_after(HANGS_AFTER_S), psycopg.connect(database, autocommit=True) as connection:
        async with open_postgres(database, serving=True) as store:
            for number in range(3):
                await submit_batch(store, (creation(number), later(NOON, Span(9 - number))))
            await store.purge()
            assert connection.execute("SELECT count(*) FROM batches").fetchone() == (3,)
            age_s = maintenance.COMMIT_RECORDS_KEPT_FOR / 1_000_000 + 60
            for name, stamp in (("a", NOON + 9), ("b", NOON + 8)):
                connection.execute(
                    "UPDATE batches SET touched_at = touched_at - make_interval(secs => %s), id = "
                    "%s WHERE stamp = %s",
                    (age_s, f"0000000{name}-0000-7000-8000-000000000000", stamp),
                )
            await store.purge()
            assert connection.execute("SELECT count(*) FROM batches").fetchone() == (2,)
            assert await store.held_until() == NOON + 9


async def test_the_space_of_masked_payments_is_used_again_when_a_fiftieth_is_free(
    database: str,
) -> None:
    """Old rows die a little every day, and new ones take their place."""
    async with open_postgres(database, serving=True):
        pass
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT reloptions FROM pg_class WHERE oid = 'transactions'::regclass"
        ).fetchone()
    assert found is not None
    assert "autovacuum_vacuum_scale_factor=0.02" in (found[0] or ()), found
