"""Masks in SQL the personal data of what is too old, many rows in as few statements as the database
allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

from attrs import frozen

from mmo_sansio.payments.personal_data import (
    mask_claim,
    mask_members,
    mask_reversal,
    mask_text,
    mask_transaction,
    mask_url,
)
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import ProposalState
from mmo_trio.storage.interface.retention import RetentionStep
from mmo_trio.storage.sql import serialization
from mmo_trio.storage.sql.payment_history import SUSPENSE_COLUMNS, parse_suspense_entry
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import Row, SqlQuery, Where, execute

# How long before its creation nothing about a payment is dated, whichever clocks have dated it.
EARLIEST_LINE_BEFORE: Final = DAY

# Removes payments, by gatewayReference, from what a store remembers of them.
Forget: TypeAlias = Callable[[Iterable[str]], None]


def forget_nothing(references: Iterable[str]) -> None:
    """Do nothing: for a store that remembers no payments."""


@frozen
class RowUpdate:
    """Says which columns of a table an update changes, and by which keys it finds the rows."""

    table: str
    keys: Mapping[str, str]
    """PostgreSQL's types of the keys, by their expressions; `brand` is the first where the table is
    distributed, and `at` is one of them where it is partitioned."""
    changes: Mapping[str, str]
    """PostgreSQL's types of the columns that change, by their names."""
    returned: str = "1"
    """What is returned of each row that has changed."""
    constants: str = ""
    """Further assignments, the same for all rows."""

    def run(self, schema: SqlSchema, rows: Iterable[Sequence[object]]) -> SqlQuery[Sequence[Row]]:
        """Change the rows with these keys, each to these values, and return those that have
        changed."""
        found: list[Row] = []

        # 1. One statement for each row, where no statement takes arrays: they cost no round trip.
        if not schema.takes_arrays:
            for row in rows:
                found += yield from execute(
                    self._single_text(), *row[len(self.keys) :], *row[: len(self.keys)]
                )

            return found

        # 2. One statement for all rows, or for those of each brand where these are in shards.
        groups: dict[object, list[Sequence[object]]] = {}
        for row in rows:
            brand_of_shard = None
            if schema.is_distributed:
                brand_of_shard = row[0]

            groups.setdefault(brand_of_shard, []).append(row)

        for brand, group in groups.items():
            columns = [list(column) for column in zip(*group, strict=True)]
            bounds: list[object] = []
            if "at" in self.keys:
                times = columns[list(self.keys).index("at")]
                bounds = [min(times), max(times)]

            brands: list[object] = []
            if schema.is_distributed:
                brands = [brand]

            text = self._joined_text(with_brand=schema.is_distributed)
            found += yield from execute(text, *columns, *bounds, *brands)

        return found

    def _single_text(self) -> str:
        changed = [f"{change} = ?" for change in self.changes]
        found = " AND ".join(f"{key} = ?" for key in self.keys)
        return (
            f"UPDATE {self.table} SET {self._assignments(changed)} WHERE {found} RETURNING "
            f"{self.returned}"
        )

    def _joined_text(self, *, with_brand: bool) -> str:
        """Return the statement for arrays of keys and of new values. The bounds of `at` are there
        for the planner: it looks into few partitions."""
        types = [*self.keys.values(), *self.changes.values()]
        keys = [f"key{nth}" for nth in range(len(self.keys))]
        changes = [f"new{nth}" for nth in range(len(self.changes))]

        found = [f"{column} = given.{name}" for column, name in zip(self.keys, keys, strict=True)]
        if "at" in self.keys:
            found += ["at >= ?", "at <= ?"]
        if with_brand:
            found.append("brand = ?")

        changed = [
            f"{column} = given.{name}" for column, name in zip(self.changes, changes, strict=True)
        ]
        return (
            f"UPDATE {self.table} SET {self._assignments(changed)}"
            f" FROM unnest({', '.join(f'?::{kind}[]' for kind in types)}) AS given "
            f"({', '.join(keys + changes)})"
            f" WHERE {' AND '.join(found)} RETURNING {self.returned}"
        )

    def _assignments(self, changed: Sequence[str]) -> str:
        if self.constants:
            return ", ".join([*changed, self.constants])
        return ", ".join(changed)


