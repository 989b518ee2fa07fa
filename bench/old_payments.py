"""Fills an empty PostgreSQL with payments of two years that have ended, as rows that the gateway can read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

import trio
from attrs import evolve, frozen

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.testing import a_transaction, numbered_reference
from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, earlier, later, to_datetime
from mmo_sansio.values.model import Party, Stage, Transaction
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.partitions import PARTITIONED_TABLES, Partition, PartitionedTable, partition_at
from mmo_trio.storage.sql.object_rows import compress_object
from mmo_trio.storage.sql.serialization import serialize_order, serialize_progress, with_checksum, without_checksum

# isort: split
import psycopg

BRANDS = 4
OLDEST: Final = Span(760 * DAY)
ARCHIVED_FROM: Final = Span(380 * DAY)
"""Half of the payments are older than this: what the settings of the benchmark archive."""
_NUMBER: Final = 987_654_321_987
"""Stands for each payment's own number in the rows that are repeated."""
_COPY = """
    COPY transactions (brand, gateway_reference, type, method, status, created_at, version, order_row, progress,
        object, msisdn) FROM STDIN
"""
_HISTORY = (
    """
    INSERT INTO reference_uses (brand, merchant_reference, nth, at, gateway_reference, earlier)
        SELECT brand, 'order-' || right(gateway_reference, 12), 1, created_at, gateway_reference, 'failed'
        FROM transactions WHERE created_at >= %(begin)s AND created_at < %(end)s
    """,
    """
    INSERT INTO receipts (brand, gateway_reference, receipt)
        SELECT brand, gateway_reference, 'R' || right(gateway_reference, 12)
        FROM transactions WHERE created_at >= %(begin)s AND created_at < %(end)s
    """,
    """
    INSERT INTO journal (brand, at, what, actor, gateway_reference, stage_before, stage_after, detail)
        SELECT brand, created_at + step.at, step.what, step.actor, gateway_reference, step.stage_before,
            step.stage_after, step.detail
        FROM transactions CROSS JOIN (VALUES
            (0, 'CreatePayment', 'merchant', NULL, 'created', '{"method": "mpesa_ke", "operation": "direct/payin"}'),
            (90000, 'BeginSubmission', 'gateway', 'created', 'submitting', '{}'),
            (400000, 'ProviderAccepted', 'provider:sandbox', 'submitting', 'awaiting_result',
                '{"source": "poll", "providerReference": "SBX-0123456789"}'),
            (9000000, 'ProviderSucceeded', 'provider:sandbox', 'awaiting_result', 'succeeded',
                '{"source": "webhook", "providerReference": "SBX-0123456789", "finalAmount": "KES 150.00"}'),
            (9300000, 'CallbackConcluded', 'gateway', NULL, NULL,
                '{"outcome": "delivered", "status": 200, "durationMs": 80, "detail": "The receiver answered 200."}')
        ) AS step (at, what, actor, stage_before, stage_after, detail)
        WHERE created_at >= %(begin)s AND created_at < %(end)s
    """,
    """
    INSERT INTO callbacks (brand, gateway_reference, outcome, url, status, duration_ms, detail, at)
        SELECT brand, gateway_reference, 'delivered', 'https://acme.example/result', 200, 80,
            'The receiver answered 200.', created_at + 9300000
        FROM transactions WHERE created_at >= %(begin)s AND created_at < %(end)s
    """,
)
_TABLES: Final = ("transactions", "journal", "callbacks", "reference_uses", "receipts")
_PROCESSES: Final = 2


@frozen
class _Month:
    """A month of payments is written by one process, in one transaction."""

    url: str
    begin: Instant
    end: Instant
    first: int
    """Number of its first payment."""
    last: int
    """Number of the first payment after it."""
    step: Span
    oldest: Instant
    """Time of the payment with the number 0."""


