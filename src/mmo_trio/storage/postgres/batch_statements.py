"""The net effect of a batch as statements, with conditions that fail when another process was
quicker: pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.messages.intents import PollEnded
from mmo_trio.storage.postgres.batch_load import LoadedBatch
from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement
from mmo_trio.storage.postgres.shared_locks import CHECK_CREATION
from mmo_trio.storage.postgres.statements import BrandStatement, InsertStatement, JoinableStatement
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.sql.net_effect import NetEffect, batch_counts
from mmo_trio.storage.sql.serialization import (
    MERGED_HINT,
    UPSERT_USAGE,
    callback_body_rows,
    callback_columns,
    closed_rows,
    journal_columns,
    order_columns,
    progress_columns,
    provider_receipt_key,
    reopened_rows,
    reversal_columns,
    serialize_breaker,
    serialize_claim,
    serialize_order,
    suspense_rows,
    usage_rows,
)

_INSERT_TRANSACTIONS = InsertStatement("""
    INSERT INTO transactions (gateway_reference, brand, type, method, created_at, is_simulated,
        page_token, msisdn, reconciliation_reference, order_row, status, version, progress, object)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[],
        %s::integer[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::text[],
        %s::integer[], %s::bytea[], %s::bytea[])
""")
_UPDATE_TRANSACTIONS = BrandStatement(
    """
    UPDATE transactions AS t SET status = new.status, version = new.version,
        progress = new.progress, object = new.object
    FROM unnest(%s::text[], %s::text[], %s::integer[], %s::text[], %s::integer[], %s::bytea[],
        %s::bytea[])
        AS new (brand, gateway_reference, was, status, version, progress, object)
    WHERE t.brand = new.brand AND t.gateway_reference = new.gateway_reference
        AND t.version = new.was [AND t.brand = ($1)[1]]
    RETURNING 1
    """,
    check="still_so({rows} = %s::bigint)",
    is_joinable=True,
)

# Fails where one of these brands, with spaces between, is on hold. Like CHECK_CREATION, it may be
# joined.
_CHECK_SUBMISSION = JoinableStatement.of(check="check_submission(%s::text)")

_REDATE_TRANSACTIONS = BrandStatement("""
    UPDATE transactions AS t SET created_at = new.created_at, order_row = new.order_row
    FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bytea[])
        AS new (brand, gateway_reference, created_at, order_row)
    WHERE t.brand = new.brand AND t.gateway_reference = new.gateway_reference
        [AND t.brand = ($1)[1]]
""")
_INSERT_WAKES = InsertStatement("""
    INSERT INTO wakes (brand, gateway_reference, created_at, wake_at)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[])
""")
# `= ANY` lets an index find the rows, also while the planner takes the table for nearly empty; see
# _DELETE_INTENTS.
_UPDATE_WAKES = BrandStatement(
    """
    UPDATE wakes AS w SET created_at = new.created_at, wake_at = new.wake_at
    FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        AS new (brand, gateway_reference, was, created_at, wake_at)
    WHERE w.wake_at = new.was AND w.gateway_reference = new.gateway_reference
    AND w.brand = new.brand
        AND w.wake_at = ANY ($3) [AND w.brand = ($1)[1]]
    """,
    is_joinable=True,
)
_DELETE_WAKES = BrandStatement(
    """
    DELETE FROM wakes AS w USING unnest(%s::text[], %s::text[], %s::bigint[])
        AS old (brand, gateway_reference, was)
    WHERE w.wake_at = old.was AND w.gateway_reference = old.gateway_reference
    AND w.brand = old.brand
        AND w.wake_at = ANY ($3) [AND w.brand = ($1)[1]]
    """,
    is_joinable=True,
)
_INSERT_RECEIPTS = InsertStatement("""
    INSERT INTO receipts (brand, gateway_reference, receipt)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])
