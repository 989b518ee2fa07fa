"""The search for damage, in SQL: rows that differ from what was written, and invariants between
rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mmo_sansio.api.outgoing import transaction_object
from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.serialization import (
    parse_brand,
    parse_breaker,
    parse_claim,
    parse_object,
    parse_reversals,
    parse_transaction,
)
from mmo_trio.storage.sql.statements import SqlQuery, execute

_PAGE_SIZE = 1_000

# The columns that `_transaction_error` checks, in its order.
_CHECKED_COLUMNS = (
    "gateway_reference, brand, type, method, status, created_at, version, page_token, order_row, "
    "progress, object"
)


def integrity_errors(schema: SqlSchema) -> SqlQuery[Sequence[str]]:
    """Return a sentence for each error; reads everything, and needs one snapshot."""
    # 1. Each payment, in pages in the order of its key: what is read fits into memory.
    found: list[str] = []
    key = ", ".join(schema.transaction_key)
    marks = ", ".join("?" for _ in schema.transaction_key)
    at = ["" for _ in schema.transaction_key]
    while page := (
        yield from execute(
            f"SELECT {key}, {_CHECKED_COLUMNS} FROM transactions WHERE ({key}) > ({marks}) ORDER "
            f"BY {key} LIMIT ?",
            *at,
            _PAGE_SIZE,
        )
    ):
        rows = (row[len(at) :] for row in page)
        found += [error for row in rows if (error := _transaction_error(row)) is not None]
        at = list(page[-1][: len(at)])

    # 2. All else that is written with a checksum of its own.
    breakers = (
        f"SELECT 'breaker of brand ' || brand, breaker FROM {schema.breaker_table} WHERE breaker "
        f"IS NOT NULL"
    )
    readers: Sequence[tuple[str, Callable[[Any], object]]] = (
        ("SELECT 'brand ' || id, brand FROM brands", parse_brand),
        (breakers, parse_breaker),
        (
            "SELECT 'claim ' || receipt || ' of provider ' || provider, claim FROM deposit_claims",
            parse_claim,
        ),
        ("SELECT 'reversals of payment ' || payment, reversals FROM reversals", parse_reversals),
    )
    for rows_with_names, parse in readers:
        for name, row in (yield from execute(rows_with_names)):
            try:
                parse(row)
            except StoreCorrupt as error:
                found.append(f"{name}: {error.damage}")

    # 3. What rows say of each other.
    for description, rows_from in _violations(schema).items():
        [(count,)] = yield from execute(f"SELECT count(*) FROM {rows_from}")
        if count:
            found.append(f"{description}: {count}")

    return found


def _transaction_error(row: Sequence[Any]) -> str | None:
    """Return what is wrong with a stored transaction, a row of _CHECKED_COLUMNS; None if nothing
    is."""
    try:
        # 1. The two texts by their checksums; what they say must stand in the columns, too.
        transaction = parse_transaction(row[8], row[9])
        order = transaction.order
        progress = transaction.progress
        page_token = None
        if order.page is not None:
            page_token = order.page.token

        columns = (
            order.gateway_reference,
            order.brand,
            order.type,
            order.method,
            transaction.status,
            order.created_at,
            progress.version,
            page_token,
        )

        # 2. That of a pending payment is not stored, as each step would write it again.
        is_rendered = not row[10] and not progress.stage.is_terminal
        if tuple(row[:8]) == columns and (
            is_rendered or parse_object(row[10]) == transaction_object(transaction)
        ):
            return None

        return f"transaction {row[0]}: its columns or its object differ from it"
    except StoreCorrupt as error:
        return f"transaction {row[0]}: {error.damage}"
    except (ValueError, TypeError, LookupError) as error:
        return f"transaction {row[0]}: {error}"


def _violations(schema: SqlSchema) -> Mapping[str, str]:
    """Return what follows FROM in a query for the rows that break an invariant, by its
    description."""
    # `one` is the row that names a payment, `t` that payment.
    same = " AND ".join(f"t.{column} = one.{column}" for column in schema.transaction_key)
    missing = f"WHERE NOT EXISTS (SELECT 1 FROM transactions AS t WHERE {same})"
    return {
        "durable intents without their transaction": f"intents AS one {missing}",
        "merchantReferences without their transaction": f"reference_uses AS one {missing} AND "
        f"NOT is_lost",
        "deposits without their transaction": (
            f"deposits AS one LEFT JOIN transactions AS t ON {same} WHERE "
            f"t.gateway_reference IS NULL"
        ),
        "receipts without their transaction": f"receipts AS one {missing}",
        "transactions without a line in the journal": (
            "transactions AS t WHERE NOT EXISTS"
            " (SELECT 1 FROM journal AS j WHERE j.brand = t.brand AND j.gateway_reference = "
            "t.gateway_reference)"
        ),
        **schema.invariant_violations,
    }
