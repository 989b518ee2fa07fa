"""Durable creates per second on the SQLite store (WAL, synchronous=FULL), one by one and in batches, in one run.

    python bench/engine_sqlite.py [SECONDS]

Every create is decided, journaled and scheduled (reference, transaction, outbox and journal rows) before it counts.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import trio

from mmo_sansio.decide import decide, reads
from mmo_sansio.decisions import Decision
from mmo_sansio.inputs import CreatePayment, Draft
from mmo_sansio.ledger import Ledger, merge
from mmo_sansio.model import Brand, Limits, Method, Operation, Party
from mmo_sansio.money import Money
from mmo_trio.storage.base import Store
from mmo_trio.storage.sqlite import open_sqlite

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
    """A create request like a merchant's."""
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
    """Creates per second in batches of this size."""
    done, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        given = [creation() for _ in range(batch)]

        def decide_all(ledger: Ledger, given: list[CreatePayment] = given) -> Sequence[Decision]:
            decisions = []
            for each in given:
                decision = decide(ledger, each, now=next(_stamps))
                ledger.apply(decision.changes, decision.intents)
                decisions.append(decision)
            return decisions

        await store.transact(merge(map(reads, given)), decide_all)
        done += batch
    return done / elapsed


async def main(seconds: float) -> None:
    """Measure both in turn, on one file on the disk."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        async with open_sqlite(Path(folder) / "bench.db", serving=True) as store:
            await measure(store, 256, 0.2)
            single = await measure(store, 1, seconds)
            batched = await measure(store, 256, seconds)
    print(f"batches of   1: {single:8,.0f} creates/s")
    print(f"batches of 256: {batched:8,.0f} creates/s, {batched / single:.1f} x")


if __name__ == "__main__":
    trio.run(main, float(sys.argv[1]) if len(sys.argv) > 1 else 3.0)
