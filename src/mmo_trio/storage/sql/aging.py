"""Removes and masks in SQL what is too old; see :mod:`mmo_trio.storage.interface.retention`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from mmo_sansio.payments.personal_data import mask_claim, mask_members, mask_text, mask_transaction, mask_url
from mmo_sansio.values.clock import HOUR, Instant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import ProposalState
from mmo_trio.storage.interface.retention import (
    COUNTED_MAX,
    EMPTY_ARCHIVE,
    AgedRows,
    ArchiveHead,
    RetentionDuty,
    RetentionStep,
)
from mmo_trio.storage.sql.object_rows import serialize_object
from mmo_trio.storage.sql.payment_history import CONTENT_COLUMN, SUSPENSE_COLUMNS, parse_suspense_entry
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.serialization import (
    parse_claim,
    parse_transaction,
    serialize_claim,
    serialize_order,
    serialize_progress,
)
from mmo_trio.storage.sql.statements import SqlQuery, Where, execute, returns_row

Forget = Callable[[Iterable[str]], None]
"""Removes payments, by gatewayReference, from what a store remembers of them."""

NUMBERS_AT_ONCE: Final = 2_000
"""Numbers of callbacks among which one step looks for bodies that earlier versions recorded."""

_LAST_RUN: Final = "last_run"
_ARCHIVE: Final = "archive"


def take_lease(schema: SqlSchema, holder: str, duration: Span) -> SqlQuery[bool]:
    """Begin or renew the lease, by the database's clock."""
    return returns_row(
        f"UPDATE retention_lease SET holder = ?, held_until = {schema.now} + ?"
        f" WHERE holder = ? OR held_until < {schema.now} RETURNING 1",
        holder,
        duration,
        holder,
    )


def end_lease(holder: str) -> SqlQuery[None]:
    """End the lease, if this holder has it."""
    yield from execute("UPDATE retention_lease SET held_until = 0 WHERE holder = ?", holder)


def last_run() -> SqlQuery[Instant]:
    """Return when a run last ended."""
    return Instant(int((yield from state(_LAST_RUN)) or 0))


def save_run(now: Instant) -> SqlQuery[None]:
    """Save that a run has ended."""
    yield from _save_state(_LAST_RUN, str(now))


def state(what: str) -> SqlQuery[str]:
    """Return what was saved under this name; "" when nothing was."""
    rows = yield from execute("SELECT position FROM retention_state WHERE what = ?", what)
    return str(rows[0][0]) if rows else ""


def save_position(duty: RetentionDuty, position: str) -> SqlQuery[None]:
    """Save where the walk of this duty goes on."""
    yield from _save_state(duty.value, position)


def _save_state(what: str, position: str) -> SqlQuery[None]:
    yield from execute(
        "INSERT INTO retention_state (what, position) VALUES (?, ?)"
        " ON CONFLICT (what) DO UPDATE SET position = excluded.position",
        what,
        position,
    )


def archive_head() -> SqlQuery[ArchiveHead]:
    """Return the end of the archive that the store knows."""
    saved = yield from state(_ARCHIVE)
    number, _, digest = saved.partition(":")
    return ArchiveHead(int(number), digest) if saved else EMPTY_ARCHIVE


def advance_archive(known: ArchiveHead, head: ArchiveHead) -> SqlQuery[bool]:
    """Replace the known end of the archive, unless it is another by now."""
    yield from execute(
        "INSERT INTO retention_state (what, position) VALUES (?, ?) ON CONFLICT (what) DO NOTHING",
        _ARCHIVE,
        _head_text(EMPTY_ARCHIVE),
    )
    return (
        yield from returns_row(
            "UPDATE retention_state SET position = ? WHERE what = ? AND position = ? RETURNING 1",
            _head_text(head),
            _ARCHIVE,
            _head_text(known),
        )
    )


def _head_text(head: ArchiveHead) -> str:
    return f"{head.number}:{head.digest}"


