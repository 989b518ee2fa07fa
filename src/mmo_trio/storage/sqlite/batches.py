"""One batch in SQLite: the working set out of the tables, the net effect of its decisions into them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from hashlib import sha256

from attrs import evolve

from mmo_sansio.messages.changes import SuspenseNoted
from mmo_sansio.messages.intents import IntentKind, kept
from mmo_sansio.payments.ledger import Ledger, Reads, ReferenceUse
from mmo_trio.storage.shared.net_effect import Batch
from mmo_trio.storage.shared.payment_counts import figures_of
from mmo_trio.storage.sql.columns import order_columns, progress_columns
from mmo_trio.storage.sql.serialization import breaker_row, transaction_of
from mmo_trio.storage.sqlite.recent_transactions import Recent

_TRANSACTIONS = """
    SELECT order_row, progress FROM json_each(?) AS wanted
    CROSS JOIN transactions ON gateway_reference = wanted.value
"""
_REFERENCES = """
    SELECT brand, merchant_reference, gateway_reference, max(at) FROM json_each(?) AS wanted
    CROSS JOIN reference_uses
        ON merchant_reference = wanted.value ->> 1 AND brand = wanted.value ->> 0
    GROUP BY merchant_reference, brand
"""
_DEPOSITS = """
    SELECT provider, provider_reference, gateway_reference FROM json_each(?) AS wanted
    CROSS JOIN deposits
        ON provider = wanted.value ->> 0 AND provider_reference = wanted.value ->> 1
"""
_INTENTS = """
    SELECT gateway_reference, kind FROM json_each(?) AS wanted
    CROSS JOIN intents ON gateway_reference = wanted.value ->> 0 AND kind = wanted.value ->> 1
"""


def load(connection: sqlite3.Connection, reads: Reads, recent: Recent) -> Ledger:
    """The working set for these reads. A known deposit brings its transaction along."""
    ledger = Ledger()
    for row in _rows(connection, _REFERENCES, reads.references):
        brand, merchant_reference, gateway_reference, at = row
        ledger.references[brand, merchant_reference] = ReferenceUse(gateway_reference, at)
    for row in _rows(connection, _DEPOSITS, reads.deposits):
        provider, provider_reference, gateway_reference = row
        ledger.deposits[provider, provider_reference] = gateway_reference
    for gateway_reference, kind in _rows(connection, _INTENTS, reads.intents):
        ledger.intents[gateway_reference, IntentKind(kind)] = kept(
            IntentKind(kind), gateway_reference
        )
    wanted = reads.transactions.union(ledger.deposits.values())
    unread: set[str] = set()
    for reference in wanted:
        if (remembered := recent.get(reference)) is not None:
            ledger.transactions[reference] = remembered
        else:
            unread.add(reference)
    for order, progress in _rows(connection, _TRANSACTIONS, unread):
        transaction = transaction_of(order, progress)
        ledger.transactions[transaction.reference] = transaction
    ledger.covers = evolve(reads, transactions=wanted)
    return ledger


def _rows(
    connection: sqlite3.Connection,
    statement: str,
    keys: Collection[str] | Collection[tuple[str, str]],
) -> Iterable[sqlite3.Row]:
    """All keys travel in one parameter, so that a statement is prepared once, whatever their number."""
    return connection.execute(statement, (json.dumps(list(keys)),)) if keys else ()


def write(connection: sqlite3.Connection, batch: Batch, *, is_held: bool) -> None:
    """Write each row of the batch. Raises AssertionError when a transaction isn't where it was decided from."""
    if batch.created:
        connection.executemany(
            "INSERT INTO transactions (gateway_reference, brand, type, method, created_at, page_token,"
            " msisdn, reconciliation_reference, order_row, status, version, wake_at,"
            " provider_receipt, progress, object)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*order_columns(each), *progress_columns(each)) for each in batch.created.values()],
        )
    if batch.advanced:
        moved = connection.executemany(
            "UPDATE transactions SET status = ?, version = ?, wake_at = ?, provider_receipt = ?,"
            " progress = ?, object = ? WHERE gateway_reference = ? AND version = ?",
            [
                (*progress_columns(now), reference, was)
                for reference, (was, now) in batch.advanced.items()
            ],
        )
        assert moved.rowcount == len(batch.advanced), (
            "a transaction isn't where it was decided from"
        )
    if batch.references:
        connection.executemany(
            "INSERT OR REPLACE INTO reference_uses (brand, merchant_reference, gateway_reference, at)"
            " VALUES (?, ?, ?, ?)",
            [
                (each.brand, each.merchant_reference, each.gateway_reference, each.at)
                for each in batch.references
            ],
        )
    if batch.deposits:
        connection.executemany(
            "INSERT INTO deposits (provider, provider_reference, gateway_reference) VALUES (?, ?, ?)",
            [
                (each.provider, each.provider_reference, each.gateway_reference)
                for each in batch.deposits
            ],
        )
    _write_intents(connection, batch, is_held=is_held)
    _write_evidence(connection, batch)
    _write_figures(connection, batch)
    connection.execute("UPDATE latest_stamp SET at = max(at, ?)", (batch.latest_stamp,))


