"""Reads from SQL what is to be archived, and removes it once it is; see
:mod:`mmo_trio.storage.interface.retention`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import takewhile
from typing import Final, TypeVar

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.model import Flow, Transaction
from mmo_trio.storage.interface.admin_types import Proposal, ProposalState, SuspenseEntry
from mmo_trio.storage.interface.retention import ArchivedHistory, ArchivedPayment
from mmo_trio.storage.shared.payment_index import provider_receipt_key
from mmo_trio.storage.sql.aging import (
    Forget,
    by_shard,
    of_payments,
    parse_position,
    references_of,
    remove_bodies,
    with_open_intents,
)
from mmo_trio.storage.sql.console_users import PROPOSAL_COLUMNS, parse_proposal
from mmo_trio.storage.sql.masked_rows import about_payments, mask_claims_of
from mmo_trio.storage.sql.payment_history import SUSPENSE_COLUMNS, parse_callback, parse_suspense_entry
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.serialization import parse_transaction
from mmo_trio.storage.sql.statements import SqlQuery, Where, execute, select

K = TypeVar("K")
T = TypeVar("T")

_OPEN: Final = ProposalState.OPEN.value

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
        "SELECT order_row, progress FROM transactions WHERE created_at < ? AND (created_at, gateway_reference) > (?, ?)"
        " ORDER BY created_at, gateway_reference LIMIT ?",
        before,
        *parse_position(position),
        limit,
    )
    read = [parse_transaction(*row) for row in rows]
    page = list(takewhile(lambda each: _day_of(each) == _day_of(read[0]), read))
    is_last = len(page) == len(rows) < limit
    open_ones = yield from _open_payments(schema, page, before)
    over = [each for each in page if each.progress.stage.is_terminal and each.reference not in open_ones]
    came_to = f"{page[-1].order.created_at}/{page[-1].reference}" if page else position
    return (yield from _with_history(schema, over)), None if is_last else came_to


def _day_of(transaction: Transaction) -> int:
    return transaction.order.created_at // DAY


def _open_payments(schema: SqlSchema, payments: Sequence[Transaction], before: Instant) -> SqlQuery[Set[str]]:
    """Return which of these payments have something open, or something in the suspense book that is too new."""
    found = set((yield from with_open_intents(schema, payments)))
    references = references_of(payments)
    for table, about in (
        ("proposals", named(references).and_("state = ?", _OPEN)),
        ("suspense", named(references).and_("(closed_at IS NULL OR last_at >= ?)", before)),
    ):
        rows = yield from execute(f"SELECT gateway_reference FROM {table} {about}", *about.values)
        found.update(reference for (reference,) in rows)
    return found


def _with_history(schema: SqlSchema, transactions: Sequence[Transaction]) -> SqlQuery[Sequence[ArchivedPayment]]:
    """Return these payments with all that belongs to them, in the order of its numbers. That order is made here: for it
    a database might walk over a table by its numbers."""
    journal: dict[str, list[tuple[int, JournalEntry]]] = {}
    callbacks: dict[str, list[tuple[int, CallbackRecorded]]] = {}
    suspense: dict[str, list[SuspenseEntry]] = {}
    proposals: dict[str, list[Proposal]] = {}
    for brand, some in by_shard(schema, transactions):
        where = about_payments(schema, brand, some)
        for row in (yield from execute(f"SELECT id, {JOURNAL_COLUMNS} FROM journal {where}", *where.values)):
            journal.setdefault(row[4], []).append((row[0], JournalEntry(*row[1:])))
        for row in (
            yield from execute(
                "SELECT id, gateway_reference, brand, at, outcome, url, status, duration_ms, detail"
                f" FROM callbacks {where}",
                *where.values,
            )
        ):
            callbacks.setdefault(row[1], []).append((row[0], parse_callback(row[1:])))
    about = named(references_of(transactions))
    for row in (yield from execute(f"SELECT {SUSPENSE_COLUMNS} FROM suspense {about} ORDER BY id", *about.values)):
        suspense.setdefault(row[4], []).append(parse_suspense_entry(row))
    for row in (yield from execute(f"SELECT id, {PROPOSAL_COLUMNS} FROM proposals {about} ORDER BY id", *about.values)):
        proposals.setdefault(row[1], []).append(parse_proposal(row))
    return [
        ArchivedPayment(
            each,
            sorted(_of(journal, each), key=_number),
            sorted(_of(callbacks, each), key=_number),
            _of(suspense, each),
            _of(proposals, each),
        )
        for each in transactions
    ]


def _of(rows: Mapping[str, Sequence[T]], transaction: Transaction) -> Sequence[T]:
    return tuple(rows.get(transaction.reference, ()))


def _number(row: tuple[int, object]) -> int:
    return row[0]


def named(references: Iterable[str]) -> Where:
    """Return the condition for rows about these payments in tables that are not divided by brand."""
    return Where().among("gateway_reference", references)


def stored_payments(references: Sequence[str]) -> SqlQuery[Sequence[Transaction]]:
    """Return those of these payments that are stored."""
    where = named(references)
    return select(
        lambda row: parse_transaction(*row), f"SELECT order_row, progress FROM transactions {where}", *where.values
    )


def remove_archived(
    schema: SqlSchema, payments: Sequence[ArchivedPayment], forget: Forget, *, masks_claims: bool
) -> SqlQuery[int]:
    """Remove payments that are as they were read, exactly the rows about them that were read, and nothing else."""
    removed: list[ArchivedPayment] = []
    for (brand, version), some in _groups(payments, lambda each: (_shard(schema, each), _version(each))):
        where = of_payments(schema, brand, [each.transaction.reference for each in some])
        where.and_("version = ?", version).and_("status <> ?", "pending")
        rows = yield from execute(f"DELETE FROM transactions {where} RETURNING gateway_reference", *where.values)
        gone = {reference for (reference,) in rows}
        removed += [each for each in some if each.transaction.reference in gone]
    transactions = [each.transaction for each in removed]
    forget(references_of(transactions))
    yield from _mark_uses(schema, removed)
    yield from _mark_deposits(transactions)
    if masks_claims:
        yield from mask_claims_of(transactions)
    yield from _remove_numbered(schema, "journal", removed, lambda each: [(id, one.at) for id, one in each.journal])
    yield from _remove_numbered(schema, "callbacks", removed, lambda each: [(id, one.at) for id, one in each.callbacks])
    yield from remove_bodies(
        schema,
        [
            (each.transaction.order.brand, each.transaction.reference, one.at)
            for each in removed
            for _, one in each.callbacks
        ],
    )
    yield from _remove_receipts(schema, transactions)
    yield from _remove_by_id("suspense", (entry.id for each in removed for entry in each.suspense))
    yield from _remove_by_id("proposals", (entry.id for each in removed for entry in each.proposals))
    return len(removed)


def _groups(items: Iterable[T], key: Callable[[T], K]) -> Iterable[tuple[K, Sequence[T]]]:
    found: dict[K, list[T]] = {}
    for each in items:
        found.setdefault(key(each), []).append(each)
    return found.items()


def _shard(schema: SqlSchema, payment: ArchivedPayment) -> str:
    """Return the brand of a payment where a statement may name one only."""
    return payment.transaction.order.brand if schema.is_distributed else ""


def _version(payment: ArchivedPayment) -> int:
    return payment.transaction.progress.version


def _mark_uses(schema: SqlSchema, payments: Sequence[ArchivedPayment]) -> SqlQuery[None]:
    """Keep in the uses of their merchantReferences how these payments ended (C12)."""
    used = [each for each in payments if each.transaction.order.merchant_reference is not None]
    for (brand, status), some in _groups(used, lambda each: (_shard(schema, each), each.transaction.status.value)):
        orders = [each.transaction.order for each in some]
        where = of_payments(schema, brand, [order.gateway_reference for order in orders])
        where.among("merchant_reference", [order.merchant_reference for order in orders])
        yield from execute(f"UPDATE reference_uses SET ended = ? {where}", status, *where.values)


def _mark_deposits(transactions: Sequence[Transaction]) -> SqlQuery[None]:
    """Keep with the receipts of deposits how their payments ended (S4)."""
    pushed = [each for each in transactions if each.order.flow is Flow.PUSH]
    for (provider, status), some in _groups(pushed, lambda each: (each.order.provider, each.status.value)):
        receipts = [each.progress.provider_reference for each in some]
        where = Where().and_("provider = ?", provider).among("provider_reference", receipts)
        yield from execute(f"UPDATE deposits SET ended = ? {where}", status, *where.values)


def _remove_numbered(
    schema: SqlSchema,
    table: str,
    payments: Sequence[ArchivedPayment],
    rows_of: Callable[[ArchivedPayment], Sequence[tuple[int, Instant]]],
) -> SqlQuery[None]:
    """Remove these rows (id, at) about payments from a table that is divided by time. The bounds of `at` are there for
    the planner: it looks into few partitions."""
    for brand, some in _groups(payments, lambda each: _shard(schema, each)):
        rows = [row for each in some for row in rows_of(each)]
        if rows:
            where = of_payments(schema, brand, [each.transaction.reference for each in some])
            where.among("id", [id for id, _ in rows])
            where.and_("at >= ?", min(at for _, at in rows)).and_("at <= ?", max(at for _, at in rows))
            yield from execute(f"DELETE FROM {table} {where}", *where.values)


def _remove_receipts(schema: SqlSchema, transactions: Sequence[Transaction]) -> SqlQuery[None]:
    """Remove by what staff has found these payments."""
    for brand, some in by_shard(schema, transactions):
        receipts = [key for each in some if (key := provider_receipt_key(each.progress)) is not None]
        if receipts and schema.receipts_table is not None:
            where = of_payments(schema, brand, references_of(some)).among("receipt", receipts)
            yield from execute(f"DELETE FROM {schema.receipts_table} {where}", *where.values)


def _remove_by_id(table: str, numbers: Iterable[int]) -> SqlQuery[None]:
    ids = list(numbers)
    if ids:
        where = Where().among("id", ids)
        yield from execute(f"DELETE FROM {table} {where}", *where.values)


def archivable_history(before: Instant, position: str, *, limit: int) -> SqlQuery[tuple[ArchivedHistory, str | None]]:
    """Return old lines of the journal whose payment is not stored; after those, such closed entries of the suspense
    book."""
    if position.startswith(SUSPENSE_POSITION):
        return (yield from archivable_suspense(before, position, limit=limit))
    rows = yield from execute(
        f"SELECT id, {JOURNAL_COLUMNS} FROM journal WHERE id > ? ORDER BY id LIMIT ?", int(position or 0), limit
    )
    old = [(row[0], JournalEntry(*row[1:])) for row in takewhile(lambda row: row[1] < before, rows)]
    lines = yield from without_payment(old)
    return ArchivedHistory(lines), str(rows[-1][0]) if len(old) == limit else SUSPENSE_POSITION


SUSPENSE_POSITION: Final = "suspense:"
"""What the positions in the suspense book begin with; by itself it is the first."""


def without_payment(numbered: Sequence[tuple[int, JournalEntry]]) -> SqlQuery[Sequence[tuple[int, JournalEntry]]]:
    """Return those of these lines whose payment is not stored, or that name none."""
    stored = yield from _stored({line.gateway_reference for _, line in numbered})
    return [each for each in numbered if each[1].gateway_reference not in stored]


def _stored(references: Iterable[str | None]) -> SqlQuery[Set[str]]:
    wanted = {each for each in references if each is not None}
    if not wanted:
        return set()
    where = named(sorted(wanted))
    rows = yield from execute(f"SELECT gateway_reference FROM transactions {where}", *where.values)
    return {reference for (reference,) in rows}


def archivable_suspense(before: Instant, position: str, *, limit: int) -> SqlQuery[tuple[ArchivedHistory, str | None]]:
    """Return old closed entries of the suspense book whose payment is not stored."""
    rows = yield from execute(
        f"SELECT {SUSPENSE_COLUMNS} FROM suspense WHERE id > ? ORDER BY id LIMIT ?",
        int(position.removeprefix(SUSPENSE_POSITION) or 0),
        limit,
    )
    entries = [parse_suspense_entry(row) for row in rows]
    old = [each for each in entries if each.closed_at is not None and each.last_at < before]
    stored = yield from _stored(each.gateway_reference for each in old)
    kept = [each for each in old if each.gateway_reference not in stored]
    return ArchivedHistory((), kept), f"{SUSPENSE_POSITION}{entries[-1].id}" if len(rows) == limit else None


def remove_history(history: ArchivedHistory) -> SqlQuery[int]:
    """Remove these lines and entries."""
    if history.journal:
        times = [line.at for _, line in history.journal]
        where = Where().among("id", [id for id, _ in history.journal])
        where.and_("at >= ?", min(times)).and_("at <= ?", max(times))
        yield from execute(f"DELETE FROM journal {where}", *where.values)
    yield from _remove_by_id("suspense", (each.id for each in history.suspense))
    return len(history.journal) + len(history.suspense)
