"""Questions to the SQLite file: each function is one read transaction on a connection of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.messages.intents import IntentKey, IntentKind, durable_intent
from mmo_sansio.messages.queries import AnyLookUp, ListRecords, LookUp, Records
from mmo_sansio.payments.stuck import has_unknown_outcome
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Transaction
from mmo_trio.storage.interface.store import (
    Backlog,
    BrandRecord,
    ClosedProvider,
    StoredApiKey,
    WorkItem,
)
from mmo_trio.storage.sql.records_page import (
    build_page,
    opposite_row_statement,
    page_with_lookahead_statement,
)
from mmo_trio.storage.sql.serialization import parse_brand, parse_breaker, parse_transaction

_SELECT_TRANSACTIONS = "SELECT order_row, progress FROM transactions"


def latest_stamp(connection: sqlite3.Connection) -> Instant:
    """The latest instant that is stored anywhere."""
    (at,) = connection.execute("SELECT at FROM latest_stamp").fetchone()
    return Instant(int(at))


def next_wake(connection: sqlite3.Connection) -> Instant | None:
    """The earliest `wake_at`."""
    row = connection.execute(
        "SELECT min(wake_at) FROM transactions WHERE wake_at IS NOT NULL"
    ).fetchone()
    return None if row[0] is None else Instant(int(row[0]))


def due(connection: sqlite3.Connection, now: Instant, limit: int) -> Sequence[str]:
    """What is due, the earliest first."""
    rows = connection.execute(
        "SELECT gateway_reference FROM transactions WHERE wake_at <= ?"
        " ORDER BY wake_at, id LIMIT ?",
        (now, limit),
    )
    return [reference for (reference,) in rows]


_SELECT_WORK = """
    SELECT intents.id, intents.gateway_reference, kind, order_row, progress
    FROM intents JOIN transactions USING (gateway_reference)
"""


def unclaimed_intents(
    connection: sqlite3.Connection, after_id: int, limit: int
) -> Sequence[tuple[int, WorkItem]]:
    """Kept intents above the mark that nobody holds, oldest first, each with its id."""
    rows = connection.execute(
        f"{_SELECT_WORK} WHERE is_held = 0 AND intents.id > ? ORDER BY intents.id LIMIT ?",
        (after_id, limit),
    )
    return [(row[0], _parse_work_item(row)) for row in rows]


def open_intents(connection: sqlite3.Connection, keys: Sequence[IntentKey]) -> Sequence[WorkItem]:
    """Those of these kept intents that are open."""
    found: list[WorkItem] = []
    for reference, kind in keys:
        rows = connection.execute(
            f"{_SELECT_WORK} WHERE intents.gateway_reference = ? AND kind = ?",
            (reference, kind.value),
        )
        found.extend(map(_parse_work_item, rows))
    return found


def _parse_work_item(row: tuple[Any, ...]) -> WorkItem:
    _, reference, kind, order, progress = row
    return WorkItem(durable_intent(IntentKind(kind), reference), parse_transaction(order, progress))


def breakers(connection: sqlite3.Connection) -> Mapping[str, BreakerSnapshot]:
    """Every merchant's breaker."""
    return {
        brand: parse_breaker(row)
        for brand, row in connection.execute("SELECT brand, breaker FROM breakers")
    }


def look_up(connection: sqlite3.Connection, queries: Sequence[AnyLookUp]) -> Sequence[bytes | None]:
    """For each of these the transaction object of the brand's transaction, still with its checksum."""
    found = (connection.execute(*_look_up_statement(each)).fetchone() for each in queries)
    return [row and row[0] for row in found]


def _look_up_statement(query: AnyLookUp) -> tuple[str, tuple[str, str]]:
    if isinstance(query, LookUp):
        return (
            "SELECT object FROM transactions WHERE gateway_reference = ? AND brand = ?",
            (query.gateway_reference, query.brand),
        )
    return (
        "SELECT object FROM reference_uses AS used JOIN transactions USING (gateway_reference)"
        " WHERE used.merchant_reference = ? AND used.brand = ? ORDER BY used.at DESC LIMIT 1",
        (query.merchant_reference, query.brand),
    )


def list_records(connection: sqlite3.Connection, query: ListRecords) -> Records:
    """A page of transaction objects."""
    rows = connection.execute(*page_with_lookahead_statement(query, "?")).fetchall()
    opposite = (
        bool(rows) and connection.execute(*opposite_row_statement(query, rows, "?")).fetchone()
    )
    return build_page(query, rows, has_more_opposite=bool(opposite))