_NUMBERED_KEYS: Final = {
    "brand": "text",
    "gateway_reference": "text",
    "id": "bigint",
    "at": "bigint",
}
_JOURNAL: Final = RowUpdate("journal", _NUMBERED_KEYS, {"detail": "text"})
_CALLBACKS: Final = RowUpdate("callbacks", _NUMBERED_KEYS, {"url": "text", "detail": "text"})


def mask_payments(
    schema: SqlSchema, before: Instant, position: str, *, limit: int, forget: Forget
) -> SqlQuery[RetentionStep]:
    """Mask the oldest payments that have ended, and what repeats their data; not where something is
    still to be sent, which needs it."""
    # 1. The next payments of the walk, and which of them have ended: nothing is sent, asked or paid
    #    back of these any more.
    rows = yield from execute(
        "SELECT order_row, progress FROM transactions WHERE created_at < ? AND (created_at, "
        "gateway_reference) > (?, ?)"
        " ORDER BY created_at, gateway_reference LIMIT ?",
        before,
        *parse_position(position),
        limit,
    )
    found = [serialization.parse_transaction(*row) for row in rows]
    unsent = yield from _with_open_intents(schema, found)
    unsent |= yield from _with_unfinished_reversals(_references_of(found))
    ended = [
        payment
        for payment in found
        if payment.progress.stage.is_terminal and payment.reference not in unsent
    ]

    # 2. The payments themselves, and what is remembered of them.
    masked = yield from _replace(
        schema,
        [(record, after) for record in ended if (after := mask_transaction(record)) != record],
    )
    yield from _mask_claims_of(masked)
    forget(_references_of(ended))

    # 3. What repeats their data. Of all that have ended, not only of the masked: a line may tell
    #    what the payment itself does not.
    for brand, some in _by_shard(schema, ended):
        where = _about_payments(schema, brand, some)
        yield from _mask_journal(schema, where)
        yield from _mask_callbacks(schema, where)

    yield from _mask_proposals(_references_of(ended))
    yield from _mask_reversals(_references_of(ended))

    came_to = position
    if found:
        last = found[-1]
        came_to = f"{last.order.created_at}/{last.reference}"

    return RetentionStep(
        len(masked), came_to, is_last=len(found) < limit, has_skipped=len(ended) < len(found)
    )


def parse_position(position: str) -> tuple[int, str]:
    """Return createdAt and gatewayReference of the last payment that a walk has looked at."""
    created_at, _, reference = position.partition("/")
    return int(created_at or 0), reference


def _with_open_intents(schema: SqlSchema, payments: Iterable[Transaction]) -> SqlQuery[Set[str]]:
    """Return which of these payments have a durable intent, such as a callback that is to be
    sent."""
    found: set[str] = set()
    for brand, some in _by_shard(schema, payments):
        about = _of_payments(schema, brand, _references_of(some))
        rows = yield from execute(f"SELECT gateway_reference FROM intents {about}", *about.values)
        found.update(reference for (reference,) in rows)
    return found


def _with_unfinished_reversals(references: Sequence[str]) -> SqlQuery[Set[str]]:
    """Return which of these payments have a reversal that has not ended, for which an operator may
    ask for a number."""
    where = Where().among("payment", references).and_("unfinished > 0")
    rows = yield from execute(f"SELECT payment FROM reversals {where}", *where.values)
    return frozenset(str(payment) for (payment,) in rows)


