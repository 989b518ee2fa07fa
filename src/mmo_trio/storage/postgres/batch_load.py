"""Loads the working set of one batch, in one round trip.

On one server the transactions that a batch may move are locked from their load until its commit. What another process
has locked is left out: neither waits for the other, and no commit fails because the other was quicker. A transaction of
which only an intent is concluded is not locked, as it doesn't move.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, frozen

from mmo_sansio.messages.intents import IntentKey, IntentKind, durable_intent
from mmo_sansio.payments.ledger import Ledger, Reads, ReferenceKey, ReferenceUse, UsageCount
from mmo_sansio.values.model import Status
from mmo_trio.storage.postgres.brand_statements import BrandStatement, KnownBrands
from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement, Row, execute_pipeline
from mmo_trio.storage.postgres.text_encoding import escape_text, is_storable
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.serialization import parse_claim, parse_transaction

AnyStatement: TypeAlias = PreparedStatement | BrandStatement

_SELECT_TRANSACTIONS = BrandStatement("""
    SELECT order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, gateway_reference)
    JOIN transactions AS t USING (brand, gateway_reference)
    [WHERE t.brand = ($1)[1]]
""")
_FIND_TRANSACTIONS = PreparedStatement("""
    SELECT order_row, progress FROM transactions WHERE gateway_reference = ANY (%s::text[])
""")
"""Of any brand: to all shards where tables are distributed."""

_LOCK_TRANSACTIONS = PreparedStatement("""
    SELECT order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, gateway_reference)
    JOIN transactions AS t USING (brand, gateway_reference)
    FOR NO KEY UPDATE OF t SKIP LOCKED
""")
_FIND_AND_LOCK_TRANSACTIONS = PreparedStatement("""
    SELECT order_row, progress FROM transactions WHERE gateway_reference = ANY (%s::text[])
    FOR NO KEY UPDATE SKIP LOCKED
""")
"""What these lock is the latest version that is committed. They leave out what another process has locked."""

_SELECT_DEPOSITS = PreparedStatement("""
    SELECT provider, provider_reference, brand, gateway_reference
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, provider_reference)
    JOIN deposits USING (provider, provider_reference)
""")
_SELECT_REFERENCE_USES = BrandStatement("""
    SELECT wanted.brand, wanted.merchant_reference, newest.gateway_reference, at, nth, earlier, order_row, progress
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, merchant_reference)
    CROSS JOIN LATERAL (
        SELECT gateway_reference, at, nth, earlier FROM reference_uses AS used
        WHERE used.brand = wanted.brand AND used.merchant_reference = wanted.merchant_reference
            [AND used.brand = ($1)[1]]
        ORDER BY nth DESC LIMIT 1
    ) AS newest
    LEFT JOIN transactions AS t ON t.brand = wanted.brand AND t.gateway_reference = newest.gateway_reference
        [AND t.brand = ($1)[1]]
""")
_SELECT_CLAIMS = PreparedStatement("""
    SELECT claim
    FROM unnest(%s::text[], %s::text[]) AS wanted (provider, receipt)
    JOIN deposit_claims USING (provider, receipt)
""")
_SELECT_INTENTS = BrandStatement(
    """
    SELECT i.brand, gateway_reference, kind, fence
    FROM unnest(%s::text[], %s::text[], %s::text[]) AS wanted (brand, gateway_reference, kind)
    JOIN intents AS i USING (brand, gateway_reference, kind)
    [WHERE i.brand = ($1)[1]]
    """,
    # One by one, as in the deletion of intents.
    on_one_server="""
    SELECT wanted.brand, wanted.gateway_reference, wanted.kind, found.fence
    FROM unnest(%s::text[], %s::text[], %s::text[]) AS wanted (brand, gateway_reference, kind)
    CROSS JOIN LATERAL (
        SELECT fence FROM intents
        WHERE gateway_reference = wanted.gateway_reference AND kind = wanted.kind AND brand = wanted.brand LIMIT 1
    ) AS found
    """,
)
_FIND_INTENTS = PreparedStatement("""
    SELECT brand, gateway_reference, kind, fence
    FROM unnest(%s::text[], %s::text[]) AS wanted (gateway_reference, kind)
    JOIN intents USING (gateway_reference, kind)
""")
"""Of any brand, like _FIND_TRANSACTIONS."""

_SELECT_USAGE = BrandStatement("""
    SELECT u.brand, counter, day, amount
    FROM unnest(%s::text[], %s::text[]) AS wanted (brand, counter) JOIN brand_usage AS u USING (brand, counter)
    [WHERE u.brand = ($1)[1]]
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
    _known_brands: KnownBrands
    has_locked: bool = False
    """Whether transactions are locked for it."""

    def brand_of(self, gateway_reference: str) -> str | None:
        """Return the brand of a transaction, or None when it was not read."""
        transaction = self.ledger.transactions.get(gateway_reference)
        return self._known_brands.get(gateway_reference) if transaction is None else transaction.order.brand


