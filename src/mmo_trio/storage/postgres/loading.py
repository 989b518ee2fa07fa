"""The working set of one batch, in one round trip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen
from psycopg import AsyncCursor

from mmo_sansio.intents import IntentKey, IntentKind, kept
from mmo_sansio.ledger import Ledger, Reads, ReferenceKey, ReferenceUse
from mmo_trio.storage.postgres.bridge import Connection
from mmo_trio.storage.postgres.text import held, is_holdable
from mmo_trio.storage.rows import transaction_of

_TRANSACTIONS = """
    SELECT order_row, progress
    FROM unnest(%s::text[]) AS wanted JOIN transactions ON gateway_reference = wanted
"""
_DEPOSITED = """
    SELECT provider, provider_reference, gateway_reference, order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, provider_reference)
    JOIN deposits USING (provider, provider_reference)
    JOIN transactions USING (brand, gateway_reference)
"""
_REFERENCES = """
    SELECT brand, merchant_reference, newest.*
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, merchant_reference)
    CROSS JOIN LATERAL (
        SELECT gateway_reference, at, nth FROM reference_uses AS used
        WHERE used.brand = wanted.brand AND used.merchant_reference = wanted.merchant_reference
        ORDER BY nth DESC LIMIT 1
    ) AS newest
"""
_INTENTS = """
    SELECT gateway_reference, kind, fence
    FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)
    JOIN intents USING (gateway_reference, kind)
"""
_HORIZON = "SELECT at FROM horizon"


@frozen
class Loaded:
    """A working set, and what a commit must find unchanged besides the versions of transactions."""

    ledger: Ledger
    uses: dict[ReferenceKey, int]
    """How often each merchantReference was used."""
    open_intents: dict[IntentKey, int]
    """Under which fence each was claimed last."""


async def load(connection: Connection, reads: Reads) -> Loaded:
    """The working set for these reads. A known deposit brings its transaction along."""
    references = [key for key in reads.references if is_holdable(key[1])]
    deposits = {
        (provider, held(reference)): (provider, reference) for provider, reference in reads.deposits
    }
    transactions = [each for each in reads.transactions if is_holdable(each)]
    intents = [(reference, kind) for reference, kind in reads.intents if is_holdable(reference)]
    async with connection.pipeline():
        horizon = await _ask(connection, _HORIZON)
        used = await _ask_pairs(connection, _REFERENCES, references)
        deposited = await _ask_pairs(connection, _DEPOSITED, deposits)
        scheduled = await _ask_pairs(connection, _INTENTS, intents)
        found = await _ask(connection, _TRANSACTIONS, transactions) if transactions else None
    ledger, uses = Ledger(), dict[ReferenceKey, int]()
    ((ledger.not_before,),) = await horizon.fetchall()
    for brand, merchant_reference, gateway_reference, at, nth in await _rows(used):
        ledger.references[brand, merchant_reference] = ReferenceUse(gateway_reference, at)
        uses[brand, merchant_reference] = nth
    fences = dict[IntentKey, int]()
    for gateway_reference, kind, fence in await _rows(scheduled):
        key = (gateway_reference, IntentKind(kind))
        ledger.intents[key] = kept(key[1], gateway_reference, fence)
        fences[key] = fence
    for order, progress in await _rows(found):
        transaction = transaction_of(order, progress)
        ledger.transactions[transaction.reference] = transaction
    for provider, reference, gateway_reference, order, progress in await _rows(deposited):
        ledger.deposits[deposits[provider, reference]] = gateway_reference
        ledger.transactions[gateway_reference] = transaction_of(order, progress)
    ledger.covers = evolve(reads, transactions=reads.transactions.union(ledger.deposits.values()))
    return Loaded(ledger, uses, fences)


async def _ask(connection: Connection, statement: str, *values: object) -> AsyncCursor[Any]:
    return await connection.execute(statement.encode(), values or None, binary=True)


async def _ask_pairs(
    connection: Connection, statement: str, pairs: Iterable[tuple[str, str]]
) -> AsyncCursor[Any] | None:
    """All keys travel in two arrays, so that a statement is prepared once, whatever their number."""
    columns = list(zip(*pairs, strict=True))
    return await _ask(connection, statement, *map(list, columns)) if columns else None


async def _rows(cursor: AsyncCursor[Any] | None) -> list[Any]:
    return await cursor.fetchall() if cursor else []