def count_aged(duty: RetentionDuty, before: Instant) -> SqlQuery[AgedRows]:
    """Count what is too old, beginning where the walk goes on."""
    position = yield from state(duty.value)
    where = Where()
    match duty:
        case RetentionDuty.CALLBACK_BODIES:
            table, at = "callback_bodies", "at"
            where.and_("at < ?", before)
        case RetentionDuty.PERSONAL_DATA:
            table, at = "transactions", "created_at"
            where.and_("(created_at, gateway_reference) > (?, ?)", *parse_position(position))
            where.and_("created_at < ?", before).and_("status <> ?", "pending")
        case RetentionDuty.ARCHIVED_PAYMENTS:
            table, at = "transactions", "created_at"
            where.and_("created_at < ?", before).and_("status <> ?", "pending")
        case RetentionDuty.SUSPENSE_DATA:
            table, at = "suspense", "last_at"
            where.and_("last_at < ?", before).and_("closed_at IS NOT NULL")
        case RetentionDuty.HOURLY_COUNTS:
            table, at = "figures", "began_at"
            where.and_("span = ?", HOUR).and_("began_at < ?", before)
        case RetentionDuty.BREAKER_CHANGES:
            table, at = "breaker_changes", "at"
            where.and_("at < ?", before)
        case RetentionDuty.ARCHIVED_HISTORY:
            table, at = "journal", "at"
            where.and_("at < ?", before).and_("gateway_reference IS NULL")
        case RetentionDuty.ARCHIVED_AUDIT:
            table, at = "audit", "at"
            where.and_("at < ?", before)
    [(rows, first, last)] = yield from execute(
        f"SELECT count(*), min(at), max(at) FROM (SELECT {at} AS at FROM {table} {where} LIMIT ?) AS aged",
        *where.values,
        COUNTED_MAX,
    )
    return AgedRows(int(rows), first, last)


def parse_position(position: str) -> tuple[int, str]:
    """Return createdAt and gatewayReference of the last payment that a walk has looked at."""
    created_at, _, reference = position.partition("/")
    return int(created_at or 0), reference


def of_payments(schema: SqlSchema, brand: str, references: Sequence[str]) -> Where:
    """Return the condition for rows of these payments of one brand."""
    where = Where()
    if "brand" in schema.transaction_key:
        where.and_("brand = ?", brand)
    return where.and_(f"gateway_reference IN ({', '.join('?' * len(references))})", *references)


def by_brand(transactions: Iterable[Transaction]) -> Mapping[str, list[str]]:
    """Return the gatewayReferences of these payments by brand."""
    found: dict[str, list[str]] = {}
    for each in transactions:
        found.setdefault(each.order.brand, []).append(each.reference)
    return found


def _number(table: str, position: str) -> SqlQuery[int]:
    """Return the number of the row that a walk has come to. Where that row and all after it are archived, numbers may
    begin again below it, and so does the walk."""
    [(latest,)] = yield from execute(f"SELECT coalesce(max(id), 0) FROM {table}")
    number = int(position or 0)
    return number if number <= latest else 0


def remove_callback_bodies(before: Instant, position: str, *, limit: int) -> SqlQuery[RetentionStep]:
    """Remove the oldest bodies; when none is left, those that earlier versions recorded with their callbacks, whose
    numbers grow with time."""
    rows = yield from execute("SELECT at FROM callback_bodies WHERE at < ? ORDER BY at LIMIT ?", before, limit)
    if rows:
        removed = yield from execute("DELETE FROM callback_bodies WHERE at <= ? RETURNING 1", rows[-1][0])
        return RetentionStep(len(removed), position, is_last=False)
    begun = yield from _number("callbacks", position)
    rows = yield from execute("SELECT id, at FROM callbacks WHERE id > ? ORDER BY id LIMIT 1", begun)
    if not rows or rows[0][1] >= before:
        return RetentionStep(0, str(begun), is_last=True)
    first, end = rows[0][0], rows[0][0] + NUMBERS_AT_ONCE
    [(latest, newer)] = yield from execute(
        "SELECT max(id), min(CASE WHEN at >= ? THEN id END) FROM callbacks WHERE id >= ? AND id < ?", before, first, end
    )
    end = latest + 1 if newer is None else newer
    rows = yield from execute(
        "SELECT id, at, brand FROM callbacks WHERE id >= ? AND id < ? AND coalesce(length(body), 0) > 0 ORDER BY id"
        " LIMIT ?",
        first,
        end,
        limit,
    )
    for id, at, brand in rows:
        yield from execute("UPDATE callbacks SET body = ? WHERE brand = ? AND id = ? AND at = ?", b"", brand, id, at)
    is_whole = len(rows) < limit
    came_to = end - 1 if is_whole else rows[-1][0]
    return RetentionStep(len(rows), str(came_to), is_last=is_whole and newer is not None)