def _write_intents(connection: sqlite3.Connection, batch: Batch, *, is_held: bool) -> None:
    if batch.concluded:
        connection.executemany(
            "DELETE FROM intents WHERE gateway_reference = ? AND kind = ?",
            [(reference, kind.value) for reference, kind in batch.concluded],
        )
    if batch.scheduled:
        connection.executemany(
            "INSERT OR REPLACE INTO intents (gateway_reference, kind, is_held) VALUES (?, ?, ?)",
            [(reference, kind.value, int(is_held)) for reference, kind in batch.scheduled],
        )
    if batch.breakers:
        connection.executemany(
            "INSERT OR REPLACE INTO breakers (brand, breaker) VALUES (?, ?)",
            [(brand, breaker_row(each.breaker)) for brand, each in batch.breakers.items()],
        )
        connection.executemany(
            "INSERT OR IGNORE INTO breaker_changes (brand, at, state) SELECT ?1, ?2, ?3 WHERE ?3 <>"
            " coalesce((SELECT state FROM breaker_changes WHERE brand = ?1 ORDER BY at DESC LIMIT 1),"
            " 'closed')",
            [
                (brand, batch.latest_stamp, each.breaker.state.value)
                for brand, each in batch.breakers.items()
            ],
        )


def _write_evidence(connection: sqlite3.Connection, batch: Batch) -> None:
    """What people look at and no decision does."""
    if batch.journal:
        connection.executemany(
            "INSERT INTO journal (at, what, actor, gateway_reference, brand, stage_before, stage_after, detail)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    line.at,
                    line.what,
                    line.actor,
                    line.gateway_reference,
                    line.brand,
                    line.stage_before,
                    line.stage_after,
                    line.detail,
                )
                for line in batch.journal
            ],
        )
    for told in batch.suspense:
        connection.execute(
            "INSERT INTO suspense (identity, reason, provider, told, gateway_reference, brand,"
            " first_at, last_at, times) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)"
            " ON CONFLICT (identity) DO UPDATE SET times = times + 1, last_at = excluded.last_at",
            (
                suspense_identity(told),
                told.reason.value,
                told.provider,
                told.told,
                told.gateway_reference,
                told.brand,
                told.at,
                told.at,
            ),
        )
    for callback in batch.callbacks:
        attempt = callback.attempt
        connection.execute(
            "INSERT INTO callbacks (gateway_reference, brand, outcome, url, status, duration_ms, detail, at,"
            " body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                callback.gateway_reference,
                callback.brand,
                attempt.outcome.value,
                attempt.url,
                attempt.status,
                attempt.duration_ms,
                attempt.detail,
                callback.at,
                attempt.body,
            ),
        )


def _write_figures(connection: sqlite3.Connection, batch: Batch) -> None:
    figures = figures_of(batch)
    if figures:
        connection.executemany(
            "INSERT INTO figures (span, began_at, brand, method, provider, status, latency_s, times)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (span, began_at, brand, method, provider, status, latency_s)"
            " DO UPDATE SET times = times + excluded.times",
            [(*key, times) for key, times in figures.items()],
        )


def suspense_identity(told: SuspenseNoted) -> bytes:
    """A digest of what makes two entries the same: who told what, about what, and why it was kept."""
    what = (told.provider, told.reason.value, told.gateway_reference, told.told)
    return sha256(json.dumps(what).encode()).digest()