""")
_DELETE_RECEIPTS = BrandStatement("""
    DELETE FROM receipts AS r
    USING unnest(%s::text[], %s::text[], %s::text[]) AS old (brand, gateway_reference, receipt)
    WHERE r.receipt = old.receipt AND r.gateway_reference = old.gateway_reference
    AND r.brand = old.brand
        [AND r.brand = ($1)[1]]
""")
_INSERT_REFERENCE_USES = InsertStatement("""
    INSERT INTO reference_uses (brand, merchant_reference, nth, at, gateway_reference, earlier,
        is_lost)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::bigint[], %s::text[],
        %s::text[], %s::boolean[])
""")
_INSERT_DEPOSITS = PreparedStatement("""
    INSERT INTO deposits (provider, provider_reference, brand, gateway_reference)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])
""")
# The planner takes a table whose rows have nearly all gone for empty: it would read the whole table
# or index, with all dead rows that a long snapshot keeps. So rows of such tables are looked up one
# by one, and changed by their place.

# One that another process changes meanwhile is found, and isn't in its place any more: it would
# stay for ever.
_DELETE_INTENTS = BrandStatement(
    """
    DELETE FROM intents AS i
    USING unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
        AS old (brand, gateway_reference, kind, fence)
    WHERE i.brand = old.brand AND i.gateway_reference = old.gateway_reference AND i.kind = old.kind
        AND i.fence <= old.fence [AND i.brand = ($1)[1]]
    RETURNING 1
    """,
    on_one_server="""
    DELETE FROM intents AS i
    USING unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
            AS old (brand, gateway_reference, kind, fence)
        CROSS JOIN LATERAL (
            SELECT ctid FROM intents
            WHERE gateway_reference = old.gateway_reference AND kind = old.kind
            AND brand = old.brand LIMIT 1
        ) AS found
    WHERE i.ctid = found.ctid AND i.fence <= old.fence
    RETURNING 1
    """,
    check="still_so({rows} >= %s::bigint)",
    check_on_one_server="""still_so({rows} >= greatest(%s::bigint, (
        SELECT count(*) FROM unnest(%s::text[], %s::text[], %s::text[])
            AS old (brand, gateway_reference, kind)
            CROSS JOIN LATERAL (
                SELECT FROM intents
                WHERE gateway_reference = old.gateway_reference AND kind = old.kind
                AND brand = old.brand LIMIT 1
            ) AS seen
    )))""",
    is_joinable=True,
)

_INSERT_INTENTS = InsertStatement("""
    INSERT INTO intents (brand, gateway_reference, kind, holder)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
""")
_UPSERT_INTENTS = InsertStatement("""
    INSERT INTO intents (brand, gateway_reference, kind, holder)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
    ON CONFLICT (brand, gateway_reference, kind) DO UPDATE SET holder = excluded.holder
""")

# A question goes on from the open one about its payment. Its fence rises, so that nobody concludes
# it who has read it before.
_UPSERT_POLLS = InsertStatement(f"""
    INSERT INTO intents (brand, gateway_reference, kind, holder, since, hint, provider_reference)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
        %s::text[], %s::text[])
    ON CONFLICT (brand, gateway_reference, kind) DO UPDATE SET holder = excluded.holder,
        since = least(intents.since, excluded.since),
        hint = {MERGED_HINT.format(known="intents", later="excluded")},
        provider_reference = coalesce(excluded.provider_reference, intents.provider_reference),
        fence = intents.fence + 1
""")

_INSERT_JOURNAL = InsertStatement("""
    INSERT INTO journal (at, what, actor, gateway_reference, brand, stage_before, stage_after,
        detail)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::text[], %s::text[])
""")
_INSERT_CALLBACKS = InsertStatement("""
    INSERT INTO callbacks (gateway_reference, brand, outcome, url, status, duration_ms, detail, at)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::integer[],
        %s::bigint[], %s::text[], %s::bigint[])
""")
_INSERT_CALLBACK_BODIES = InsertStatement("""
    INSERT INTO callback_bodies (brand, gateway_reference, at, body)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bytea[])