def mask_payments(
    schema: SqlSchema, before: Instant, position: str, *, limit: int, forget: Forget
) -> SqlQuery[RetentionStep]:
    """Mask the oldest payments that have ended, and what repeats their data."""
    rows = yield from execute(
        "SELECT order_row, progress FROM transactions WHERE created_at < ? AND (created_at, gateway_reference) > (?, ?)"
        " ORDER BY created_at, gateway_reference LIMIT ?",
        before,
        *parse_position(position),
        limit,
    )
    found = [parse_transaction(*row) for row in rows]
    ended = [each for each in found if each.progress.stage.is_terminal]
    changed = 0
    receipts: dict[str, list[str]] = {}
    for each in ended:
        masked = mask_transaction(each)
        if masked is not each and (yield from _replace(schema, each, masked)):
            changed += 1
            if each.progress.provider_reference is not None:
                receipts.setdefault(each.order.provider, []).append(each.progress.provider_reference)
    for provider, named in receipts.items():
        yield from _mask_settled_claims(provider, named)
    forget([each.reference for each in ended])
    for brand, references in by_brand(ended).items():
        where = of_payments(schema, brand, references)
        yield from _mask_journal(brand, where)
        yield from _mask_callbacks(brand, where)
        yield from _mask_proposals(references)
    last = found[-1] if found else None
    came_to = position if last is None else f"{last.order.created_at}/{last.reference}"
    return RetentionStep(changed, came_to, is_last=len(found) < limit, has_skipped=len(ended) < len(found))


def _replace(schema: SqlSchema, before: Transaction, after: Transaction) -> SqlQuery[bool]:
    """Store the masked payment, unless it has changed meanwhile."""
    return returns_row(
        "UPDATE transactions SET msisdn = NULL, version = ?, order_row = ?, progress = ?, object = ?"
        f" WHERE brand = ? AND gateway_reference = ? AND {schema.version_column} = ? RETURNING 1",
        after.progress.version,
        serialize_order(after.order),
        serialize_progress(after.progress),
        serialize_object(after),
        before.order.brand,
        before.reference,
        before.progress.version,
    )


def _mask_journal(brand: str, where: Where) -> SqlQuery[None]:
    rows = yield from execute(f"SELECT id, at, gateway_reference, detail FROM journal {where}", *where.values)
    for id, at, reference, detail in rows:
        masked = mask_members(detail)
        if masked != detail:
            yield from execute(
                "UPDATE journal SET detail = ? WHERE brand = ? AND gateway_reference = ? AND id = ? AND at = ?",
                masked,
                brand,
                reference,
                id,
                at,
            )


def _mask_callbacks(brand: str, where: Where) -> SqlQuery[None]:
    rows = yield from execute(
        f"SELECT id, at, gateway_reference, url, detail, coalesce(length(body), 0) FROM callbacks {where}",
        *where.values,
    )
    yield from remove_bodies(brand, sorted({row[2] for row in rows}), [row[1] for row in rows])
    for id, at, reference, url, detail, body_bytes in rows:
        masked = mask_url(url), mask_text(detail)
        if masked != (url, detail) or body_bytes:
            yield from execute(
                "UPDATE callbacks SET url = ?, detail = ?, body = ?"
                " WHERE brand = ? AND gateway_reference = ? AND id = ? AND at = ?",
                *masked,
                b"",
                brand,
                reference,
                id,
                at,
            )


def remove_bodies(brand: str, references: Sequence[str], times: Sequence[Instant]) -> SqlQuery[None]:
    """Remove the bodies of callbacks of these payments at these times, if they are there still."""
    if times:
        yield from execute(
            f"DELETE FROM callback_bodies WHERE at IN ({', '.join('?' * len(times))}) AND brand = ?"
            f" AND gateway_reference IN ({', '.join('?' * len(references))})",
            *times,
            brand,
            *references,
        )


