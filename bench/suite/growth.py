"""Measures what one payment costs a store: bytes of tables, of indexes and of the write-ahead log,
and HOT updates."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import trio
from attrs import evolve, frozen
from tests.conformance.driver import submit_batch
from tests.conformance.inputs import creation

from bench import servers
from bench.options import Options
from bench.report import Goal, Outcome, Table
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    CreatePayment,
    Input,
    ProviderAccepted,
    ProviderSucceeded,
)
from mmo_sansio.values.clock import MILLISECOND, SECOND, Instant, Span, later
from mmo_sansio.values.model import Party, Source
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import open_sqlite

# isort: split
import psycopg

PAYMENTS = 20_000
BATCH = 16
"""Payments that are decided together."""
STEP = Span(250 * MILLISECOND)
"""Time between two batches of the same kind."""
BEGIN = Instant(1_790_000_000 * SECOND)
BRANDS = 4
_ULID_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

_FIGURES = """
    SELECT wal_bytes::bigint, wal_records, wal_fpi FROM pg_stat_wal
"""
_SIZES = """
    SELECT coalesce(parent.relname, c.relname), sum(pg_table_size(c.oid))::bigint,
        sum(pg_indexes_size(c.oid))::bigint
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = 'public'
    LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
    LEFT JOIN pg_class AS parent ON parent.oid = i.inhparent
    WHERE c.relkind = 'r' GROUP BY 1 ORDER BY 2 DESC
"""
_UPDATES = """
    SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE n_tup_upd > 0
    ORDER BY 2 DESC