""")
_UPSERT_SUSPENSE = PreparedStatement("""
    INSERT INTO suspense (identity, reason, provider, told, gateway_reference, brand, first_at,
        last_at, times)
    SELECT * FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::bigint[], %s::bigint[], %s::integer[])
    ON CONFLICT (identity) DO UPDATE
        SET times = suspense.times + excluded.times,
            first_at = least(suspense.first_at, excluded.first_at),
            last_at = greatest(suspense.last_at, excluded.last_at)
""")

_CLOSE_SUSPENSE = PreparedStatement("""
    UPDATE suspense AS s SET closed_at = done.at, note = done.note, closed_by = done.closed_by
    FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[])
        AS done (at, id, note, closed_by)
    WHERE s.id = done.id AND s.closed_at IS NULL
""")

_REOPEN_SUSPENSE = PreparedStatement("""
    UPDATE suspense AS s SET closed_at = NULL, note = NULL, closed_by = NULL
    FROM unnest(%s::bigint[], %s::text[]) AS again (id, closed_by)
    WHERE s.id = again.id AND s.closed_by = again.closed_by
""")

_INSERT_COUNTS = InsertStatement("""
    INSERT INTO figure_deltas (began_at, brand, method, provider, is_simulated, status, latency_s,
        type, currency, error_code, times, minor)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::integer[],
        %s::text[], %s::integer[], %s::text[], %s::text[], %s::text[], %s::integer[], %s::bigint[])
""")
_UPSERT_USAGE = InsertStatement(
    UPSERT_USAGE.format(
        source="SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[])"
    ),
    # What it adds up is checked by the next statement.
    is_joinable=False,
)
_CHECK_USAGE = BrandStatement("""
    SELECT still_so(bool_and(u.amount <= new.most))
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS new (brand, counter, most)
    JOIN brand_usage AS u USING (brand, counter)
    [WHERE u.brand = ($1)[1]]
""")
_UPSERT_BREAKERS = PreparedStatement("""
    INSERT INTO channels AS c (brand, holder, fence, breaker)
    SELECT brand, 0, fence, breaker
    FROM unnest(%s::text[], %s::bigint[], %s::bytea[]) AS new (brand, fence, breaker)
    ON CONFLICT (brand) DO UPDATE SET breaker = excluded.breaker WHERE c.fence <= excluded.fence
""")
_INSERT_BREAKER_CHANGES = PreparedStatement("""
    INSERT INTO breaker_changes (brand, at, state)
    SELECT new.brand, new.at, new.state
    FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS new (brand, at, state)
    WHERE new.state <> coalesce((SELECT old.state FROM breaker_changes AS old
        WHERE old.brand = new.brand ORDER BY old.at DESC LIMIT 1), 'closed')
    ON CONFLICT (brand, at) DO NOTHING
""")


_INSERT_CLAIMS = PreparedStatement("""
    INSERT INTO deposit_claims (provider, receipt, version, wake_at, payment, claim)
    SELECT * FROM unnest(
        %s::text[], %s::text[], %s::integer[], %s::bigint[], %s::text[], %s::bytea[])
""")
_UPDATE_CLAIMS = PreparedStatement("""
    WITH moved AS (
        UPDATE deposit_claims AS c SET version = new.version, wake_at = new.wake_at,
            payment = new.payment, claim = new.claim
        FROM unnest(%s::text[], %s::text[], %s::integer[], %s::integer[], %s::bigint[],
            %s::text[], %s::bytea[])
            AS new (provider, receipt, was, version, wake_at, payment, claim)
        WHERE c.provider = new.provider AND c.receipt = new.receipt AND c.version = new.was
        RETURNING 1
    )
    SELECT still_so(count(*) = %s::bigint) FROM moved
