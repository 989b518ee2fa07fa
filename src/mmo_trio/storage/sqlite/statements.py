"""The statements that only SQLite needs: those of a batch, which read its working set and write the
net effect of its decisions, and those of readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from attrs import Factory, define, evolve

from mmo_sansio.messages.intents import (
    DurableIntent,
    IntentKey,
    IntentKind,
    PollEnded,
    durable_intent,
)
from mmo_sansio.messages.queries import AnyLookUp, LookUp
from mmo_sansio.payments.ledger import DepositKey, Ledger, Reads, ReferenceUse, UsageCount
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import DepositClaim, Status, Transaction
from mmo_trio.storage.interface.admin_types import COUNTED_MINOR_MAX, BrandRecord
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.sql import serialization
from mmo_trio.storage.sql.brand_keys import SELECT_BRANDS, parse_brand_records
from mmo_trio.storage.sql.net_effect import FIGURE_KEY, NetEffect, batch_counts, sum_by_span
from mmo_trio.storage.sql.statements import Row

# Rows that one statement inserts or looks for at most: each number of rows is a statement of its
# own, which stays prepared. To look for rows of VALUES takes half of the time that it takes for
# those of an array of JSON.
ROWS_PER_STATEMENT: Final = 16

# CROSS JOIN fixes the order of the loops in SQLite: from the few wanted rows to the index of the
# table, whatever its statistics say.
_SELECT_TRANSACTIONS = """
    SELECT order_row, progress FROM ({rows}) AS wanted
    CROSS JOIN transactions ON gateway_reference = wanted.column1
"""
_SELECT_REFERENCE_USES = """
    SELECT brand, merchant_reference, gateway_reference, at, earlier
    FROM ({rows}) AS wanted CROSS JOIN reference_uses AS used
        ON used.merchant_reference = wanted.column2 AND used.brand = wanted.column1
        AND used.at = (SELECT max(at) FROM reference_uses AS each
            WHERE each.merchant_reference = wanted.column2 AND each.brand = wanted.column1)
"""
_SELECT_DEPOSITS = """
    SELECT provider, provider_reference, gateway_reference FROM ({rows}) AS wanted
    CROSS JOIN deposits
        ON provider = wanted.column1 AND provider_reference = wanted.column2
"""
_SELECT_CLAIMS = """
    SELECT claim FROM ({rows}) AS wanted
    CROSS JOIN deposit_claims ON provider = wanted.column1 AND receipt = wanted.column2
"""
_SELECT_REVERSALS = """
    SELECT payment, reversals FROM ({rows}) AS wanted CROSS JOIN reversals
    ON payment = wanted.column1
"""
_SELECT_USAGE = """
    SELECT brand, counter, day, amount FROM ({rows}) AS wanted
    CROSS JOIN brand_usage ON brand = wanted.column1 AND counter = wanted.column2
"""
_SELECT_INTENTS = """
    SELECT gateway_reference, kind, since, hint, provider_reference FROM ({rows}) AS wanted
    CROSS JOIN intents ON gateway_reference = wanted.column1 AND kind = wanted.column2
"""

# A question goes on from the open one about its payment, under a new id: this may be another
# process, whose question is still to be claimed.
_REPLACE_POLL = f"""
    INSERT OR REPLACE INTO intents
        (gateway_reference, kind, is_held, since, hint, provider_reference)
    SELECT later.gateway_reference, 'poll', later.is_held,
        min(later.since, coalesce(known.since, later.since)),
        {serialization.MERGED_HINT.format(known="known", later="later")},
        coalesce(later.provider_reference, known.provider_reference)
    FROM (
        SELECT ? AS is_held, ? AS gateway_reference, ? AS since, ? AS hint, ? AS provider_reference
    ) AS later
    LEFT JOIN intents AS known
        ON known.gateway_reference = later.gateway_reference AND known.kind = 'poll'
