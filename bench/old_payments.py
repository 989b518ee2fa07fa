"""Fills an empty PostgreSQL with payments of two years that have ended, as rows that the gateway can read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import trio
from attrs import evolve

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.testing import a_transaction, numbered_reference
from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, earlier, later
from mmo_sansio.values.model import Party, Stage, Transaction
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.serialization import serialize_order, serialize_progress, without_checksum

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
        FROM transactions
    """,
    """
    INSERT INTO receipts (brand, gateway_reference, receipt)
        SELECT brand, gateway_reference, 'R' || right(gateway_reference, 12) FROM transactions
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
    """,
    """
    INSERT INTO callbacks (brand, gateway_reference, outcome, url, status, duration_ms, detail, at)
        SELECT brand, gateway_reference, 'delivered', 'https://acme.example/result', 200, 80,
            'The receiver answered 200.', created_at + 9300000
        FROM transactions
    """,
    "VACUUM ANALYZE",
)


def fill(url: str, rows: int, now: Instant) -> None:
    """Write so many payments, at equal intervals from OLDEST on, and all that belongs to them."""
    trio.run(_migrate, url)
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for row in _rows(rows, earlier(now, OLDEST)):
                copy.write_row(row)
        for statement in _HISTORY:
            connection.execute(statement.encode())


async def _migrate(url: str) -> None:
    async with open_postgres(url, serving=True, create=True):
        pass


def _rows(rows: int, begin: Instant) -> Iterator[tuple[object, ...]]:
    """Yield the columns of each payment: copies of one, with references, number, time and checksums of their own."""
    step = OLDEST // rows
    templates = [_template(brand) for brand in range(BRANDS)]
    for number in range(rows):
        at, reference, msisdn = begin + number * step, numbered_reference(number), f"2547{number % 10**8:08d}"
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
        texts = [b"%08x" % zlib.crc32(each) + each for each in (order, progress, rendered)]
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