def fill(url: str, rows: int, now: Instant) -> None:
    """Write so many payments, at equal intervals from OLDEST on, and all that belongs to them; the journal and the
    callbacks are divided into months, as they are where a gateway has run for two years."""
    trio.run(_migrate, url)
    oldest = earlier(now, OLDEST)
    step = Span(OLDEST // rows)
    months = list[_Month]()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE journal_first, callbacks_first")
        # As full as where payments have been updated within their pages.
        connection.execute("ALTER TABLE transactions SET (fillfactor = 100)")
        for table in PARTITIONED_TABLES[:2]:
            for each in _month_partitions(table, oldest, now):
                bounds = f"FROM ({each.begin}) TO ({each.end})"
                connection.execute(f"CREATE TABLE {each.name} PARTITION OF {each.table} FOR VALUES {bounds}".encode())
        for each in _month_partitions(PARTITIONED_TABLES[0], oldest, now):
            assert each.begin is not None
            assert each.end is not None
            first, last = (min(max(-(-(at - oldest) // step), 0), rows) for at in (each.begin, each.end))
            months.append(_Month(url, each.begin, each.end, first, last, step, oldest))
        with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as processes:
            for month in processes.map(_fill_month, months):
                print(f"filled up to {to_datetime(month.end):%Y-%m}: {month.last:,} payments", flush=True)
            list(processes.map(_vacuum, [url] * len(_TABLES), _TABLES))
        connection.execute("ALTER TABLE transactions SET (fillfactor = 50)")


def _month_partitions(table: PartitionedTable, oldest: Instant, now: Instant) -> Iterator[Partition]:
    partition = partition_at(table, oldest)
    while partition.begin is not None and partition.begin <= now:
        yield partition
        assert partition.end is not None
        partition = partition_at(table, partition.end)


def _fill_month(month: _Month) -> _Month:
    with psycopg.connect(month.url) as connection:
        connection.execute("SET synchronous_commit = off")
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for row in _rows(range(month.first, month.last), month.oldest, month.step):
                copy.write_row(row)
        for statement in _HISTORY:
            connection.execute(statement.encode(), {"begin": month.begin, "end": month.end})
    return month


def _vacuum(url: str, table: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE, PARALLEL 0) {table}".encode())


async def _migrate(url: str) -> None:
    async with open_postgres(url, serving=True, create=True):
        pass


def _rows(numbers: range, oldest: Instant, step: Span) -> Iterator[tuple[object, ...]]:
    """Yield the columns of each payment: copies of one, with references, number, time and checksums of their own."""
    templates = [_template(brand) for brand in range(BRANDS)]
    for number in numbers:
        at, reference, msisdn = oldest + number * step, numbered_reference(number), f"2547{number % 10**8:08d}"
        brand, parts = f"bench-{number % BRANDS}", templates[number % BRANDS]
        order, progress, rendered = (
            part.replace(_REFERENCE, reference)
            .replace(str(_NUMBER), msisdn)
            .replace("order-X", f"order-{reference[-12:]}")
            .replace("RECEIPT", f"R{reference[-12:]}")
            .replace(str(_AT), str(at))
            .encode()
            for part in parts
        )
        texts = with_checksum(order), with_checksum(progress), compress_object(rendered)
        yield (brand, reference, "payin", "mpesa_ke", "success", at, 5, *texts, msisdn)


_REFERENCE: Final = numbered_reference(31**5)
_AT: Final = 1_234_567_890 * SECOND


def _template(brand: int) -> tuple[str, str, str]:
    """Return the stored rows of a payment in which markers stand for what differs."""
    made = a_transaction(
        Stage.SUCCEEDED, brand=f"bench-{brand}", method="mpesa_ke", provider="sandbox", provider_title="Sandbox"
    )
    created = Instant(_AT)
    order = evolve(
        made.order,
        gateway_reference=_REFERENCE,
        party=Party("customer-7", str(_NUMBER), "Zoe", "Wanjiru", None),
        merchant_reference="order-X",
        reconciliation_reference="order-X",
        labels='{"shop":"Nairobi 3"}',
        created_at=created,
        expires_at=later(created, Span(3 * DAY)),
    )
    progress = evolve(made.progress, version=5, provider_reference="RECEIPT", completed_at=later(created, Span(SECOND)))
    whole = Transaction(order, progress)
    first, second = (without_checksum(each).decode() for each in (serialize_order(order), serialize_progress(progress)))
    return first, second, transaction_object(whole).decode()