"""


# Transactions in the cache: a payment's first decisions follow within a second or so. Each is some
# thirty objects, which the garbage collector scans again and again, so more of them would cost what
# they save.
CACHED_MAX = 2_048


@define
class RecentTransactions:
    """Belongs to the one connection that writes; valid as long as no other process writes."""

    _transactions: dict[str, Transaction] = Factory(dict)
    """By gatewayReference, the newest write at the end."""
    _data_version: int | None = None

    def drop_if_stale(self, connection: sqlite3.Connection) -> None:
        """Empty the cache if another process has written meanwhile; to be called inside each
        transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self.clear()
            self._data_version = version

    def get(self, gateway_reference: str) -> Transaction | None:
        """Return the transaction as it is stored, or None when it has to be read."""
        return self._transactions.get(gateway_reference)

    def add(self, transactions: Iterable[Transaction]) -> None:
        """Add what is about to be committed; call `clear` if the commit fails."""
        for transaction in transactions:
            # Taken out first, so that it moves to the end.
            self._transactions.pop(transaction.reference, None)
            self._transactions[transaction.reference] = transaction

        while len(self._transactions) > CACHED_MAX:
            del self._transactions[next(iter(self._transactions))]

    def discard(self, references: Iterable[str]) -> None:
        """Remove these payments, which were changed without a decision."""
        for reference in references:
            self._transactions.pop(reference, None)

    def clear(self) -> None:
        """Empty the cache: a commit failed, or another process has written."""
        self._transactions.clear()
        self._data_version = None


def load_batch(connection: sqlite3.Connection, reads: Reads, recent: RecentTransactions) -> Ledger:
    """Return the working set for these reads, with the transactions of known deposits and of the
    newest uses of references."""
    ledger = Ledger()

    # 1. What decisions ask for by its own key. References and deposits name further transactions.
    used: list[str] = []
    for row in _run_for_rows(connection, _SELECT_REFERENCE_USES, [*reads.references]):
        brand, merchant_reference, gateway_reference, at, earlier = row
        ledger.references[brand, merchant_reference] = ReferenceUse(
            gateway_reference, at, Status(earlier)
        )
        used.append(gateway_reference)

    for row in _run_for_rows(connection, _SELECT_DEPOSITS, [*reads.deposits]):
        provider, provider_reference, gateway_reference = row
        ledger.deposits[provider, provider_reference] = gateway_reference

    for (row,) in _run_for_rows(connection, _SELECT_CLAIMS, [*reads.claims]):
        claim = serialization.parse_claim(row)
        ledger.claims[claim.provider, claim.receipt] = claim

    for payment, row in _run_for_rows(
        connection, _SELECT_REVERSALS, [(reversal,) for reversal in reads.reversals]
    ):
        ledger.reversals[payment] = serialization.parse_reversals(row)

    for row in _run_for_rows(connection, _SELECT_INTENTS, [*reads.intents]):
        intent = _parse_intent(*row)
        ledger.intents[intent.gateway_reference, intent.kind] = intent

    for brand, counter, day, amount in _run_for_rows(connection, _SELECT_USAGE, [*reads.usage]):
        ledger.usage[brand, counter] = UsageCount(day, amount)

    if reads.held_brands:
        ledger.held_brands = frozenset(
            brand for (brand,) in connection.execute("SELECT brand FROM brand_holds")
        )

    # 2. The transactions, most of them from memory: the payment was written a moment ago.
    wanted = reads.transactions.union(ledger.deposits.values(), used)
    unread: list[tuple[str]] = []
    for reference in wanted:
        if (remembered := recent.get(reference)) is not None:
            ledger.transactions[reference] = remembered
        else:
            unread.append((reference,))

    for order, progress in _run_for_rows(connection, _SELECT_TRANSACTIONS, unread):
        transaction = serialization.parse_transaction(order, progress)
        ledger.transactions[transaction.reference] = transaction

    # 3. What counts as read: where it is not in the ledger, the store does not have it.
    if wanted == reads.transactions:
        ledger.prefetched = reads
    else:
        ledger.prefetched = evolve(reads, transactions=wanted)

    return ledger


def _run_for_rows(
    connection: sqlite3.Connection, template: str, rows: Sequence[tuple[object, ...]]
) -> list[Any]:
    """Run a statement for these rows in their order, several at once, and return what it finds:
    Python gives up its lock and takes it again for every step of a statement, and for several rows
    there are fewer."""
    found: list[Any] = []
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        some = rows[start : start + ROWS_PER_STATEMENT]
        statement = _fill_template(template, len(some[0]), len(some))
        found += connection.execute(statement, [*chain.from_iterable(some)])

    return found