"""


@frozen
class Growth:
    """Holds what so many payments have cost."""

    payments: int
    wal_bytes: int
    wal_records: int
    full_pages: int
    sizes: dict[str, tuple[int, int]]
    """Bytes of each table and of its indexes, as written."""
    packed: dict[str, tuple[int, int]]
    """The same after VACUUM FULL."""
    updates: dict[str, tuple[int, int]]
    """Updates of each table, and how many of them were HOT."""

    def each(self, amount: float) -> float:
        """Return an amount for each payment."""
        return amount / self.payments


def run(options: Options) -> Outcome:
    """Write whole lives to an empty PostgreSQL and to an empty SQLite file."""
    with servers.postgres(options.folder) as database:
        grown = grow_postgres(database.fresh("growth"), PAYMENTS)
    file_bytes = grow_sqlite(options.folder / "growth.db", PAYMENTS)
    return Outcome(
        "growth",
        "What a payment costs the store",
        f"{PAYMENTS:,} pay-ins of {BRANDS} brands, from the create to the delivered callback: "
        f"five batches of {BATCH}"
        " payments each; references, numbers and receipts are random as those of real payments. "
        "One checkpoint in the"
        " middle.",
        [_size_table(grown, file_bytes), _cost_table(grown)],
        [
            Goal(
                "tables and indexes, as written",
                3_845,
                grown.each(_total(grown.sizes)),
                " B",
                at_most=True,
            ),
            Goal("write-ahead log", 7_077, grown.each(grown.wal_bytes), " B", at_most=True),
        ],
    )


def grow_postgres(url: str, payments: int) -> Growth:
    """Write so many whole lives to an empty database."""
    with psycopg.connect(url, autocommit=True) as connection:
        trio.run(_live, lambda: open_postgres(url, serving=True), 0, lambda: None)
        connection.execute("CHECKPOINT")
        before = _figures(connection)
        trio.run(
            _live,
            lambda: open_postgres(url, serving=True),
            payments,
            lambda: connection.execute("CHECKPOINT"),
        )
        after = _figures(connection)
        sizes = _sizes(connection)
        updates = {
            name: (every, hot) for name, every, hot in connection.execute(_UPDATES).fetchall()
        }
        connection.execute("VACUUM FULL")
        wal_bytes, wal_records, full_pages = (
            now - then for now, then in zip(after, before, strict=True)
        )
        return Growth(
            payments, wal_bytes, wal_records, full_pages, sizes, _sizes(connection), updates
        )


def grow_sqlite(file: Path, payments: int) -> int:
    """Write so many whole lives to a new file; return its size in bytes."""
    trio.run(_live, lambda: open_sqlite(file, serving=True), payments, lambda: None)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return file.stat().st_size


async def _live(
    open_store: Callable[[], AbstractAsyncContextManager[Store]],
    payments: int,
    halfway: Callable[[], object],
) -> None:
    """Lead payments through their lives, so that each commit holds one step of a batch of them, as
    under load."""
    chance = random.Random(7)
    async with open_store() as store:
        cohorts: list[Sequence[str]] = []
        now = BEGIN
        for turn in range(payments // BATCH + 4):
            now = later(now, STEP)
            if turn == payments // BATCH // 2:
                await trio.to_thread.run_sync(halfway)
            if turn < payments // BATCH:
                created = [_creation(chance, turn, nth, now) for nth in range(BATCH)]
                cohorts.append([each.gateway_reference for each in created])
                await _submit(store, created, now)
            for age, steps in enumerate((_begin, _accept, _succeed, _deliver), start=1):
                if 0 <= turn - age < len(cohorts):
                    if steps is _deliver and store.ownership is not None:
                        await store.ownership.claim()
                    await _submit(store, [steps(each) for each in cohorts[turn - age]], now)


async def _submit(store: Store, inputs: Sequence[Input], now: Instant) -> None:
    await submit_batch(store, *((each, later(now, Span(nth))) for nth, each in enumerate(inputs)))


def _creation(chance: random.Random, turn: int, nth: int, now: Instant) -> CreatePayment:
    made = creation(turn * BATCH + nth, merchant_reference=f"INV-{chance.randrange(10**12)}")
    reference = _ulid(chance, now)
    number = f"2547{chance.randrange(10**8):08d}"
    party = Party(f"customer-{chance.randrange(10**6)}", number, "Zoë", None, "zoe@example.com")
    brand = evolve(made.brand, id=f"brand-{nth % BRANDS}")
    return evolve(
        made, gateway_reference=reference, brand=brand, draft=evolve(made.draft, party=party)
    )


def _ulid(chance: random.Random, now: Instant) -> str:
    number, digits = now // 1_000 << 80 | chance.getrandbits(80), ""
    for _ in range(26):
        number, digit = divmod(number, 32)
        digits = _ULID_DIGITS[digit] + digits
    return digits


def _begin(reference: str) -> Input:
    return BeginSubmission(reference)


def _accept(reference: str) -> Input:
    return ProviderAccepted(reference, "sandbox", Source.WEBHOOK)


def _succeed(reference: str) -> Input:
    receipt = f"{hash(reference) & 0xFFFFFFFFFF:010X}"
    return ProviderSucceeded(reference, "sandbox", Source.WEBHOOK, receipt)


def _deliver(reference: str) -> Input:
    url = "https://merchant.example/results"
    return CallbackConcluded(
        reference, DeliveryAttempt(DeliveryOutcome.DELIVERED, url, 200, 12, "", b'{"ok":true}'), 1
    )


def _figures(connection: psycopg.Connection) -> tuple[int, int, int]:
    connection.execute(
        "SELECT pg_sleep(1.2)"
    )  # Sessions report what they have done once a second, or when they end.
    row = connection.execute(_FIGURES).fetchone()
    assert row is not None
    return row


def _sizes(connection: psycopg.Connection) -> dict[str, tuple[int, int]]:
    return {
        name: (table, indexes) for name, table, indexes in connection.execute(_SIZES).fetchall()
    }


def _total(sizes: dict[str, tuple[int, int]]) -> int:
    return sum(table + indexes for table, indexes in sizes.values())


def _size_table(grown: Growth, file_bytes: int) -> Table:
    rows = [
        [
            name,
            f"{grown.each(table):,.0f}",
            f"{grown.each(indexes):,.0f}",
            f"{grown.each(sum(grown.packed[name])):,.0f}",
        ]
        for name, (table, indexes) in grown.sizes.items()
        if grown.each(table + indexes) >= 1
    ]
    rows.append(
        [
            "all",
            f"{grown.each(_total(grown.sizes)):,.0f}",
            "",
            f"{grown.each(_total(grown.packed)):,.0f}",
        ]
    )
    rows.append(["SQLite's file", f"{file_bytes / grown.payments:,.0f}", "", ""])
    return Table(
        "bytes for each payment",
        ("table", "as written", "its indexes", "both after VACUUM FULL"),
        rows,
        "the order and the progress of a payment, its five lines in the journal, and its keys in "
        "six indexes.",
    )


def _cost_table(grown: Growth) -> Table:
    every, hot = (sum(each[nth] for each in grown.updates.values()) for nth in (0, 1))
    rows = [
        ["bytes of the write-ahead log", f"{grown.each(grown.wal_bytes):,.0f}"],
        ["records of the write-ahead log", f"{grown.each(grown.wal_records):.1f}"],
        ["full pages in it", f"{grown.each(grown.full_pages):.2f}"],
        ["updates", f"{grown.each(every):.2f}"],
        ["share of HOT updates", f"{hot / max(1, every):.0%}"],
    ]
    rows += [
        [f"... of {name}", f"{part / count:.0%} of {grown.each(count):.2f}"]
        for name, (count, part) in grown.updates.items()
    ]
    return Table(
        "PostgreSQL, for each payment",
        ("what", "amount"),
        rows,
        "the steps of the payment, five lines in the journal, and the queue of kept intents.",
    )