def _mask_proposals(references: Sequence[str]) -> SqlQuery[None]:
    marks = ", ".join("?" * len(references))
    rows = yield from execute(
        f"SELECT id, reason, evidence, remark FROM proposals WHERE gateway_reference IN ({marks}) AND state <> ?",
        *references,
        ProposalState.OPEN.value,
    )
    for id, *texts in rows:
        masked = [None if each is None else mask_text(each) for each in texts]
        if masked != texts:
            yield from execute("UPDATE proposals SET reason = ?, evidence = ?, remark = ? WHERE id = ?", *masked, id)


def _mask_settled_claims(provider: str, receipts: Sequence[str]) -> SqlQuery[None]:
    rows = yield from execute(
        f"SELECT claim FROM deposit_claims WHERE provider = ? AND receipt IN ({', '.join('?' * len(receipts))})",
        provider,
        *receipts,
    )
    for (row,) in rows:
        claim = parse_claim(row)
        if claim.wake_at is None and (masked := mask_claim(claim)) is not claim:
            yield from execute(
                "UPDATE deposit_claims SET version = ?, claim = ? WHERE provider = ? AND receipt = ? AND version = ?",
                masked.version,
                serialize_claim(masked),
                provider,
                claim.receipt,
                claim.version,
            )


def mask_suspense(before: Instant, position: str, *, limit: int) -> SqlQuery[RetentionStep]:
    """Mask old entries that are closed, and the settled claims of the receipts that they name."""
    rows = yield from execute(
        f"SELECT {SUSPENSE_COLUMNS} FROM suspense WHERE id > ? ORDER BY id LIMIT ?",
        (yield from _number("suspense", position)),
        limit,
    )
    changed, has_skipped = 0, False
    for entry in map(parse_suspense_entry, rows):
        if entry.closed_at is None or entry.last_at >= before:
            has_skipped = True
            continue
        content, note = mask_members(entry.content), None if entry.note is None else mask_text(entry.note)
        if (content, note) == (entry.content, entry.note):
            continue
        changed += 1
        yield from execute(f"UPDATE suspense SET {CONTENT_COLUMN} = ?, note = ? WHERE id = ?", content, note, entry.id)
        receipt = _receipt_in(entry.content)
        if receipt is not None:
            yield from _mask_settled_claims(entry.provider, [receipt])
    came_to = str(rows[-1][0]) if rows else position
    return RetentionStep(changed, came_to, is_last=len(rows) < limit, has_skipped=has_skipped)


def _receipt_in(content: str) -> str | None:
    """Return the receipt that an entry of the suspense book names."""
    members: Any = json.loads(content)
    receipt = members.get("providerReference") if isinstance(members, dict) else None
    return receipt if isinstance(receipt, str) else None


def remove_hourly_counts(before: Instant) -> SqlQuery[RetentionStep]:
    """Remove the counts of the oldest hour."""
    [(oldest,)] = yield from execute("SELECT min(began_at) FROM figures WHERE span = ? AND began_at < ?", HOUR, before)
    if oldest is None:
        return RetentionStep(0, "", is_last=True)
    rows = yield from execute("DELETE FROM figures WHERE span = ? AND began_at = ? RETURNING 1", HOUR, oldest)
    return RetentionStep(len(rows), "", is_last=False)


def remove_breaker_changes(before: Instant, *, limit: int) -> SqlQuery[RetentionStep]:
    """Remove the oldest changes of breakers. Each brand's newest stays: by it the next change is known as one."""
    rows = yield from execute(
        "SELECT brand, at FROM breaker_changes AS old WHERE at < ? AND EXISTS (SELECT 1 FROM breaker_changes AS later"
        " WHERE later.brand = old.brand AND later.at > old.at) ORDER BY at LIMIT ?",
        before,
        limit,
    )
    for brand, at in rows:
        yield from execute("DELETE FROM breaker_changes WHERE brand = ? AND at = ?", brand, at)
    return RetentionStep(len(rows), "", is_last=len(rows) < limit)