@lru_cache(maxsize=16 * ROWS_PER_STATEMENT)
def _fill_template(template: str, columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return template.replace("{rows}", f"VALUES {', '.join([row] * rows)}")


def write_batch(connection: sqlite3.Connection, effect: NetEffect, *, is_claimed: bool) -> None:
    """Write each row of the batch. Raises AssertionError when a transaction isn't in the version of
    its decision."""
    if effect.created:
        _run_for_rows(
            connection,
            "INSERT INTO transactions (gateway_reference, brand, type, method, created_at,"
            " is_simulated, page_token, msisdn, reconciliation_reference, order_row, wake_at,"
            " provider_receipt, status, version, progress, object) {rows}",
            [
                (
                    *serialization.order_columns(creation),
                    *_search_columns(creation),
                    *serialization.progress_columns(creation),
                )
                for creation in effect.created.values()
            ],
        )

    if effect.advanced:
        moved = connection.executemany(
            "UPDATE transactions SET wake_at = ?, provider_receipt = ?, status = ?, version = ?,"
            " progress = ?, object = ? WHERE gateway_reference = ? AND version = ?",
            [
                (
                    *_search_columns(now),
                    *serialization.progress_columns(now),
                    reference,
                    was.progress.version,
                )
                for reference, (was, now) in effect.advanced.items()
            ],
        )
        # There is one writer: another version would be a fault of ours.
        assert moved.rowcount == len(effect.advanced), (
            "a transaction isn't in the version of its decision"
        )

    # After `advanced`, whose rows they are.
    if effect.redated:
        connection.executemany(
            "UPDATE transactions SET created_at = ?, order_row = ? WHERE gateway_reference = ?",
            [
                (redated.order.created_at, serialization.serialize_order(redated.order), id)
                for id, redated in effect.redated.items()
            ],
        )

    if effect.references:
        _run_for_rows(
            connection,
            "INSERT OR REPLACE INTO reference_uses"
            " (brand, merchant_reference, gateway_reference, at, earlier, is_lost) {rows}",
            [
                (
                    reference.brand,
                    reference.merchant_reference,
                    reference.gateway_reference,
                    reference.at,
                    reference.earlier.value,
                    reference.is_lost,
                )
                for reference in effect.references
            ],
        )

    if effect.deposits:
        connection.executemany(
            "INSERT INTO deposits (provider, provider_reference, gateway_reference) VALUES "
            "(?, ?, ?)",
            [
                (deposit.provider, deposit.provider_reference, deposit.gateway_reference)
                for deposit in effect.deposits
            ],
        )

    for key, (_, claim) in effect.claims.items():
        _write_claim(connection, key, claim)

    if effect.reversals:
        connection.executemany(
            "INSERT OR REPLACE INTO reversals (payment, version, asked_at, wake_at, unfinished, "
            "brand, changed_at, reversals)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (payment, *serialization.reversal_columns(reversals))
                for payment, (_, reversals) in effect.reversals.items()
            ],
        )

    if effect.usage:
        connection.executemany(
            serialization.UPSERT_USAGE.format(source="VALUES (?, ?, ?, ?)"),
            serialization.usage_rows(effect),
        )

    _write_intents(connection, effect, is_claimed=is_claimed)
    _write_history(connection, effect)
    _write_counts(connection, effect)
    advance_latest_stamp(connection, effect.latest_stamp)


def _search_columns(transaction: Transaction) -> tuple[object, ...]:
    """Return wake_at and provider_receipt, which each step writes."""
    return transaction.progress.wake_at, serialization.provider_receipt_key(transaction.progress)


def advance_latest_stamp(connection: sqlite3.Connection, stamp: Instant) -> None:
    """Remember the stamp of what is written, if it is later than any before."""
    connection.execute("UPDATE latest_stamp SET at = max(at, ?)", (stamp,))