def _by_shard(
    schema: SqlSchema, transactions: Iterable[Transaction]
) -> Iterable[tuple[str, Sequence[Transaction]]]:
    """Yield the payments that one statement may name: those of a brand where they are distributed,
    and else all, with an empty text for the brand."""
    found: dict[str, list[Transaction]] = {}
    for transaction in transactions:
        brand = ""
        if schema.is_distributed:
            brand = transaction.order.brand

        found.setdefault(brand, []).append(transaction)

    return found.items()


def _of_payments(schema: SqlSchema, brand: str, references: Sequence[str]) -> Where:
    """Return the condition for rows of these payments, of this brand where they are distributed."""
    where = Where()
    if schema.is_distributed:
        where.and_("brand = ?", brand)
    return where.among("gateway_reference", references)


def _references_of(transactions: Iterable[Transaction]) -> list[str]:
    """Return the gatewayReferences of these payments."""
    return [transaction.reference for transaction in transactions]


def _about_payments(schema: SqlSchema, brand: str, payments: Sequence[Transaction]) -> Where:
    """Return the condition for rows about these payments in a table that is divided by time. Of its
    partitions those are left out that end before the oldest of the payments."""
    oldest = min(payment.order.created_at for payment in payments)
    return _of_payments(schema, brand, _references_of(payments)).and_(
        "at >= ?", oldest - EARLIEST_LINE_BEFORE
    )


def _replace(
    schema: SqlSchema, masked: Sequence[tuple[Transaction, Transaction]]
) -> SqlQuery[Sequence[Transaction]]:
    """Store the masked payments, but not those that have changed meanwhile; return those that were
    stored."""
    # The version is a key: a payment that has changed since it was read is left for the next walk.
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
                serialization.serialize_order(after.order),
                serialization.serialize_progress(after.progress),
                serialization.serialize_object(after),
            )
            for before, after in masked
        ],
    )
    stored = {reference for (reference,) in rows}
    return [after for _, after in masked if after.reference in stored]


def _mask_journal(schema: SqlSchema, where: Where) -> SqlQuery[None]:
    rows = yield from execute(
        f"SELECT brand, gateway_reference, id, at, detail FROM journal {where}", *where.values
    )
    masked = ((*key, detail, mask_members(detail)) for *key, detail in rows)
    yield from _JOURNAL.run(
        schema, [(*key, after) for *key, before, after in masked if after != before]
    )


def _mask_callbacks(schema: SqlSchema, where: Where) -> SqlQuery[None]:
    rows = yield from execute(
        f"SELECT brand, gateway_reference, id, at, url, detail FROM callbacks {where}",
        *where.values,
    )
    yield from _remove_bodies(
        schema, [(brand, reference, at) for brand, reference, _, at, *_ in rows]
    )
    masked = (
        (key, (url, detail), (mask_url(url), mask_text(detail))) for *key, url, detail in rows
    )
    yield from _CALLBACKS.run(
        schema, [(*key, *after) for key, before, after in masked if after != before]
    )


def _remove_bodies(
    schema: SqlSchema, callbacks: Iterable[tuple[str, str, Instant]]
) -> SqlQuery[None]:
    """Remove the bodies of these callbacks (brand, gateway_reference, at), if they are there still.
    The bounds of `at` are there for the planner: it looks into few partitions."""
    groups: dict[str, list[tuple[str, Instant]]] = {}
    for brand, reference, at in callbacks:
        brand_of_shard = ""
        if schema.is_distributed:
            brand_of_shard = brand

        groups.setdefault(brand_of_shard, []).append((reference, at))

    for brand, some in groups.items():
        where = _of_payments(schema, brand, [reference for reference, _ in some])
        times = [at for _, at in some]
        where.among("at", times).and_("at >= ?", min(times)).and_("at <= ?", max(times))
        yield from execute(f"DELETE FROM callback_bodies {where}", *where.values)


