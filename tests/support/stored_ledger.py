"""Reads all that an SQLite database holds as one ledger, which can be compared with another, and
stores a ledger."""

from __future__ import annotations

import sqlite3

from mmo_sansio.messages.changes import (
    Change,
    DepositClaimChanged,
    DepositRecorded,
    JournalEntry,
    ReferenceConsumed,
    TransactionCreated,
)
from mmo_sansio.messages.intents import IntentKind
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite.statements import RecentTransactions, load_batch


def stored_ledger(connection: sqlite3.Connection) -> Ledger:
    """Return everything that decisions look at, transactions in the order of their creation."""

    def keys(columns: str, table: str) -> list[tuple[str, ...]]:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()

    reads = Reads(
        transactions=frozenset(each for (each,) in keys("gateway_reference", "transactions")),
        references=frozenset(
            (b, r) for b, r in keys("brand, merchant_reference", "reference_uses")
        ),
        deposits=frozenset((p, r) for p, r in keys("provider, provider_reference", "deposits")),
        intents=frozenset(
            (r, IntentKind(kind)) for r, kind in keys("gateway_reference, kind", "intents")
        ),
        claims=frozenset((p, r) for p, r in keys("provider, receipt", "deposit_claims")),
        usage=frozenset((b, c) for b, c in keys("brand, counter", "brand_usage")),
        reversals=frozenset(each for (each,) in keys("payment", "reversals")),
        held_brands=True,
    )
    ledger = load_batch(connection, reads, RecentTransactions())
    ledger.prefetched = None
    ledger.transactions = {
        each: ledger.transactions[each] for (each,) in keys("gateway_reference", "transactions")
    }
    return ledger


async def store_ledger(store: Store, ledger: Ledger) -> None:
    """Store everything that this ledger holds, in a store without it."""
    changes: list[Change] = [
        JournalEntry(Instant(0), "test", "test", None, None, None, None, "{}"),
        *map(TransactionCreated, ledger.transactions.values()),
        *(
            ReferenceConsumed(*key, use.gateway_reference, use.at)
            for key, use in ledger.references.items()
        ),
        *(DepositRecorded(*key, reference) for key, reference in ledger.deposits.items()),
        *(DepositClaimChanged(None, claim) for claim in ledger.claims.values()),
    ]
    decision = Decision(Ignored("It is stored."), tuple(changes), tuple(ledger.intents.values()))
    await store.transact(Reads(), lambda _: [decision])