def _write_intents(connection: sqlite3.Connection, effect: NetEffect, *, is_claimed: bool) -> None:
    if effect.concluded:
        connection.executemany(
            "DELETE FROM intents WHERE gateway_reference = ? AND kind = ?",
            [(reference, kind.value) for reference, kind in effect.concluded],
        )

    # Only after the deletion: one that is concluded and scheduled again in a batch stays.
    scheduled = effect.scheduled.values()
    plain = [intent for intent in scheduled if not isinstance(intent, PollEnded)]
    if plain:
        _run_for_rows(
            connection,
            "INSERT OR REPLACE INTO intents (gateway_reference, kind, is_held) {rows}",
            [(intent.gateway_reference, intent.kind.value, int(is_claimed)) for intent in plain],
        )

    for intent in scheduled:
        if isinstance(intent, PollEnded):
            about = intent.gateway_reference, intent.since, intent.hint, intent.provider_reference
            connection.execute(_REPLACE_POLL, (int(is_claimed), *about))

    if effect.breakers:
        connection.executemany(
            "INSERT OR REPLACE INTO breakers (brand, breaker) VALUES (?, ?)",
            [
                (brand, serialization.serialize_breaker(stored.breaker))
                for brand, stored in effect.breakers.items()
            ],
        )

        # Most outcomes leave the state as it is: only where it differs from the last one is a row.
        connection.executemany(
            "INSERT OR IGNORE INTO breaker_changes (brand, at, state)"
            " SELECT column1, column2, column3 FROM (VALUES (?, ?, ?))"
            " WHERE column3 <> coalesce((SELECT state FROM breaker_changes WHERE brand = column1"
            " ORDER BY at DESC LIMIT 1), 'closed')",
            [
                (brand, effect.latest_stamp, stored.breaker.state.value)
                for brand, stored in effect.breakers.items()
            ],
        )


def _write_history(connection: sqlite3.Connection, effect: NetEffect) -> None:
    """Write what staff read and decisions don't."""
    if effect.journal:
        _run_for_rows(
            connection,
            "INSERT INTO journal (at, what, actor, gateway_reference, brand, stage_before, "
            "stage_after, detail) {rows}",
            [*map(serialization.journal_columns, effect.journal)],
        )

    # The same content once more is the same entry, with its times.
    if effect.suspense:
        connection.executemany(
            "INSERT INTO suspense"
            " (identity, reason, provider, told, gateway_reference, brand, first_at, "
            "last_at, times)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (identity) DO UPDATE SET times = "
            "times + excluded.times,"
            " first_at = min(first_at, excluded.first_at), last_at = max(last_at, "
            "excluded.last_at)",
            serialization.suspense_rows(effect),
        )

    if effect.closed:
        connection.executemany(
            "UPDATE suspense SET closed_at = ?1, note = ?3, closed_by = ?4"
            " WHERE id = ?2 AND closed_at IS NULL",
            serialization.closed_rows(effect),
        )

    # Only what has closed by itself: an entry that a person has closed stays so.
    if effect.reopened:
        connection.executemany(
            "UPDATE suspense SET closed_at = NULL, note = NULL, closed_by = NULL"
            " WHERE id = ? AND closed_by = ?",
            serialization.reopened_rows(effect),
        )

    if effect.callbacks:
        _run_for_rows(
            connection,
            "INSERT INTO callbacks (gateway_reference, brand, outcome, url, status, duration_ms, "
            "detail, at) {rows}",
            [*map(serialization.callback_columns, effect.callbacks)],
        )

    if bodies := serialization.callback_body_rows(effect):
        connection.executemany(
            "INSERT INTO callback_bodies (brand, gateway_reference, at, body) VALUES (?, ?, ?, ?)",
            bodies,
        )


def _write_claim(
    connection: sqlite3.Connection, key: DepositKey, claim: DepositClaim | None
) -> None:
    if claim is None:
        connection.execute("DELETE FROM deposit_claims WHERE provider = ? AND receipt = ?", key)
    else:
        connection.execute(
            "INSERT OR REPLACE INTO deposit_claims"
            " (provider, receipt, version, wake_at, payment, claim) VALUES (?, ?, ?, ?, ?, ?)",
            (
                *key,
                claim.version,
                claim.wake_at,
                claim.payment,
                serialization.serialize_claim(claim),
            ),
        )


