"""The working set of one batch, in one round trip."""

from __future__ import annotations

from attrs import evolve, frozen

from mmo_sansio.messages.intents import IntentKey, IntentKind, kept
from mmo_sansio.payments.ledger import Ledger, Reads, ReferenceKey, ReferenceUse
from mmo_trio.storage.postgres.bridge import Connection
from mmo_trio.storage.postgres.pipeline import Statement, exchange
from mmo_trio.storage.postgres.text_encoding import held, is_holdable
from mmo_trio.storage.sql.serialization import transaction_of

_TRANSACTIONS = Statement("""
    SELECT order_row, progress
    FROM unnest(%s::text[]) AS wanted JOIN transactions ON gateway_reference = wanted
""")
_DEPOSITED = Statement("""
    SELECT provider, provider_reference, gateway_reference, order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, provider_reference)
    JOIN deposits USING (provider, provider_reference)
    JOIN transactions USING (brand, gateway_reference)
""")
_REFERENCES = Statement("""
    SELECT brand, merchant_reference, newest.*
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, merchant_reference)
    CROSS JOIN LATERAL (
        SELECT gateway_reference, at, nth FROM reference_uses AS used
        WHERE used.brand = wanted.brand AND used.merchant_reference = wanted.merchant_reference
        ORDER BY nth DESC LIMIT 1
    ) AS newest
""")
_INTENTS = Statement("""
    SELECT gateway_reference, kind, fence
    FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)
    JOIN intents USING (gateway_reference, kind)
""")
_HORIZON = Statement("SELECT at FROM horizon")


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
    asked = [_HORIZON.of()]
    asked += [
        statement.of_rows(keys)
        for statement, keys in (
            (_REFERENCES, references),
            (_DEPOSITED, deposits),
            (_INTENTS, intents),
            (_TRANSACTIONS, [(each,) for each in transactions]),
        )
        if keys
    ]
    answers = dict(
        zip((each.statement for each in asked), await exchange(connection, asked), strict=True)
    )
    ledger, uses = Ledger(), dict[ReferenceKey, int]()
    ((ledger.not_before,),) = answers[_HORIZON]
    for brand, merchant_reference, gateway_reference, at, nth in answers.get(_REFERENCES, ()):
        ledger.references[brand, merchant_reference] = ReferenceUse(gateway_reference, at)
        uses[brand, merchant_reference] = nth
    fences = dict[IntentKey, int]()
    for gateway_reference, kind, fence in answers.get(_INTENTS, ()):
        key = (gateway_reference, IntentKind(kind))
        ledger.intents[key] = kept(key[1], gateway_reference, fence)
        fences[key] = fence
    for order, progress in answers.get(_TRANSACTIONS, ()):
        transaction = transaction_of(order, progress)
        ledger.transactions[transaction.reference] = transaction
    for provider, reference, gateway_reference, order, progress in answers.get(_DEPOSITED, ()):
        ledger.deposits[deposits[provider, reference]] = gateway_reference
        ledger.transactions[gateway_reference] = transaction_of(order, progress)
    ledger.covers = evolve(reads, transactions=reads.transactions.union(ledger.deposits.values()))
    return Loaded(ledger, uses, fences)