def _mask_proposals(references: Sequence[str]) -> SqlQuery[None]:
    about = (
        Where().among("gateway_reference", references).and_("state <> ?", ProposalState.OPEN.value)
    )
    rows = yield from execute(
        f"SELECT id, reason, evidence, remark FROM proposals {about}", *about.values
    )
    for id, *texts in rows:
        masked = [None if text is None else mask_text(text) for text in texts]
        if masked != texts:
            yield from execute(
                "UPDATE proposals SET reason = ?, evidence = ?, remark = ? WHERE id = ?",
                *masked,
                id,
            )


def _mask_reversals(references: Sequence[str]) -> SqlQuery[None]:
    """Mask what staff and operators wrote about reversals."""
    about = Where().among("payment", references)
    for payment, version, row in (
        yield from execute(
            f"SELECT payment, version, reversals FROM reversals {about}", *about.values
        )
    ):
        known = serialization.parse_reversals(row)
        masked = tuple(map(mask_reversal, known))
        if masked != known:
            next_version, *_, next_row = serialization.reversal_columns(masked)
            yield from execute(
                "UPDATE reversals SET version = ?, reversals = ? WHERE payment = ? AND version = ?",
                next_version,
                next_row,
                payment,
                version,
            )


def _mask_claims_of(payments: Iterable[Transaction]) -> SqlQuery[None]:
    """Mask the settled claims of the receipts of these payments."""
    for provider, receipts in _receipts_by_provider(payments).items():
        yield from _mask_settled_claims(provider, receipts)


def _receipts_by_provider(payments: Iterable[Transaction]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for payment in payments:
        if payment.progress.provider_reference is not None:
            found.setdefault(payment.order.provider, []).append(payment.progress.provider_reference)
    return found


def _mask_settled_claims(provider: str, receipts: Sequence[str]) -> SqlQuery[None]:
    where = Where().and_("provider = ?", provider).among("receipt", receipts)
    rows = yield from execute(f"SELECT claim FROM deposit_claims {where}", *where.values)
    for (row,) in rows:
        claim = serialization.parse_claim(row)

        # One that wakes is not settled: its number still says whose money it is.
        if claim.wake_at is None and (masked := mask_claim(claim)) is not claim:
            yield from execute(
                "UPDATE deposit_claims SET version = ?, claim = ? WHERE provider = ? AND receipt "
                "= ? AND version = ?",
                masked.version,
                serialization.serialize_claim(masked),
                provider,
                claim.receipt,
                claim.version,
            )


def mask_suspense(before: Instant, position: str, *, limit: int) -> SqlQuery[RetentionStep]:
    """Mask old entries that are closed, and the settled claims of the receipts that they name."""
    rows = yield from execute(
        f"SELECT {SUSPENSE_COLUMNS} FROM suspense WHERE id > ? ORDER BY id LIMIT ?",
        int(position or 0),
        limit,
    )
    changed = 0
    has_skipped = False
    for entry in map(parse_suspense_entry, rows):
        # An open one still needs its data; it is masked by a later walk.
        if entry.closed_at is None or entry.last_at >= before:
            has_skipped = True
            continue

        content = mask_members(entry.content)
        note = entry.note
        if note is not None:
            note = mask_text(note)

        if (content, note) == (entry.content, entry.note):
            continue

        changed += 1
        yield from execute(
            "UPDATE suspense SET told = ?, note = ? WHERE id = ?", content, note, entry.id
        )
        receipt = _receipt_in(entry.content)
        if receipt is not None:
            yield from _mask_settled_claims(entry.provider, [receipt])

    came_to = position
    if rows:
        came_to = str(rows[-1][0])

    return RetentionStep(changed, came_to, is_last=len(rows) < limit, has_skipped=has_skipped)


def _receipt_in(content: str) -> str | None:
    """Return the receipt that an entry of the suspense book names."""
    members: Any = json.loads(content)
    receipt = None
    if isinstance(members, dict):
        receipt = members.get("providerReference")
    if isinstance(receipt, str):
        return receipt
    return None
