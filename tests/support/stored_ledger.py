"""Reads all that an SQLite database holds as one ledger, so that it can be compared with another."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from mmo_sansio.messages.intents import IntentKind
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_trio.storage.sqlite.batches import load_batch
from mmo_trio.storage.sqlite.recent_transactions import RecentTransactions


def stored_ledger(connection: sqlite3.Connection) -> Ledger:
    """Return everything that decisions look at, transactions in the order of their creation."""

    def keys(columns: str, table: str) -> list[tuple[str, ...]]:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()

    reads = Reads(
        transactions=frozenset(each for (each,) in keys("gateway_reference", "transactions")),
        references=frozenset((b, r) for b, r in keys("brand, merchant_reference", "reference_uses")),
        deposits=frozenset((p, r) for p, r in keys("provider, provider_reference", "deposits")),
        intents=frozenset((r, IntentKind(kind)) for r, kind in keys("gateway_reference, kind", "intents")),
        claims=frozenset((p, r) for p, r in keys("provider, receipt", "deposit_claims")),
        usage=frozenset((b, c) for b, c in keys("brand, counter", "brand_usage")),
        held_brands=True,
    )
    ledger = load_batch(connection, reads, RecentTransactions())
    ledger.prefetched = None
    ledger.transactions = {each: ledger.transactions[each] for (each,) in keys("gateway_reference", "transactions")}
    return ledger


def differences(found: Ledger, expected: Ledger) -> Iterator[str]:
    """Yield a sentence for each key whose row is not what was decided."""
    for name in ("transactions", "references", "deposits", "intents", "claims", "usage"):
        rows, decided = getattr(found, name), getattr(expected, name)
        for key in sorted(rows.keys() | decided.keys(), key=repr):
            if rows.get(key) != decided.get(key):
                yield f"{name} has {rows.get(key)} at {key}, and {decided.get(key)} was decided"