def _write_counts(connection: sqlite3.Connection, effect: NetEffect) -> None:
    figures = sum_by_span(batch_counts(effect))
    if figures:
        _run_for_rows(
            connection,
            f"INSERT INTO figures ({FIGURE_KEY}, times, minor)"
            f" {{rows}} ON CONFLICT ({FIGURE_KEY})"
            " DO UPDATE SET times = times + excluded.times,"
            f" minor = min(minor, {COUNTED_MINOR_MAX} - excluded.minor) + excluded.minor",
            [(*key, counted.times, counted.minor) for key, counted in figures.items()],
        )


def next_wake(connection: sqlite3.Connection, after: Instant) -> Instant | None:
    """Return the earliest `wake_at` that is later than `after`."""
    row = connection.execute(
        "SELECT min(wake_at) FROM transactions WHERE wake_at > ?", (after,)
    ).fetchone()
    if row[0] is None:
        return None
    return Instant(int(row[0]))


def due(connection: sqlite3.Connection, now: Instant, limit: int) -> Sequence[str]:
    """Return the references of due transactions, the earliest first."""
    # Those of one time come in the order of their creation.
    rows = connection.execute(
        "SELECT gateway_reference FROM transactions WHERE wake_at <= ? ORDER BY wake_at, "
        "id LIMIT ?",
        (now, limit),
    )
    return [reference for (reference,) in rows]


_SELECT_WORK = """
    SELECT intents.id, intents.gateway_reference, kind, since, hint, intents.provider_reference,
        order_row, progress
    FROM intents JOIN transactions USING (gateway_reference)
"""


def unclaimed_intents(
    connection: sqlite3.Connection, after_id: int, limit: int
) -> Sequence[tuple[int, WorkItem]]:
    """Return unclaimed durable intents with greater ids, oldest first, each with its id."""
    rows = connection.execute(
        f"{_SELECT_WORK} WHERE is_held = 0 AND intents.id > ? ORDER BY intents.id LIMIT ?",
        (after_id, limit),
    )
    return [(row[0], _parse_work_item(row)) for row in rows]


def open_intents(connection: sqlite3.Connection, keys: Sequence[IntentKey]) -> Sequence[WorkItem]:
    """Return those of these durable intents that are open."""
    found: list[WorkItem] = []
    for reference, kind in keys:
        rows = connection.execute(
            f"{_SELECT_WORK} WHERE intents.gateway_reference = ? AND kind = ?",
            (reference, kind.value),
        )
        found.extend(map(_parse_work_item, rows))
    return found


def _parse_work_item(row: tuple[Any, ...]) -> WorkItem:
    _, *intent, order, progress = row
    return WorkItem(_parse_intent(*intent), serialization.parse_transaction(order, progress))


def _parse_intent(
    reference: str,
    kind: str,
    since: Instant | None,
    hint: str | None,
    provider_reference: str | None,
) -> DurableIntent:
    return durable_intent(
        IntentKind(kind),
        reference,
        since=since,
        hint=hint,
        provider_reference=provider_reference,
    )


def look_up(connection: sqlite3.Connection, queries: Sequence[AnyLookUp]) -> Sequence[Row | None]:
    """Return for each query a row of OBJECT_COLUMNS of the brand's transaction."""
    return [connection.execute(*_look_up_statement(query)).fetchone() for query in queries]


def _look_up_statement(query: AnyLookUp) -> tuple[str, tuple[str, str]]:
    if isinstance(query, LookUp):
        return (
            f"SELECT {serialization.OBJECT_COLUMNS} FROM transactions WHERE gateway_reference = ? "
            f"AND brand = ?",
            (query.gateway_reference, query.brand),
        )

    return (
        f"SELECT {serialization.OBJECT_COLUMNS} FROM reference_uses AS used JOIN transactions "
        f"USING (gateway_reference)"
        " WHERE used.merchant_reference = ? AND used.brand = ? ORDER BY used.at DESC LIMIT 1",
        (query.merchant_reference, query.brand),
    )


def find_brand(connection: sqlite3.Connection, brand: str) -> BrandRecord | None:
    """Return a brand with its keys, the oldest first."""
    rows = connection.execute(f"{SELECT_BRANDS} WHERE brands.id = ? ORDER BY api_keys.id", (brand,))
    return parse_brand_records(rows).get(brand)
