"""The columns in which SQL stores repeat parts of a transaction, so that it can be searched, and their check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.shared.net_effect import NetEffect
from mmo_trio.storage.shared.payment_index import msisdn_key, reconciliation_reference_key
from mmo_trio.storage.sql.object_rows import parse_object, serialize_object
from mmo_trio.storage.sql.serialization import parse_transaction, serialize_order, serialize_progress

CHECKED_COLUMNS = (
    "gateway_reference, brand, type, method, status, created_at, version, page_token, order_row, progress, object"
)
"""The columns that `transaction_row_error` checks, in its order."""

UPSERT_USAGE = """
    INSERT INTO brand_usage (brand, counter, day, amount) {source}
    ON CONFLICT (brand, counter) DO UPDATE SET
        amount = CASE WHEN excluded.day > brand_usage.day THEN excluded.amount
            WHEN excluded.day < brand_usage.day THEN brand_usage.amount
            WHEN excluded.amount + brand_usage.amount > 0 THEN excluded.amount + brand_usage.amount ELSE 0 END,
        day = CASE WHEN excluded.day > brand_usage.day THEN excluded.day ELSE brand_usage.day END
"""
"""Adds to counters of brands: a later day begins at 0, and an earlier one counts no more."""


def usage_rows(effect: NetEffect) -> list[tuple[str, str, int, int]]:
    """Return brand, counter, day and amount of what a batch adds to counters, in the order of their keys."""
    return [(*key, each.share.day, each.share.amount) for key, each in sorted(effect.usage.items())]


def callback_body_rows(effect: NetEffect) -> list[tuple[str, str, int, bytes]]:
    """Return brand, gateway_reference, at and body of the responses to callbacks that had a body."""
    return [
        (each.brand, each.gateway_reference, each.at, each.attempt.body)
        for each in effect.callbacks
        if each.attempt.body
    ]


def journal_columns(line: JournalEntry) -> tuple[object, ...]:
    """Return at, what, actor, gateway_reference, brand, stage_before, stage_after and detail."""
    return (
        line.at,
        line.input_name,
        line.actor,
        line.gateway_reference,
        line.brand,
        line.stage_before,
        line.stage_after,
        line.detail,
    )


def order_columns(transaction: Transaction) -> tuple[object, ...]:
    """Return gateway_reference, brand, type, method, created_at, page_token, msisdn, reconciliation_reference and
    order_row, which never change."""
    order = transaction.order
    return (
        order.gateway_reference,
        order.brand,
        order.type.value,
        order.method,
        order.created_at,
        order.page.token if order.page else None,
        msisdn_key(order),
        reconciliation_reference_key(order),
        serialize_order(order),
    )


def progress_columns(transaction: Transaction) -> tuple[object, ...]:
    """Return status, version, progress and object, which each step writes."""
    progress = transaction.progress
    return (progress.stage.status.value, progress.version, serialize_progress(progress), serialize_object(transaction))


def transaction_row_error(row: Sequence[Any]) -> str | None:
    """Return what is wrong with a stored transaction, a row of CHECKED_COLUMNS; None if nothing is."""
    try:
        transaction = parse_transaction(row[8], row[9])
        order, progress = transaction.order, transaction.progress
        columns = (
            order.gateway_reference,
            order.brand,
            order.type,
            order.method,
            transaction.status,
            order.created_at,
            progress.version,
            order.page.token if order.page else None,
        )
        rendered = not row[10] and not progress.stage.is_terminal
        if tuple(row[:8]) == columns and (rendered or parse_object(row[10]) == transaction_object(transaction)):
            return None
        return f"transaction {row[0]}: its columns or its object differ from it"
    except (StoreCorrupt, ValueError, TypeError, LookupError) as error:
        return f"transaction {row[0]}: {error.damage if isinstance(error, StoreCorrupt) else error}"
