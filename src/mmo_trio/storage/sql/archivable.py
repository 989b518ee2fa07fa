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
from mmo_trio.storage.sql.aging import Forget, by_brand, of_payments, parse_position, remove_bodies
from mmo_trio.storage.sql.console_users import PROPOSAL_COLUMNS, parse_proposal
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
    found: set[str] = set()
    for brand, references in by_brand(payments).items():
        where = of_payments(schema, brand, references)
        for condition, about in (
            ("SELECT gateway_reference FROM intents {}", where),
            ("SELECT gateway_reference FROM proposals {}", named(references).and_("state = ?", _OPEN)),
            (
                "SELECT gateway_reference FROM suspense {}",
                named(references).and_("(closed_at IS NULL OR last_at >= ?)", before),
            ),
        ):
            rows = yield from execute(condition.format(about), *about.values)
            found.update(reference for (reference,) in rows)
    return found


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
        about = named(references)
        for row in (yield from execute(f"SELECT {SUSPENSE_COLUMNS} FROM suspense {about} ORDER BY id", *about.values)):
            suspense.setdefault(row[4], []).append(parse_suspense_entry(row))
        for row in (
            yield from execute(f"SELECT id, {PROPOSAL_COLUMNS} FROM proposals {about} ORDER BY id", *about.values)
        ):
            proposals.setdefault(row[1], []).append(parse_proposal(row))
    return [
        ArchivedPayment(each, _of(journal, each), _of(callbacks, each), _of(suspense, each), _of(proposals, each))
        for each in transactions
    ]


def _of(rows: Mapping[str, Sequence[T]], transaction: Transaction) -> Sequence[T]:
    return tuple(rows.get(transaction.reference, ()))


def named(references: Sequence[str]) -> Where:
    """Return the condition for rows about these payments in tables that are not divided by brand."""
    return Where().and_(f"gateway_reference IN ({_marks(references)})", *references)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def remove_archived(schema: SqlSchema, payments: Sequence[ArchivedPayment], forget: Forget) -> SqlQuery[int]:
    """Remove payments that are as they were archived, exactly the archived rows about them, and nothing else."""
    removed: list[ArchivedPayment] = []
    for (brand, version), some in _groups(payments, _brand_and_version):
        rows = yield from execute(
            "DELETE FROM transactions WHERE brand = ?"
            f" AND {schema.version_column} = ? AND gateway_reference IN ({_marks(some)}) RETURNING gateway_reference",
            brand,
            version,
            *(each.transaction.reference for each in some),
        )
        gone = {reference for (reference,) in rows}
        removed += [each for each in some if each.transaction.reference in gone]
    forget([each.transaction.reference for each in removed])
    for (brand, status), some in _groups(removed, _brand_and_status):
        yield from _mark_uses(brand, status, some)
        for each in some:
            if each.transaction.order.flow is Flow.PUSH:
                yield from execute(
                    "UPDATE deposits SET ended = ? WHERE provider = ? AND provider_reference = ?",
                    status,
                    each.transaction.order.provider,
                    each.transaction.progress.provider_reference,
                )
        yield from _remove_details(schema, brand, some)
    yield from _remove_by_id("suspense", (entry.id for each in removed for entry in each.suspense))
    yield from _remove_by_id("proposals", (entry.id for each in removed for entry in each.proposals))
    return len(removed)


def _groups(
    payments: Sequence[ArchivedPayment], key: Callable[[ArchivedPayment], K]
) -> Iterable[tuple[K, Sequence[ArchivedPayment]]]:
    found: dict[K, list[ArchivedPayment]] = {}
    for each in payments:
        found.setdefault(key(each), []).append(each)
    return found.items()


def _brand_and_version(payment: ArchivedPayment) -> tuple[str, int]:
    return payment.transaction.order.brand, payment.transaction.progress.version


def _brand_and_status(payment: ArchivedPayment) -> tuple[str, str]:
    return payment.transaction.order.brand, payment.transaction.status.value


def _mark_uses(brand: str, status: str, payments: Sequence[ArchivedPayment]) -> SqlQuery[None]:
    """Keep in the uses of their merchantReferences how these payments of one brand ended (C12)."""
    used = [each.transaction.order for each in payments if each.transaction.order.merchant_reference is not None]
    if used:
        yield from execute(
            f"UPDATE reference_uses SET ended = ? WHERE brand = ? AND merchant_reference IN ({_marks(used)})"
            f" AND gateway_reference IN ({_marks(used)})",
            status,
            brand,
            *(order.merchant_reference for order in used),
            *(order.gateway_reference for order in used),
        )


def _remove_details(schema: SqlSchema, brand: str, payments: Sequence[ArchivedPayment]) -> SqlQuery[None]:
    """Remove the archived rows about these payments of one brand."""
    references = [each.transaction.reference for each in payments]
    where = of_payments(schema, brand, references)
    for table, ids in (
        ("journal", [id for each in payments for id, _ in each.journal]),
        ("callbacks", [id for each in payments for id, _ in each.callbacks]),
    ):
        if ids:
            yield from execute(f"DELETE FROM {table} {where} AND id IN ({_marks(ids)})", *where.values, *ids)
    yield from remove_bodies(brand, references, [one.at for each in payments for _, one in each.callbacks])
    receipts = [key for each in payments if (key := provider_receipt_key(each.transaction.progress)) is not None]
    if receipts and schema.receipts_table is not None:
        yield from execute(
            f"DELETE FROM {schema.receipts_table} {where} AND receipt IN ({_marks(receipts)})", *where.values, *receipts
        )


def _remove_by_id(table: str, numbers: Iterable[int]) -> SqlQuery[None]:
    ids = list(numbers)
    if ids:
        yield from execute(f"DELETE FROM {table} WHERE id IN ({_marks(ids)})", *ids)


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
    wanted = named(sorted(each for each in references if each is not None))
    rows = (
        ()
        if not wanted.values
        else (yield from execute(f"SELECT gateway_reference FROM transactions {wanted}", *wanted.values))
    )
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
    for id, line in history.journal:
        yield from execute("DELETE FROM journal WHERE id = ? AND at = ?", id, line.at)
    yield from _remove_by_id("suspense", (each.id for each in history.suspense))
    return len(history.journal) + len(history.suspense)
