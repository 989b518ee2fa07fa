"""What operators look for, in SQL: each question costs a bounded number of rows, whatever there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmo_sansio.http.exchange import Attempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.payments.stuck import may_be_under_way
from mmo_sansio.values.clock import LAST_INSTANT, Instant
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin import LOOK_MAX
from mmo_trio.storage.interface.admin_types import (
    BreakerChange,
    Count,
    Dimension,
    Found,
    Place,
    SuspenseEntry,
    Tally,
    Wanted,
)
from mmo_trio.storage.sql.lists import SUSPENSE, entry_of
from mmo_trio.storage.sql.serialization import transaction_of
from mmo_trio.storage.sql.statements import Conversation, Row, ask

_TRANSACTION = "t.order_row, t.progress"
_NEWEST_FIRST = "ORDER BY t.created_at DESC, t.gateway_reference DESC LIMIT ?"
_BEYOND = "(t.created_at, t.gateway_reference) < (?, ?)"

END = Place(LAST_INSTANT, "~")
"""Beyond the newest payment: every reference is in upper case."""


def search(text: str, msisdn: str | None, before: Place | None, limit: int) -> Conversation[Found]:
    """Each way to be named has an index of its own, in the order in which payments are told."""
    at = before or END
    beyond = (at.created_at, at.gateway_reference)
    named = [
        ("t.gateway_reference = ?", text.upper()),
        ("t.reconciliation_reference = ?", text),
        ("t.provider_receipt = ?", text),
    ]
    if msisdn is not None:
        named.append(("t.msisdn = ?", msisdn))
    rows = [
        *(
            yield from ask(
                f"SELECT {_TRANSACTION} FROM reference_uses AS used JOIN transactions AS t"
                " ON t.gateway_reference = used.gateway_reference AND t.brand = used.brand"
                f" WHERE used.merchant_reference = ? AND {_BEYOND} {_NEWEST_FIRST}",
                text,
                *beyond,
                limit + 1,
            )
        )
    ]
    for condition, value in named:
        rows += yield from ask(
            f"SELECT {_TRANSACTION} FROM transactions AS t"
            f" WHERE {condition} AND {_BEYOND} {_NEWEST_FIRST}",
            value,
            *beyond,
            limit + 1,
        )
    return newest(map(_transaction_of, rows), limit)


def newest(transactions: Any, limit: int) -> Found:
    """The newest so many of these, each once."""
    different = {each.reference: each for each in transactions}
    ordered = sorted(
        different.values(), key=lambda each: (each.order.created_at, each.reference), reverse=True
    )
    page = ordered[:limit]
    return Found(page, place_of(page[-1]) if len(ordered) > limit else None)


def place_of(transaction: Transaction) -> Place:
    """Where it stands."""
    return Place(transaction.order.created_at, transaction.reference)


def list_payments(wanted: Wanted) -> Conversation[Found]:
    """Goes along an index in the order of creation, LOOK_MAX rows at most, and picks what fits."""
    at = wanted.before or END
    conditions, values = [_BEYOND], list[Any]([at.created_at, at.gateway_reference])
    if wanted.brand is not None:
        conditions.insert(0, "t.brand = ?")
        values.insert(0, wanted.brand)
    filters = {"method": wanted.method, "status": wanted.status and wanted.status.value}
    fits = [(column, value) for column, value in filters.items() if value is not None]
    looked_at = (
        "SELECT t.gateway_reference, t.created_at, t.method, t.status, t.order_row, t.progress"
        f" FROM transactions AS t WHERE {' AND '.join(conditions)} {_NEWEST_FIRST}"
    )
    among = f"({looked_at}) AS t"
    picked = " AND ".join(["1 = 1", *(f"t.{column} = ?" for column, _ in fits)])
    rows = yield from ask(
        f"SELECT {_TRANSACTION} FROM {among} WHERE {picked} {_NEWEST_FIRST}",
        *values,
        LOOK_MAX if fits else wanted.limit + 1,
        *(value for _, value in fits),
        wanted.limit + 1,
    )
    found = newest(map(_transaction_of, rows), wanted.limit)
    if found.further is not None or not fits:
        return found
    last = yield from ask(
        f"SELECT t.created_at, t.gateway_reference FROM transactions AS t"
        f" WHERE {' AND '.join(conditions)} {_NEWEST_FIRST} OFFSET ?",
        *values,
        1,
        LOOK_MAX - 1,
    )
    return Found(found.transactions, Place(*last[0]) if last else None)


def unknown_since(
    before: Instant, after: Place | None, limit: int
) -> Conversation[Sequence[Transaction]]:
    """Pending ones in the order of creation: those that wait for something else than a result are few."""
    found: list[Transaction] = []
    at = after or Place(0, "")
    while len(found) < limit:
        rows = yield from ask(
            f"SELECT {_TRANSACTION} FROM transactions AS t WHERE t.wake_at IS NOT NULL"
            " AND t.created_at < ? AND (t.created_at, t.gateway_reference) > (?, ?)"
            " ORDER BY t.created_at, t.gateway_reference LIMIT ?",
            before,
            at.created_at,
            at.gateway_reference,
            limit,
        )
        looked_at = [_transaction_of(row) for row in rows]
        found += [each for each in looked_at if may_be_under_way(each, before)]
        if len(rows) < limit:
            break
        at = place_of(looked_at[-1])
    return found[:limit]


def failed_callbacks(
    brand: str | None, before: int | None, limit: int
) -> Conversation[Sequence[tuple[int, CallbackRecorded]]]:
    """Along an index of failures only."""
    conditions, values = [f"outcome <> '{DeliveryOutcome.DELIVERED}'"], list[Any]()
    if brand is not None:
        conditions.append("brand = ?")
        values.append(brand)
    if before is not None:
        conditions.append("id < ?")
        values.append(before)
    rows = yield from ask(
        "SELECT id, gateway_reference, brand, at, outcome, url, status, duration_ms, detail"
        f" FROM callbacks WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?",
        *values,
        limit,
    )
    return [
        (
            row[0],
            CallbackRecorded(row[1], row[2], Attempt(DeliveryOutcome(row[4]), *row[5:]), row[3]),
        )
        for row in rows
    ]


def suspense_about(gateway_reference: str) -> Conversation[Sequence[SuspenseEntry]]:
    """Closed ones, too."""
    rows = yield from ask(f"{SUSPENSE} WHERE gateway_reference = ? ORDER BY id", gateway_reference)
    return [entry_of(row) for row in rows]


def suspense_entries(
    with_closed: bool, before: int | None, limit: int
) -> Conversation[Sequence[SuspenseEntry]]:
    """The newest first."""
    conditions, values = ["1 = 1"], list[Any]()
    if not with_closed:
        conditions.append("closed_at IS NULL")
    if before is not None:
        conditions.append("id < ?")
        values.append(before)
    rows = yield from ask(
        f"{SUSPENSE} WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?", *values, limit
    )
    return [entry_of(row) for row in rows]


def tally(wanted: Tally, by: Dimension | None) -> Conversation[Sequence[Count]]:
    """Sums over few rows: an hour of one method is one row for each class of latency."""
    key = "began_at" if by is None else by.value
    conditions = ["span = ?", "began_at >= ?", "began_at < ?"]
    values: list[Any] = [wanted.span, wanted.begin, wanted.end]
    if wanted.only is not None:
        dimension, value = wanted.only
        conditions.append(f"{dimension.value} = ?")
        values.append(value)
    rows = yield from ask(
        f"SELECT {key}, status, latency_s, CAST(sum(times) AS bigint) FROM figures"
        f" WHERE {' AND '.join(conditions)} GROUP BY {key}, status, latency_s",
        *values,
    )
    return [Count(str(row[0]), Status(row[1]), row[2], row[3]) for row in rows]


def breaker_changes(brand: str | None, limit: int) -> Conversation[Sequence[BreakerChange]]:
    """The newest first."""
    where, values = ("WHERE brand = ?", [brand]) if brand is not None else ("", [])
    rows = yield from ask(
        f"SELECT brand, at, state FROM breaker_changes {where} ORDER BY at DESC, brand LIMIT ?",
        *values,
        limit,
    )
    return [BreakerChange(*row) for row in rows]


def _transaction_of(row: Row) -> Transaction:
    return transaction_of(row[0], row[1])
