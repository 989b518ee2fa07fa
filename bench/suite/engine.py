"""Measures durable creates per second on SQLite (WAL, synchronous=FULL), singly and in batches.

Every create is decided, journaled and scheduled (reference, transaction, outbox and journal rows)
before it counts."""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import trio

from bench import machine
from bench.options import Options
from bench.report import Outcome, Table
from mmo_sansio.messages.inputs import CreatePayment, Draft
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, merge_reads
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Limits, Method, Operation, Party
from mmo_sansio.values.money import Money
from mmo_trio.cli.commands.serve import tune_interpreter
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import open_sqlite

BATCH = 256
BRAND = Brand(
    "acme",
    "Acme Ltd",
    (
        Method(
            key="mpesa_ke",
            provider="sandbox",
            provider_title="Sandbox",
            country="KE",
            operations=frozenset(Operation),
            limits={"KES": Limits(Money(1_000, "KES"), Money(15_000_000, "KES"))},
        ),
    ),
)
_numbers = itertools.count()
_stamps = itertools.count(int(time.time() * 1_000_000))


def creation() -> CreatePayment:
    """Return a typical create request."""
    number = next(_numbers)
    return CreatePayment(
        brand=BRAND,
        gateway_reference=f"01JD{number:022d}",
        draft=Draft(
            operation=Operation.DIRECT_PAYIN,
            method="mpesa_ke",
            amount=Decimal("150.00"),
            currency="KES",
            country="KE",
            result_url="https://merchant.example/results",
            merchant_reference=f"order-{hash((number, 'spread')) & 0xFFFFFFFFFF:x}-{number}",
            party=Party(f"customer-{number}", "254700000000", "Jane", "Doe"),
            labels='{"shop":"Nairobi 3"}',
        ),
    )


async def measure(store: Store, batch: int, seconds: float) -> float:
    """Return creates per second in batches of this size."""
    done, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        arguments = [creation() for _ in range(batch)]

        def decide_all(
            ledger: Ledger, arguments: list[CreatePayment] = arguments
        ) -> Sequence[Decision]:
            decisions = []
            for each in arguments:
                decision = decide(ledger, each, now=Instant(next(_stamps)))
                ledger.apply(decision.changes, decision.intents)
                decisions.append(decision)
            return decisions

        await store.transact(merge_reads(map(reads, arguments)), decide_all)
        done += batch
    return done / elapsed


async def measured(folder: Path, rounds: int, seconds: float) -> list[tuple[float, float]]:
    """Measure single inputs and batches in turn, on one file on the disk."""
    async with open_sqlite(folder / "bench.db", serving=True) as store:
        await measure(store, BATCH, 0.2)
        return [
            (await measure(store, 1, seconds), await measure(store, BATCH, seconds))
            for _ in range(rounds)
        ]


def run(options: Options) -> Outcome:
    """Run on the server's core, with Python configured like the server."""
    machine.pin(os.getpid(), machine.SERVER_CORE)
    tune_interpreter()
    found = trio.run(measured, options.folder, options.rounds, min(3.0, options.seconds))
    machine.pin(os.getpid(), machine.LOAD_CORE)
    single, batched = (statistics.median(each) for each in zip(*found, strict=True))
    table = Table(
        "SQLite, synchronous=FULL, medians",
        ("batches of", "creates per s", "µs each"),
        [
            ["1", f"{single:,.0f}", f"{1e6 / single:,.0f}"],
            [f"{BATCH}", f"{batched:,.0f} ({batched / single:.1f} x)", f"{1e6 / batched:,.0f}"],
        ],
        "the disk one by one; in batches Python, which writes rows longer than it decides.",
    )
    return Outcome(
        "engine",
        "Creates in the engine",
        "Decided, journaled and scheduled: reference, transaction, outbox and journal "
        "rows; no HTTP.",
        [table],
    )
