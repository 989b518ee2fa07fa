"""Loads the working set of one batch, in one round trip.

Nothing is locked: the commit finds out whether another process was quicker, by the conditions of
its statements. So some batches need no load at all (`mmo_trio.storage.postgres.assumptions`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from attrs import Factory, evolve, frozen

from mmo_sansio.messages.intents import IntentKey, IntentKind, durable_intent
from mmo_sansio.payments.ledger import Ledger, Reads, ReferenceKey, ReferenceUse, UsageCount
from mmo_sansio.values.model import Status
from mmo_trio.storage.postgres import pipeline
from mmo_trio.storage.postgres.statements import BrandStatement, KnownBrands
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.serialization import parse_claim, parse_reversals, parse_transaction

_SELECT_TRANSACTIONS = BrandStatement("""
    SELECT order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, gateway_reference)
    JOIN transactions AS t USING (brand, gateway_reference)
    [WHERE t.brand = ($1)[1]]
""")

# Of any brand: to all shards where tables are distributed.
_FIND_TRANSACTIONS = pipeline.PreparedStatement("""
    SELECT order_row, progress FROM transactions WHERE gateway_reference = ANY (%s::text[])
""")

_SELECT_DEPOSITS = pipeline.PreparedStatement("""
    SELECT provider, provider_reference, brand, gateway_reference
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, provider_reference)
    JOIN deposits USING (provider, provider_reference)
""")
_SELECT_REFERENCE_USES = BrandStatement("""
    SELECT wanted.brand, wanted.merchant_reference, newest.gateway_reference, at, nth, earlier,
        order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, merchant_reference)
    CROSS JOIN LATERAL (
        SELECT gateway_reference, at, nth, earlier FROM reference_uses AS used
        WHERE used.brand = wanted.brand AND used.merchant_reference = wanted.merchant_reference
            [AND used.brand = ($1)[1]]
        ORDER BY nth DESC LIMIT 1
    ) AS newest
    LEFT JOIN transactions AS t ON t.brand = wanted.brand
        AND t.gateway_reference = newest.gateway_reference
        [AND t.brand = ($1)[1]]
""")
_SELECT_CLAIMS = pipeline.PreparedStatement("""
    SELECT claim
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, receipt)
    JOIN deposit_claims USING (provider, receipt)
""")
_SELECT_REVERSALS = pipeline.PreparedStatement("""
    SELECT payment, reversals FROM reversals WHERE payment = ANY (%s::text[])
""")
_SELECT_INTENTS = BrandStatement(
    """
    SELECT i.brand, gateway_reference, kind, fence, since, hint, provider_reference
    FROM unnest(%s::text[], %s::text[], %s::text[]) AS wanted (brand, gateway_reference, kind)
    JOIN intents AS i USING (brand, gateway_reference, kind)
    [WHERE i.brand = ($1)[1]]
    """,
    # One by one, as in the deletion of intents.
    on_one_server="""
    SELECT wanted.brand, wanted.gateway_reference, wanted.kind, found.*
    FROM unnest(%s::text[], %s::text[], %s::text[]) AS wanted (brand, gateway_reference, kind)
    CROSS JOIN LATERAL (
        SELECT fence, since, hint, provider_reference FROM intents
        WHERE gateway_reference = wanted.gateway_reference AND kind = wanted.kind
        AND brand = wanted.brand LIMIT 1
    ) AS found
    """,
)

# Of any brand, like _FIND_TRANSACTIONS.
_FIND_INTENTS = pipeline.PreparedStatement("""
    SELECT brand, gateway_reference, kind, fence, since, hint, provider_reference
    FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)
    JOIN intents USING (gateway_reference, kind)
""")

_SELECT_USAGE = BrandStatement("""
    SELECT u.brand, counter, day, amount
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, counter)
    JOIN brand_usage AS u USING (brand, counter)
    [WHERE u.brand = ($1)[1]]
""")
_SELECT_HORIZON = pipeline.PreparedStatement("""
    SELECT at, (SELECT string_agg(brand, ' ') FROM brand_holds) FROM horizon
""")


@frozen
class LoadedBatch:
    """A working set, and what a commit must find unchanged, besides the versions of
    transactions."""

    ledger: Ledger
    reference_use_counts: dict[ReferenceKey, int]
    """How often each merchantReference was used."""
    intent_fences: dict[IntentKey, int]
    """The fence of each one's last claim."""
    _known_brands: KnownBrands

    def brand_of(self, gateway_reference: str) -> str | None:
        """Return the brand of a transaction, or None when it was not read."""
        transaction = self.ledger.transactions.get(gateway_reference)
        if transaction is None:
            return self._known_brands.get(gateway_reference)
        return transaction.order.brand


@frozen
class _FoundRows:
    """The rows that the server has found, by what was looked for."""

    horizon: list[pipeline.Row] = Factory(list)
    reference_uses: list[pipeline.Row] = Factory(list)
    usage: list[pipeline.Row] = Factory(list)
    intents: list[pipeline.Row] = Factory(list)
    transactions: list[pipeline.Row] = Factory(list)
    deposits: list[pipeline.Row] = Factory(list)
    claims: list[pipeline.Row] = Factory(list)
    reversals: list[pipeline.Row] = Factory(list)


@frozen
class _Query:
    """A statement, bound once or once for each shard, and the list that takes its rows."""

    statements: Iterable[pipeline.BoundStatement]
    rows: list[pipeline.Row]