def transaction(connection: sqlite3.Connection, gateway_reference: str) -> Transaction | None:
    """One transaction, whosever it is."""
    return _find_one(connection, "gateway_reference = ?", gateway_reference)


def transaction_by_page_token(connection: sqlite3.Connection, token: str) -> Transaction | None:
    """The transaction that this hosted page is for."""
    return _find_one(connection, "page_token = ?", token)


def _find_one(connection: sqlite3.Connection, condition: str, value: str) -> Transaction | None:
    row = connection.execute(f"{_SELECT_TRANSACTIONS} WHERE {condition}", (value,)).fetchone()
    return None if row is None else parse_transaction(*row)


def transaction_by_suffix(connection: sqlite3.Connection, suffix: str) -> Transaction | None:
    """The only transaction whose reference ends so."""
    rows = connection.execute(
        f"{_SELECT_TRANSACTIONS} WHERE substr(gateway_reference, -12) = ? LIMIT 2", (suffix,)
    ).fetchall()
    return parse_transaction(*rows[0]) if len(rows) == 1 else None


def unknown_outcomes(
    connection: sqlite3.Connection, submitted_before: Instant, limit: int
) -> Sequence[Transaction]:
    """Pending transactions whose submission began before this time, the oldest first."""
    rows = connection.execute(
        f"{_SELECT_TRANSACTIONS} WHERE wake_at IS NOT NULL AND created_at < ? ORDER BY id",
        (submitted_before,),
    )
    every = (parse_transaction(*row) for row in rows)
    return list(
        islice((each for each in every if has_unknown_outcome(each, submitted_before)), limit)
    )


def backlog(
    connection: sqlite3.Connection, stuck_before: Instant, overdue_before: Instant
) -> Backlog:
    """What is waiting."""
    row = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE created_at < ?),"
        " count(*) FILTER (WHERE wake_at < ?),"
        " (SELECT count(*) FROM intents WHERE kind = 'callback'),"
        " (SELECT count(*) FROM suspense WHERE closed_at IS NULL)"
        " FROM transactions WHERE wake_at IS NOT NULL",
        (stuck_before, overdue_before),
    ).fetchone()
    return Backlog(*row)


def closed_providers(connection: sqlite3.Connection) -> Sequence[ClosedProvider]:
    """Those that are closed for new payments."""
    rows = connection.execute(
        "SELECT name, closed_at, closed_by, reason FROM closed_providers ORDER BY name"
    )
    return [ClosedProvider(*row) for row in rows]


def timeline(connection: sqlite3.Connection, gateway_reference: str) -> Sequence[JournalEntry]:
    """The journal of one transaction."""
    rows = connection.execute(
        "SELECT at, what, actor, gateway_reference, brand, stage_before, stage_after, detail"
        " FROM journal WHERE gateway_reference = ? ORDER BY id",
        (gateway_reference,),
    )
    return [JournalEntry(*row) for row in rows]


_SELECT_KEYS = "SELECT id, brand, digest, sealed, added_at, retired_at FROM api_keys"


def brands(connection: sqlite3.Connection) -> Sequence[BrandRecord]:
    """Every brand with its keys."""
    keys: dict[str, list[StoredApiKey]] = {}
    for row in connection.execute(f"{_SELECT_KEYS} ORDER BY id"):
        keys.setdefault(row[1], []).append(StoredApiKey(*row))
    return [
        BrandRecord(parse_brand(row), tuple(keys.get(id, ())))
        for id, row in connection.execute("SELECT id, brand FROM brands ORDER BY id")
    ]


def brand_by_key(connection: sqlite3.Connection, digest: bytes) -> Brand | None:
    """The brand whose key in use has this digest."""
    row = connection.execute(
        "SELECT brands.brand FROM api_keys JOIN brands ON brands.id = api_keys.brand"
        " WHERE digest = ? AND retired_at IS NULL",
        (digest,),
    ).fetchone()
    return None if row is None else parse_brand(row[0])


def keys_of(connection: sqlite3.Connection, brand: str) -> Sequence[StoredApiKey]:
    """The keys of a brand, the oldest first."""
    rows = connection.execute(f"{_SELECT_KEYS} WHERE brand = ? ORDER BY id", (brand,))
    return [StoredApiKey(*row) for row in rows]
