"""Masks in SQL the personal data of what is too old; see :mod:`mmo_trio.storage.interface.retention`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mmo_sansio.payments.personal_data import mask_claim, mask_members, mask_text, mask_transaction, mask_url
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import ProposalState
from mmo_trio.storage.interface.retention import RetentionStep
from mmo_trio.storage.sql.aging import (
    Forget,
    by_shard,
    of_payments,
    parse_position,
    references_of,
    remove_bodies,
    with_open_intents,
)
from mmo_trio.storage.sql.object_rows import serialize_object
from mmo_trio.storage.sql.payment_history import CONTENT_COLUMN, SUSPENSE_COLUMNS, parse_suspense_entry
from mmo_trio.storage.sql.row_updates import RowUpdate
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.serialization import (
    parse_claim,
    parse_transaction,
    serialize_claim,
    serialize_order,
    serialize_progress,
)
from mmo_trio.storage.sql.statements import SqlQuery, Where, execute

EARLIEST_LINE_BEFORE: Final = DAY
"""How long before its creation nothing about a payment is dated, whichever clocks have dated it."""

_NUMBERED_KEYS: Final = {"brand": "text", "gateway_reference": "text", "id": "bigint", "at": "bigint"}
_JOURNAL: Final = RowUpdate("journal", _NUMBERED_KEYS, {"detail": "text"})
_CALLBACKS: Final = RowUpdate("callbacks", _NUMBERED_KEYS, {"url": "text", "detail": "text"})


def mask_payments(
    schema: SqlSchema, before: Instant, position: str, *, limit: int, forget: Forget
) -> SqlQuery[RetentionStep]:
    """Mask the oldest payments that have ended, and what repeats their data; not where something is still to be sent,
    which needs it."""
    rows = yield from execute(
        "SELECT order_row, progress FROM transactions WHERE created_at < ? AND (created_at, gateway_reference) > (?, ?)"
        " ORDER BY created_at, gateway_reference LIMIT ?",
        before,
        *parse_position(position),
        limit,
    )
    found = [parse_transaction(*row) for row in rows]
    unsent = yield from with_open_intents(schema, found)
    ended = [each for each in found if each.progress.stage.is_terminal and each.reference not in unsent]
    masked = yield from _replace(schema, [(each, after) for each in ended if (after := mask_transaction(each)) != each])
    yield from mask_claims_of(masked)
    forget(references_of(ended))
    for brand, some in by_shard(schema, ended):
        where = about_payments(schema, brand, some)
        yield from _mask_journal(schema, where)
        yield from _mask_callbacks(schema, where)
    yield from _mask_proposals(references_of(ended))
    last = found[-1] if found else None
    came_to = position if last is None else f"{last.order.created_at}/{last.reference}"
    return RetentionStep(len(masked), came_to, is_last=len(found) < limit, has_skipped=len(ended) < len(found))


def about_payments(schema: SqlSchema, brand: str, payments: Sequence[Transaction]) -> Where:
    """Return the condition for rows about these payments in a table that is divided by time. Of its partitions those
    are left out that end before the oldest of the payments."""
    oldest = min(each.order.created_at for each in payments)
    return of_payments(schema, brand, references_of(payments)).and_("at >= ?", oldest - EARLIEST_LINE_BEFORE)


def _replace(schema: SqlSchema, masked: Sequence[tuple[Transaction, Transaction]]) -> SqlQuery[Sequence[Transaction]]:
    """Store the masked payments, but not those that have changed meanwhile; return those that were stored."""
    update = RowUpdate(
        "transactions",
        {"brand": "text", "gateway_reference": "text", "version": "integer"},
        {"version": "integer", "order_row": "bytea", "progress": "bytea", "object": "bytea"},
        returned="gateway_reference",
        constants="msisdn = NULL",
    )
    rows = yield from update.run(
        schema,
        [
            (
                before.order.brand,
                before.reference,
                before.progress.version,
                after.progress.version,
                serialize_order(after.order),
                serialize_progress(after.progress),
                serialize_object(after),
            )
            for before, after in masked
        ],
    )
    stored = {reference for (reference,) in rows}
    return [after for _, after in masked if after.reference in stored]


def _mask_journal(schema: SqlSchema, where: Where) -> SqlQuery[None]:
    rows = yield from execute(f"SELECT brand, gateway_reference, id, at, detail FROM journal {where}", *where.values)
    masked = ((*key, detail, mask_members(detail)) for *key, detail in rows)
    yield from _JOURNAL.run(schema, [(*key, after) for *key, before, after in masked if after != before])


def _mask_callbacks(schema: SqlSchema, where: Where) -> SqlQuery[None]:
    rows = yield from execute(
        f"SELECT brand, gateway_reference, id, at, url, detail FROM callbacks {where}", *where.values
    )
    yield from remove_bodies(schema, [(brand, reference, at) for brand, reference, _, at, *_ in rows])
    masked = ((key, (url, detail), (mask_url(url), mask_text(detail))) for *key, url, detail in rows)
    yield from _CALLBACKS.run(schema, [(*key, *after) for key, before, after in masked if after != before])


def _mask_proposals(references: Sequence[str]) -> SqlQuery[None]:
    about = Where().among("gateway_reference", references).and_("state <> ?", ProposalState.OPEN.value)
    rows = yield from execute(f"SELECT id, reason, evidence, remark FROM proposals {about}", *about.values)
    for id, *texts in rows:
        masked = [None if each is None else mask_text(each) for each in texts]
        if masked != texts:
            yield from execute("UPDATE proposals SET reason = ?, evidence = ?, remark = ? WHERE id = ?", *masked, id)


def mask_claims_of(payments: Iterable[Transaction]) -> SqlQuery[None]:
    """Mask the settled claims of the receipts of these payments."""
    for provider, receipts in _receipts_by_provider(payments).items():
        yield from _mask_settled_claims(provider, receipts)


def _receipts_by_provider(payments: Iterable[Transaction]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for each in payments:
        if each.progress.provider_reference is not None:
            found.setdefault(each.order.provider, []).append(each.progress.provider_reference)
    return found


def _mask_settled_claims(provider: str, receipts: Sequence[str]) -> SqlQuery[None]:
    where = Where().and_("provider = ?", provider).among("receipt", receipts)
    rows = yield from execute(f"SELECT claim FROM deposit_claims {where}", *where.values)
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
        f"SELECT {SUSPENSE_COLUMNS} FROM suspense WHERE id > ? ORDER BY id LIMIT ?", int(position or 0), limit
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
