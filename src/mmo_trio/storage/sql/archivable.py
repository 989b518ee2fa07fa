"""Reads from SQL what is to be archived, and removes it once it is; see
:mod:`mmo_trio.storage.interface.retention`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.model import Flow, Transaction
from mmo_trio.storage.interface.admin_types import Proposal, ProposalState, SuspenseEntry
from mmo_trio.storage.interface.retention import ArchivedHistory, ArchivedPayment
from mmo_trio.storage.sql.aging import Forget, by_brand, of_payments, parse_position
from mmo_trio.storage.sql.console_users import PROPOSAL_COLUMNS, parse_proposal
from mmo_trio.storage.sql.payment_history import SUSPENSE_COLUMNS, parse_callback, parse_suspense_entry
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.serialization import parse_transaction
from mmo_trio.storage.sql.statements import SqlQuery, execute, returns_row, select

T = TypeVar("T")

JOURNAL_COLUMNS = "at, what, actor, gateway_reference, nullif(brand, ''), stage_before, stage_after, detail"


def archived_references(merchant_reference: str) -> SqlQuery[Sequence[str]]:
    """Return the payments whose uses of this merchantReference outlived them."""
    return select(
        lambda row: str(row[0]),
        "SELECT gateway_reference FROM reference_uses WHERE merchant_reference = ? AND ended IS NOT NULL",
        merchant_reference,
    )


def archivable_payments(
    schema: SqlSchema, before: Instant, position: str, *, limit: int
) -> SqlQuery[tuple[Sequence[ArchivedPayment], str | None]]:
    """Return the oldest payments of one day that have ended, with nothing open about them."""
    rows = yield from execute(
        "SELECT t.order_row, t.progress, t.status <> 'pending'"
        " AND NOT EXISTS (SELECT 1 FROM intents AS i WHERE i.gateway_reference = t.gateway_reference)"
        " AND NOT EXISTS (SELECT 1 FROM suspense AS s"
        " WHERE s.gateway_reference = t.gateway_reference AND (s.closed_at IS NULL OR s.last_at >= ?))"
        " AND NOT EXISTS (SELECT 1 FROM proposals AS p WHERE p.gateway_reference = t.gateway_reference AND p.state = ?)"
        " FROM transactions AS t WHERE t.created_at < ? AND (t.created_at, t.gateway_reference) > (?, ?)"
        " ORDER BY t.created_at, t.gateway_reference LIMIT ?",
        before,
        ProposalState.OPEN.value,
        before,
        *parse_position(position),
        limit,
    )
    chosen: list[Transaction] = []
    end = len(rows) < limit
    came_to = position
    for order_row, progress, is_over in rows:
        transaction = parse_transaction(order_row, progress)
        if chosen and transaction.order.created_at // DAY != chosen[0].order.created_at // DAY:
            end = False
            break
        came_to = f"{transaction.order.created_at}/{transaction.reference}"
        if is_over:
            chosen.append(transaction)
    return (yield from _with_history(schema, chosen)), None if end else came_to


def _with_history(schema: SqlSchema, transactions: Sequence[Transaction]) -> SqlQuery[Sequence[ArchivedPayment]]:
    """Return these payments with all that belongs to them."""
    journal: dict[str, list[tuple[int, JournalEntry]]] = {}
    callbacks: dict[str, list[tuple[int, CallbackRecorded]]] = {}
    suspense: dict[str, list[SuspenseEntry]] = {}
    proposals: dict[str, list[Proposal]] = {}
    for brand, references in by_brand(transactions).items():
        where = of_payments(schema, brand, references)
        for row in (
            yield from execute(f"SELECT id, {JOURNAL_COLUMNS} FROM journal {where} ORDER BY id", *where.values)
        ):
            journal.setdefault(row[4], []).append((row[0], JournalEntry(*row[1:])))
        for row in (
            yield from execute(
                "SELECT id, gateway_reference, brand, at, outcome, url, status, duration_ms, detail"
                f" FROM callbacks {where} ORDER BY id",
                *where.values,
            )
        ):
            callbacks.setdefault(row[1], []).append((row[0], parse_callback(row[1:])))
        marks = _marks(references)
        for row in (
            yield from execute(
                f"SELECT {SUSPENSE_COLUMNS} FROM suspense WHERE gateway_reference IN ({marks}) ORDER BY id", *references
            )
        ):
            suspense.setdefault(row[4], []).append(parse_suspense_entry(row))
        for row in (
            yield from execute(
                f"SELECT id, {PROPOSAL_COLUMNS} FROM proposals WHERE gateway_reference IN ({marks}) ORDER BY id",
                *references,
            )
        ):
            proposals.setdefault(row[1], []).append(parse_proposal(row))
    return [
        ArchivedPayment(each, _of(journal, each), _of(callbacks, each), _of(suspense, each), _of(proposals, each))
        for each in transactions
    ]


def _of(rows: Mapping[str, Sequence[T]], transaction: Transaction) -> Sequence[T]:
    return tuple(rows.get(transaction.reference, ()))


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def remove_archived(schema: SqlSchema, payments: Sequence[ArchivedPayment], forget: Forget) -> SqlQuery[int]:
    """Remove payments that are as they were archived, exactly the archived rows about them, and nothing else."""
    removed: list[ArchivedPayment] = []
    for each in payments:
        order, progress = each.transaction.order, each.transaction.progress
        if not (
            yield from returns_row(
                "DELETE FROM transactions WHERE brand = ? AND gateway_reference = ? AND version = ? RETURNING 1",
                order.brand,
                order.gateway_reference,
                progress.version,
            )
        ):
            continue
        removed.append(each)
        status = each.transaction.status.value
        if order.merchant_reference is not None:
            yield from execute(
                "UPDATE reference_uses SET ended = ?"
                " WHERE brand = ? AND merchant_reference = ? AND gateway_reference = ?",
                status,
                order.brand,
                order.merchant_reference,
                order.gateway_reference,
            )
        if order.flow is Flow.PUSH:
            yield from execute(
                "UPDATE deposits SET ended = ? WHERE provider = ? AND provider_reference = ?",
                status,
                order.provider,
                progress.provider_reference,
            )
    forget([each.transaction.reference for each in removed])
    named = {brand: set(references) for brand, references in by_brand(each.transaction for each in removed).items()}
    for brand, references in named.items():
        of_brand = [each for each in removed if each.transaction.reference in references]
        where = of_payments(schema, brand, sorted(references))
        for table, ids in (
            ("journal", [id for each in of_brand for id, _ in each.journal]),
            ("callbacks", [id for each in of_brand for id, _ in each.callbacks]),
        ):
            if ids:
                yield from execute(f"DELETE FROM {table} {where} AND id IN ({_marks(ids)})", *where.values, *ids)
    for each in removed:
        for _, callback in each.callbacks:
            yield from execute(
                "DELETE FROM callback_bodies WHERE at = ? AND gateway_reference = ?",
                callback.at,
                callback.gateway_reference,
            )
    yield from _remove_by_id("suspense", (entry.id for each in removed for entry in each.suspense))
    yield from _remove_by_id("proposals", (entry.id for each in removed for entry in each.proposals))
    return len(removed)


def _remove_by_id(table: str, numbers: Iterable[int]) -> SqlQuery[None]:
    ids = list(numbers)
    if ids:
        yield from execute(f"DELETE FROM {table} WHERE id IN ({_marks(ids)})", *ids)


def archivable_history(before: Instant, position: str, *, limit: int) -> SqlQuery[tuple[ArchivedHistory, str | None]]:
    """Return the oldest lines of the journal whose payment is not stored; with the first of them, such closed entries
    of the suspense book."""
    rows = yield from execute(
        f"SELECT id, {JOURNAL_COLUMNS}, EXISTS"
        " (SELECT 1 FROM transactions AS t WHERE t.gateway_reference = j.gateway_reference)"
        " FROM journal AS j WHERE id > ? ORDER BY id LIMIT ?",
        int(position or 0),
        limit,
    )
    old = [row for row in rows if row[1] < before]
    journal = [(row[0], JournalEntry(*row[1:9])) for row in old if not row[9]]
    suspense = () if position else (yield from orphaned_suspense(before, limit=limit))
    return ArchivedHistory(journal, suspense), None if len(old) < limit else str(rows[-1][0])


def orphaned_suspense(before: Instant, *, limit: int) -> SqlQuery[Sequence[SuspenseEntry]]:
    """Return old closed entries of the suspense book whose payment is not stored."""
    rows = yield from execute(
        f"SELECT {SUSPENSE_COLUMNS} FROM suspense AS s WHERE closed_at IS NOT NULL AND last_at < ? AND NOT EXISTS"
        " (SELECT 1 FROM transactions AS t WHERE t.gateway_reference = s.gateway_reference) ORDER BY id LIMIT ?",
        before,
        limit,
    )
    return [parse_suspense_entry(row) for row in rows]


def remove_history(history: ArchivedHistory) -> SqlQuery[int]:
    """Remove these lines and entries."""
    for id, line in history.journal:
        yield from execute("DELETE FROM journal WHERE id = ? AND at = ?", id, line.at)
    yield from _remove_by_id("suspense", (each.id for each in history.suspense))
    return len(history.journal) + len(history.suspense)
