"""Loads the working set of one batch, in one round trip."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import evolve, frozen

from mmo_sansio.messages.intents import IntentKey, IntentKind, durable_intent
from mmo_sansio.payments.ledger import Ledger, Reads, ReferenceKey, ReferenceUse, UsageCount
from mmo_sansio.values.model import Status
from mmo_trio.storage.postgres.bridge import PostgresConnection
from mmo_trio.storage.postgres.pipeline import PreparedStatement, Row, execute_pipeline
from mmo_trio.storage.postgres.text_encoding import escape_text, is_storable
from mmo_trio.storage.sql.columns import UNSUMMED_USES_MAX
from mmo_trio.storage.sql.serialization import parse_claim, parse_transaction

_SELECT_TRANSACTIONS = PreparedStatement("""
    SELECT order_row, progress
    FROM unnest(%s::text[]) AS wanted JOIN transactions ON gateway_reference = wanted
""")
_SELECT_DEPOSITS = PreparedStatement("""
    SELECT provider, provider_reference, gateway_reference, order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, provider_reference)
    JOIN deposits USING (provider, provider_reference)
    JOIN transactions USING (brand, gateway_reference)
""")
_SELECT_REFERENCE_USES = PreparedStatement(f"""
    SELECT wanted.brand, wanted.merchant_reference, newest.gateway_reference, at, nth, coalesce(earlier, (
        SELECT CASE WHEN bool_or(status = 'pending') THEN 'pending'
            WHEN bool_or(status = 'success') OR count(*) = {UNSUMMED_USES_MAX} THEN 'success' ELSE 'failed' END
        FROM (SELECT status FROM reference_uses AS older JOIN transactions USING (brand, gateway_reference)
            WHERE older.brand = wanted.brand AND older.merchant_reference = wanted.merchant_reference
                AND older.nth < newest.nth ORDER BY older.nth DESC LIMIT {UNSUMMED_USES_MAX}) AS before)),
        order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, merchant_reference)
    CROSS JOIN LATERAL (
        SELECT gateway_reference, at, nth, earlier FROM reference_uses AS used
        WHERE used.brand = wanted.brand AND used.merchant_reference = wanted.merchant_reference
        ORDER BY nth DESC LIMIT 1
    ) AS newest
    LEFT JOIN transactions AS t ON t.brand = wanted.brand AND t.gateway_reference = newest.gateway_reference
""")
_SELECT_CLAIMS = PreparedStatement("""
    SELECT claim
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, receipt)
    JOIN deposit_claims USING (provider, receipt)
""")
_SELECT_INTENTS = PreparedStatement("""
    SELECT gateway_reference, kind, fence
    FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)
    JOIN intents USING (gateway_reference, kind)
""")
_SELECT_USAGE = PreparedStatement("""
    SELECT brand, counter, day, amount
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, counter) JOIN brand_usage USING (brand, counter)
""")
_SELECT_HORIZON = PreparedStatement("""
    SELECT at, (SELECT string_agg(brand, ' ') FROM brand_holds) FROM horizon
""")


@frozen
class LoadedBatch:
    """A working set, and what a commit must find unchanged, besides the versions of transactions."""

    ledger: Ledger
    reference_use_counts: dict[ReferenceKey, int]
    """How often each merchantReference was used."""
    intent_fences: dict[IntentKey, int]
    """The fence of each one's last claim."""


async def load_batch(connection: PostgresConnection, reads: Reads) -> LoadedBatch:
    """Return the working set for these reads, with the transactions of known deposits and of the newest uses of
    references."""
    deposits = {(provider, escape_text(reference)): (provider, reference) for provider, reference in reads.deposits}
    results = await _fetch(connection, reads, deposits)
    ledger, uses = Ledger(), dict[ReferenceKey, int]()
    ((ledger.not_before, held_brands),) = results[_SELECT_HORIZON]
    ledger.held_brands = frozenset((held_brands or "").split())
    for row in results.get(_SELECT_REFERENCE_USES, ()):
        brand, merchant_reference, gateway_reference, at, nth, earlier, order, progress = row
        ledger.references[brand, merchant_reference] = ReferenceUse(gateway_reference, at, Status(earlier))
        if order is not None:
            ledger.transactions[gateway_reference] = parse_transaction(order, progress)
        uses[brand, merchant_reference] = nth
    for brand, counter, day, amount in results.get(_SELECT_USAGE, ()):
        ledger.usage[brand, counter] = UsageCount(day, amount)
    fences = dict[IntentKey, int]()
    for gateway_reference, kind, fence in results.get(_SELECT_INTENTS, ()):
        key = (gateway_reference, IntentKind(kind))
        ledger.intents[key] = durable_intent(key[1], gateway_reference, fence)
        fences[key] = fence
    for order, progress in results.get(_SELECT_TRANSACTIONS, ()):
        transaction = parse_transaction(order, progress)
        ledger.transactions[transaction.reference] = transaction
    for provider, reference, gateway_reference, order, progress in results.get(_SELECT_DEPOSITS, ()):
        ledger.deposits[deposits[provider, reference]] = gateway_reference
        ledger.transactions[gateway_reference] = parse_transaction(order, progress)
    for (row,) in results.get(_SELECT_CLAIMS, ()):
        claim = parse_claim(row)
        ledger.claims[claim.provider, claim.receipt] = claim
    loaded = (ledger.deposits.values(), (each.gateway_reference for each in ledger.references.values()))
    ledger.prefetched = evolve(reads, transactions=reads.transactions.union(*loaded))
    return LoadedBatch(ledger, uses, fences)


async def _fetch(
    connection: PostgresConnection, reads: Reads, deposits: Collection[tuple[str, str]]
) -> Mapping[PreparedStatement, Sequence[Row]]:
    """Return the rows of each statement; one for which there are no keys is not run."""
    references = [key for key in reads.references if is_storable(key[1])]
    transactions = [(each,) for each in reads.transactions if is_storable(each)]
    intents = [(reference, kind) for reference, kind in reads.intents if is_storable(reference)]
    statements = [_SELECT_HORIZON.bind()]
    statements += [
        statement.bind_rows(keys)
        for statement, keys in (
            (_SELECT_REFERENCE_USES, references),
            (_SELECT_DEPOSITS, deposits),
            (_SELECT_CLAIMS, [(provider, escape_text(receipt)) for provider, receipt in reads.claims]),
            (_SELECT_INTENTS, intents),
            (_SELECT_TRANSACTIONS, transactions),
            (_SELECT_USAGE, reads.usage),
        )
        if keys
    ]
    results = await execute_pipeline(connection, statements)
    return dict(zip((each.statement for each in statements), results, strict=True))