async def load_batch(
    connection: PostgresConnection,
    reads: Reads,
    known_brands: KnownBrands,
    *,
    begin: Callable[[], Sequence[BoundStatement]] | None = None,
    is_distributed: bool = False,
) -> LoadedBatch:
    """Return the working set for these reads, with the transactions of known deposits and of the newest uses of
    references; learn the brands of what was found.

    With `begin`, which returns how the batch's transaction begins unless it has begun, lock what may move.
    """
    deposits = {(provider, escape_text(reference)): (provider, reference) for provider, reference in reads.deposits}
    movable = frozenset[str]()
    if begin is not None and reads.transactions:
        movable = reads.transactions.difference(reference for reference, _ in reads.intents)
    results = await _fetch(
        connection,
        _batch_queries(reads, movable, deposits, known_brands, is_distributed),
        begin() if begin is not None and movable else (),
    )
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
    for statement in (_SELECT_INTENTS, _FIND_INTENTS):
        for brand, gateway_reference, kind, fence in results.get(statement, ()):
            key = (gateway_reference, IntentKind(kind))
            ledger.intents[key] = durable_intent(key[1], gateway_reference, fence)
            fences[key] = fence
            known_brands.add(gateway_reference, brand)
    for statement in (_SELECT_TRANSACTIONS, _FIND_TRANSACTIONS):
        _add_transactions(ledger, results.get(statement, ()))
    ours = _add_transactions(
        ledger, [*results.get(_LOCK_TRANSACTIONS, ()), *results.get(_FIND_AND_LOCK_TRANSACTIONS, ())]
    )
    if left_out := [(each,) for each in movable.difference(ours) if is_storable(each)]:
        found = await _fetch(connection, [(_FIND_TRANSACTIONS, [_FIND_TRANSACTIONS.bind_rows(left_out)])])
        ledger.locked = frozenset(parse_transaction(*row).reference for row in found[_FIND_TRANSACTIONS])
    received = results.get(_SELECT_DEPOSITS, ())
    for provider, reference, _, gateway_reference in received:
        ledger.deposits[deposits[provider, reference]] = gateway_reference
    if missing := {(brand, reference) for _, _, brand, reference in received if reference not in ledger.transactions}:
        keys = sorted(missing)
        found = await _fetch(
            connection, [(_SELECT_TRANSACTIONS, _SELECT_TRANSACTIONS.bind_rows(keys, is_distributed=is_distributed))]
        )
        _add_transactions(ledger, found[_SELECT_TRANSACTIONS])
    for (row,) in results.get(_SELECT_CLAIMS, ()):
        claim = parse_claim(row)
        ledger.claims[claim.provider, claim.receipt] = claim
    for reference, transaction in ledger.transactions.items():
        known_brands.add(reference, transaction.order.brand)
    loaded = (ledger.deposits.values(), (each.gateway_reference for each in ledger.references.values()))
    ledger.prefetched = evolve(reads, transactions=reads.transactions.union(*loaded))
    return LoadedBatch(ledger, uses, fences, known_brands, has_locked=bool(ours))


def _add_transactions(ledger: Ledger, rows: Sequence[Row]) -> Sequence[str]:
    """Add these transactions and return their gatewayReferences."""
    transactions = {each.reference: each for each in (parse_transaction(*row) for row in rows)}
    ledger.transactions.update(transactions)
    return list(transactions)


def _batch_queries(
    reads: Reads,
    movable: frozenset[str],
    deposits: Collection[tuple[str, str]],
    known_brands: KnownBrands,
    is_distributed: bool,
) -> Iterator[tuple[AnyStatement, Iterable[BoundStatement]]]:
    """Yield each statement for which there are keys, with its values."""
    yield _SELECT_HORIZON, [_SELECT_HORIZON.bind()]
    transactions, unknown = _by_brand(reads.transactions - movable, known_brands)
    to_lock, unknown_to_lock = _by_brand(movable, known_brands)
    intents: list[tuple[str, str, str]] = []
    unknown_intents: list[tuple[str, str]] = []
    for reference, kind in reads.intents:
        brand = known_brands.get(reference)
        if brand is not None:
            intents.append((brand, reference, kind))
        elif is_storable(reference):
            unknown_intents.append((reference, kind))
    for by_brand, keys in (
        (_SELECT_REFERENCE_USES, [key for key in reads.references if is_storable(key[1])]),
        (_SELECT_INTENTS, intents),
        (_SELECT_TRANSACTIONS, transactions),
        (_SELECT_USAGE, reads.usage),
    ):
        if keys:
            yield by_brand, by_brand.bind_rows(keys, is_distributed=is_distributed)
    for statement, others in (
        (_SELECT_DEPOSITS, deposits),
        (_SELECT_CLAIMS, [(provider, escape_text(receipt)) for provider, receipt in reads.claims]),
        (_FIND_INTENTS, unknown_intents),
        (_FIND_TRANSACTIONS, unknown),
        (_LOCK_TRANSACTIONS, to_lock),
        (_FIND_AND_LOCK_TRANSACTIONS, unknown_to_lock),
    ):
        if others:
            yield statement, [statement.bind_rows(others)]


def _by_brand(
    references: Iterable[str], known_brands: KnownBrands
) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str]]]:
    """Return these transactions with their brands, and those whose brand is not known."""
    known: list[tuple[str, str]] = []
    unknown: list[tuple[str]] = []
    for reference in filter(is_storable, references):
        brand = known_brands.get(reference)
        if brand is None:
            unknown.append((reference,))
        else:
            known.append((brand, reference))
    return known, unknown


async def _fetch(
    connection: PostgresConnection,
    queries: Iterable[tuple[AnyStatement, Iterable[BoundStatement]]],
    before: Sequence[BoundStatement] = (),
) -> Mapping[AnyStatement, Sequence[Row]]:
    """Return the rows of each statement, in one round trip, with the statements `before` them."""
    bound = [(statement, each) for statement, several in queries for each in several]
    results = await execute_pipeline(connection, [*before, *(each for _, each in bound)])
    rows: dict[AnyStatement, list[Row]] = {}
    for (statement, _), found in zip(bound, results[len(before) :], strict=True):
        rows.setdefault(statement, []).extend(found)
    return rows