""")
_DELETE_CLAIMS = PreparedStatement("""
    WITH gone AS (
        DELETE FROM deposit_claims AS c
        USING unnest(%s::text[], %s::text[], %s::integer[]) AS old (provider, receipt, was)
        WHERE c.provider = old.provider AND c.receipt = old.receipt AND c.version = old.was
        RETURNING 1
    )
    SELECT still_so(count(*) = %s::bigint) FROM gone
""")


_INSERT_REVERSALS = PreparedStatement("""
    INSERT INTO reversals (
        payment, version, asked_at, wake_at, unfinished, brand, changed_at, reversals
    )
    SELECT * FROM unnest(%s::text[], %s::integer[], %s::bigint[], %s::bigint[], %s::integer[],
        %s::text[], %s::bigint[], %s::bytea[])
""")
_UPDATE_REVERSALS = PreparedStatement("""
    WITH moved AS (
        UPDATE reversals AS r SET version = new.version, asked_at = new.asked_at,
            wake_at = new.wake_at,
            unfinished = new.unfinished, brand = new.brand, changed_at = new.changed_at,
            reversals = new.reversals
        FROM unnest(%s::text[], %s::integer[], %s::integer[], %s::bigint[], %s::bigint[],
            %s::integer[], %s::text[], %s::bigint[], %s::bytea[])
            AS new (
                payment, was, version, asked_at, wake_at, unfinished, brand, changed_at, reversals
            )
        WHERE r.payment = new.payment AND r.version = new.was
        RETURNING 1
    )
    SELECT still_so(count(*) = %s::bigint) FROM moved