async def load_batch(
    connection: PostgresConnection, reads: Reads, known_brands: KnownBrands, tables: Tables
) -> LoadedBatch:
    """Return the working set for these reads, with the transactions of known deposits and of the
    newest uses of references; learn the brands of what was found."""
    # A provider's reference may have characters that the server can't store; the ledger knows it as
    # the provider wrote it.
    deposits = {
        (provider, pipeline.escape_text(reference)): (provider, reference)
        for provider, reference in reads.deposits
    }
    found = _FoundRows()
    await _fetch(connection, _batch_queries(found, reads, deposits, known_brands, tables))

    ledger = Ledger()
    ((ledger.not_before, held_brands),) = found.horizon
    ledger.held_brands = frozenset((held_brands or "").split())

    # A restored store may know a reference of which it lacks the payment.
    uses = dict[ReferenceKey, int]()
    for row in found.reference_uses:
        brand, merchant_reference, gateway_reference, at, nth, earlier, order, progress = row
        ledger.references[brand, merchant_reference] = ReferenceUse(
            gateway_reference, at, Status(earlier)
        )
        if order is not None:
            ledger.transactions[gateway_reference] = parse_transaction(order, progress)

        uses[brand, merchant_reference] = nth

    for brand, counter, day, amount in found.usage:
        ledger.usage[brand, counter] = UsageCount(day, amount)

    fences = dict[IntentKey, int]()
    for brand, gateway_reference, kind, fence, *question in found.intents:
        key = (gateway_reference, IntentKind(kind))
        ledger.intents[key] = durable_intent(key[1], gateway_reference, fence, *question)
        fences[key] = fence
        known_brands.add(gateway_reference, brand)

    _add_transactions(ledger, found.transactions)
    for provider, reference, _, gateway_reference in found.deposits:
        ledger.deposits[deposits[provider, reference]] = gateway_reference

    # A known deposit names its payment, which nobody asked for: a second round trip, as rare as a
    # deposit that is notified twice.
    missing = {
        (brand, gateway_reference)
        for _, _, brand, gateway_reference in found.deposits
        if gateway_reference not in ledger.transactions
    }
    if missing:
        received = list[pipeline.Row]()
        statements = tables.bind(_SELECT_TRANSACTIONS, sorted(missing))
        await _fetch(connection, [_Query(statements, received)])
        _add_transactions(ledger, received)

    for (row,) in found.claims:
        claim = parse_claim(row)
        ledger.claims[claim.provider, claim.receipt] = claim

    for payment, row in found.reversals:
        ledger.reversals[payment] = parse_reversals(row)

    for gateway_reference, transaction in ledger.transactions.items():
        known_brands.add(gateway_reference, transaction.order.brand)

    # What was found by way of deposits and references counts as read: where it is not in the
    # ledger, the store does not have it.
    ledger.prefetched = reads
    if ledger.deposits or ledger.references:
        loaded = (
            ledger.deposits.values(),
            (record.gateway_reference for record in ledger.references.values()),
        )
        ledger.prefetched = evolve(reads, transactions=reads.transactions.union(*loaded))

    return LoadedBatch(ledger, uses, fences, known_brands)


def _add_transactions(ledger: Ledger, rows: Sequence[pipeline.Row]) -> None:
    for row in rows:
        transaction = parse_transaction(*row)
        ledger.transactions[transaction.reference] = transaction


def _batch_queries(
    found: _FoundRows,
    reads: Reads,
    deposits: Collection[tuple[str, str]],
    known_brands: KnownBrands,
    tables: Tables,
) -> Iterator[_Query]:
    """Yield what is to be looked for; nothing for which there are no keys."""
    yield _Query([_SELECT_HORIZON.bind()], found.horizon)

    # By the primary key where the brand is known, so that one shard is asked, and not all.
    transactions: list[tuple[str, str]] = []
    unknown: list[tuple[str]] = []
    for reference in filter(pipeline.is_storable, reads.transactions):
        brand = known_brands.get(reference)
        if brand is None:
            unknown.append((reference,))
        else:
            transactions.append((brand, reference))

    intents: list[tuple[str, str, str]] = []
    unknown_intents: list[tuple[str, str]] = []
    for reference, kind in reads.intents:
        brand = known_brands.get(reference)
        if brand is not None:
            intents.append((brand, reference, kind))
        elif pipeline.is_storable(reference):
            unknown_intents.append((reference, kind))

    # What the server can't store is in no row: it is not looked for.
    references = [key for key in reads.references if pipeline.is_storable(key[1])]
    reversals = [(payment,) for payment in filter(pipeline.is_storable, reads.reversals)]

    for by_brand, keys, rows in (
        (_SELECT_REFERENCE_USES, references, found.reference_uses),
        (_SELECT_INTENTS, intents, found.intents),
        (_SELECT_TRANSACTIONS, transactions, found.transactions),
        (_SELECT_USAGE, [*reads.usage], found.usage),
    ):
        if keys:
            yield _Query(tables.bind(by_brand, keys), rows)

    for of_any_brand, others, rows in (
        (_SELECT_DEPOSITS, deposits, found.deposits),
        (_SELECT_CLAIMS, reads.claims, found.claims),
        (_SELECT_REVERSALS, reversals, found.reversals),
        (_FIND_INTENTS, unknown_intents, found.intents),
        (_FIND_TRANSACTIONS, unknown, found.transactions),
    ):
        if others:
            yield _Query([of_any_brand.bind_rows(others)], rows)


async def _fetch(connection: PostgresConnection, queries: Iterable[_Query]) -> None:
    """Add the rows of each query to its list, in one round trip."""
    sent = [(statement, query.rows) for query in queries for statement in query.statements]
    results = await pipeline.execute_pipeline(connection, [statement for statement, _ in sent])
    for (_, rows), result in zip(sent, results, strict=True):
        rows += result