""")


def batch_statements(
    effect: NetEffect,
    loaded: LoadedBatch,
    tables: Tables,
    *,
    holder: int,
    is_horizon_held: bool = False,
) -> Iterator[BoundStatement]:
    """Yield the statements that write each row of the batch, inside a transaction.

    With `is_horizon_held` the batch was loaded inside it, after ACQUIRE_WRITER_LOCK: readers wait
    for its end. Rows that other processes may write, too, go in the order of their keys, so that no
    two wait for each other."""
    # 1. References and new payments. Of two processes that use one reference at once, the second
    #    fails here, by the number of the use (C12).
    if effect.references:
        rows = _use_rows(effect, loaded)
        yield from tables.bind(_INSERT_REFERENCE_USES, rows)

    if effect.created:
        if not is_horizon_held:
            yield CHECK_CREATION.bind(
                min(creation.order.created_at for creation in effect.created.values())
            )

        yield from _creation_statements(effect, tables)

    # 2. Holds of staff: after its commit nothing more of a held brand begins.
    if submitted := effect.submitted_brands:
        yield _CHECK_SUBMISSION.bind(" ".join(sorted(submitted)))

    # 3. Payments that move, if they are in the version of their decision.
    if effect.advanced:
        moved = [
            (now.order.brand, reference, was.progress.version, *progress_columns(now))
            for reference, (was, now) in sorted(effect.advanced.items())
        ]
        yield from tables.bind_counted(_UPDATE_TRANSACTIONS, moved)

    if effect.redated:
        redated = [
            (
                redated.order.brand,
                reference,
                redated.order.created_at,
                serialize_order(redated.order),
            )
            for reference, redated in sorted(effect.redated.items())
        ]
        yield from tables.bind(_REDATE_TRANSACTIONS, redated)

    yield from _wake_statements(effect, tables)
    if effect.claims:
        yield from _claim_statements(effect)

    if effect.reversals:
        yield from _reversal_statements(effect)

    # 4. What is to be done next, and what has been.
    yield from _intent_statements(effect, loaded, tables, holder)
    if effect.journal:
        yield from tables.bind(_INSERT_JOURNAL, [*map(_journal_row, effect.journal)])

    if effect.callbacks:
        yield from tables.bind(_INSERT_CALLBACKS, [*map(callback_columns, effect.callbacks)])
        if bodies := callback_body_rows(effect):
            yield from tables.bind(_INSERT_CALLBACK_BODIES, bodies)

    # 5. What staff read, the breakers, and what brands use of their limits.
    if effect.suspense:
        yield _UPSERT_SUSPENSE.bind_rows(sorted(suspense_rows(effect)))

    if effect.closed:
        yield _CLOSE_SUSPENSE.bind_rows(closed_rows(effect))

    if effect.reopened:
        yield _REOPEN_SUSPENSE.bind_rows(reopened_rows(effect))

    if effect.breakers:
        breakers = sorted(effect.breakers.items())
        yield _UPSERT_BREAKERS.bind_rows(
            (brand, stored.fence, serialize_breaker(stored.breaker)) for brand, stored in breakers
        )
        yield _INSERT_BREAKER_CHANGES.bind_rows(
            (brand, effect.latest_stamp, stored.breaker.state) for brand, stored in breakers
        )

    if effect.usage:
        yield from tables.bind(_UPSERT_USAGE, usage_rows(effect))
        limits = [
            (*key, counted.limit)
            for key, counted in sorted(effect.usage.items())
            if counted.limit is not None
        ]
        if limits:
            yield from tables.bind(_CHECK_USAGE, limits)

    # 6. Counts only add rows: `roll_up_counts` adds them up later.
    if figures := batch_counts(effect):
        rows = [(*key, counted.times, counted.minor) for key, counted in figures.items()]
        yield from tables.bind(_INSERT_COUNTS, rows)


def _use_rows(effect: NetEffect, loaded: LoadedBatch) -> Sequence[tuple[Any, ...]]:
    """Return the uses of references with their numbers, in the order of their keys."""
    # One batch may use a reference several times, after each failure again.
    uses = dict(loaded.reference_use_counts)
    rows = []
    for reference in effect.references:
        key = (reference.brand, reference.merchant_reference)
        uses[key] = uses.get(key, 0) + 1
        rows.append(
            (
                *key,
                uses[key],
                reference.at,
                reference.gateway_reference,
                reference.earlier.value,
                reference.is_lost,
            )
        )

    return sorted(rows, key=lambda row: row[:3])


def _creation_statements(effect: NetEffect, tables: Tables) -> Iterator[BoundStatement]:
    created = effect.created
    if effect.deposits:
        yield _INSERT_DEPOSITS.bind_rows(
            sorted(
                (
                    deposit.provider,
                    deposit.provider_reference,
                    created[deposit.gateway_reference].order.brand,
                    deposit.gateway_reference,
                )
                for deposit in effect.deposits
            )
        )

    rows_created = [
        (*order_columns(creation), *progress_columns(creation)) for creation in created.values()
    ]
    yield from tables.bind(_INSERT_TRANSACTIONS, rows_created)


def _wake_statements(effect: NetEffect, tables: Tables) -> Iterator[BoundStatement]:
    """Write when transactions wake, and the receipts of providers that are new. The row of a wake
    is found by the time that it has been decided from; the version of the transaction says that
    nobody has changed it since."""
    inserted: list[tuple[object, ...]] = []
    updated: list[tuple[object, ...]] = []
    deleted: list[tuple[object, ...]] = []
    receipts: list[tuple[object, ...]] = []
    replaced: list[tuple[object, ...]] = []

    # A new payment is one that had nothing before.
    befores = ((None, creation) for creation in effect.created.values())
    for before, now in chain(befores, effect.advanced.values()):
        order, wake_at = now.order, now.progress.wake_at
        key = (order.brand, order.gateway_reference)
        was = None
        earlier = None
        if before is not None:
            was = before.progress.wake_at
            earlier = provider_receipt_key(before.progress)

        if was is None and wake_at is not None:
            inserted.append((*key, order.created_at, wake_at))
        elif was is not None and wake_at is None:
            deleted.append((*key, was))
        elif before is not None and (was != wake_at or before.order.created_at != order.created_at):
            updated.append((*key, was, order.created_at, wake_at))

        receipt = provider_receipt_key(now.progress)
        if receipt != earlier:
            if receipt is not None:
                receipts.append((*key, receipt))
            if earlier is not None:
                replaced.append((*key, earlier))

    statements: Sequence[tuple[BrandStatement | InsertStatement, Sequence[tuple[Any, ...]]]] = (
        (_INSERT_WAKES, inserted),
        (_UPDATE_WAKES, updated),
        (_DELETE_WAKES, deleted),
        (_DELETE_RECEIPTS, replaced),
        (_INSERT_RECEIPTS, receipts),
    )
    for statement, rows in statements:
        if rows:
            yield from tables.bind(statement, rows)


def _claim_statements(effect: NetEffect) -> Iterator[BoundStatement]:
    inserted: list[tuple[object, ...]] = []
    updated: list[tuple[object, ...]] = []
    deleted: list[tuple[object, ...]] = []
    for (provider, receipt), (was, claim) in sorted(
        effect.claims.items(), key=lambda item: item[0]
    ):
        # Version 0 is that of a claim that is not stored: one that came and went within the batch
        # leaves nothing.
        key = (provider, receipt)
        if claim is None:
            if was:
                deleted.append((*key, was))

            continue

        columns = (claim.version, claim.wake_at, claim.payment, serialize_claim(claim))
        if was:
            updated.append((*key, was, *columns))
        else:
            inserted.append((*key, *columns))

    if inserted:
        yield _INSERT_CLAIMS.bind_rows(inserted)

    if updated:
        yield _UPDATE_CLAIMS.bind_rows(updated, len(updated))

    if deleted:
        yield _DELETE_CLAIMS.bind_rows(deleted, len(deleted))


def _reversal_statements(effect: NetEffect) -> Iterator[BoundStatement]:
    changed = sorted(effect.reversals.items(), key=lambda item: item[0])
    inserted = [
        (payment, *reversal_columns(reversals)) for payment, (was, reversals) in changed if not was
    ]
    updated = [
        (payment, was, *reversal_columns(reversals)) for payment, (was, reversals) in changed if was
    ]
    if inserted:
        yield _INSERT_REVERSALS.bind_rows(inserted)

    if updated:
        yield _UPDATE_REVERSALS.bind_rows(updated, len(updated))


def _intent_statements(
    effect: NetEffect, loaded: LoadedBatch, tables: Tables, holder: int
) -> Iterator[BoundStatement]:
    transactions = loaded.ledger.transactions

    # First those that are concluded: a payment may have another of the same kind after it.
    if effect.concluded:
        fences = loaded.intent_fences
        concluded = [
            (brand, *key, fences.get(key, 0))
            for key in sorted(effect.concluded)
            if (brand := loaded.brand_of(key[0])) is not None
        ]
        if concluded:
            yield from tables.bind_counted(
                _DELETE_INTENTS,
                concluded,
                lambda rows: sum((reference, kind) in fences for _, reference, kind, _ in rows),
            )

    if effect.scheduled:
        inserted: list[tuple[object, ...]] = []
        upserted: list[tuple[object, ...]] = []
        polls: list[tuple[object, ...]] = []
        for (reference, kind), intent in effect.scheduled.items():
            row = transactions[reference].order.brand, reference, kind, holder
            if isinstance(intent, PollEnded):
                polls.append((*row, intent.since, intent.hint, intent.provider_reference))
            elif reference in effect.created:
                # Nobody has scheduled anything for it yet.
                inserted.append(row)
            else:
                upserted.append(row)

        for statement, rows in (
            (_INSERT_INTENTS, inserted),
            (_UPSERT_INTENTS, upserted),
            (_UPSERT_POLLS, polls),
        ):
            if rows:
                yield from tables.bind(statement, rows)


def _journal_row(entry: JournalEntry) -> tuple[object, ...]:
    """Return the columns of a line; each has a brand, which may be empty, so that it is in some
    shard."""
    at, name, actor, reference, brand, *others = journal_columns(entry)
    return (at, name, actor, reference, brand or "", *others)
