"""The net effect of a batch as statements, with conditions that fail when another node was quicker: pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from mmo_sansio.messages.changes import CallbackRecorded, Journaled, SuspenseNoted
from mmo_trio.storage.postgres.batch_load import Loaded
from mmo_trio.storage.postgres.pipeline import Bound, Statement
from mmo_trio.storage.postgres.records_horizon import WRITER_LOCK
from mmo_trio.storage.postgres.text_encoding import held, held_or_none
from mmo_trio.storage.shared.net_effect import Batch
from mmo_trio.storage.shared.payment_counts import figures_of
from mmo_trio.storage.sql.columns import order_columns, progress_columns
from mmo_trio.storage.sql.serialization import breaker_row

_STILL_OPEN = Statement("SELECT pg_advisory_xact_lock_shared(%s::integer, %s::integer)")
_NOT_TOO_LATE = Statement("SELECT still_so(at <= %s::bigint) FROM horizon")
_CREATE = Statement("""
    INSERT INTO transactions (gateway_reference, brand, type, method, created_at, page_token, msisdn,
        reconciliation_reference, order_row, status, version, wake_at, provider_receipt, progress,
        object)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[],
        %s::text[], %s::text[], %s::bytea[], %s::text[], %s::integer[], %s::bigint[], %s::text[],
        %s::bytea[], %s::bytea[])
""")
_ADVANCE = Statement("""
    WITH moved AS (
        UPDATE transactions AS t SET status = new.status, version = new.version,
            wake_at = new.wake_at, provider_receipt = new.provider_receipt,
            progress = new.progress, object = new.object
        FROM unnest(%s::text[], %s::text[], %s::integer[], %s::text[], %s::integer[], %s::bigint[],
            %s::text[], %s::bytea[], %s::bytea[])
            AS new (brand, gateway_reference, was, status, version, wake_at, provider_receipt,
                progress, object)
        WHERE t.brand = new.brand AND t.gateway_reference = new.gateway_reference
            AND t.version = new.was
        RETURNING 1
    )
    SELECT still_so(count(*) = %s::bigint) FROM moved
""")
_CONSUME = Statement("""
    INSERT INTO reference_uses (brand, merchant_reference, nth, at, gateway_reference)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::bigint[], %s::text[])
""")
_DEPOSIT = Statement("""
    INSERT INTO deposits (provider, provider_reference, brand, gateway_reference)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])
""")
_CONCLUDE = Statement("""
    WITH gone AS (
        DELETE FROM intents AS i
        USING unnest(%s::text[], %s::text[], %s::bigint[]) AS old (gateway_reference, kind, fence)
        WHERE i.gateway_reference = old.gateway_reference AND i.kind = old.kind
            AND i.fence <= old.fence
        RETURNING 1
    )
    SELECT still_so(count(*) >= %s::bigint) FROM gone
""")
_SCHEDULE = Statement("""
    INSERT INTO intents (brand, gateway_reference, kind, holder)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
    ON CONFLICT (brand, gateway_reference, kind) DO UPDATE SET holder = excluded.holder
""")
_JOURNAL = Statement("""
    INSERT INTO journal (at, what, actor, gateway_reference, brand, stage_before, stage_after, detail)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::text[], %s::text[])
""")
_CALLBACKS = Statement("""
    INSERT INTO callbacks (gateway_reference, brand, outcome, url, status, duration_ms, detail, at, body)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::integer[], %s::bigint[],
        %s::text[], %s::bigint[], %s::bytea[])
""")
_SUSPENSE = Statement("""
    INSERT INTO suspense (identity, reason, provider, told, gateway_reference, brand, first_at, last_at,
        times)
    SELECT * FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::bigint[], %s::bigint[], %s::integer[])
    ON CONFLICT (identity) DO UPDATE
        SET times = suspense.times + excluded.times,
            first_at = least(suspense.first_at, excluded.first_at),
            last_at = greatest(suspense.last_at, excluded.last_at)
""")

_FIGURES = Statement("""
    INSERT INTO figures (span, began_at, brand, method, provider, status, latency_s, holder, times)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::integer[], %s::bigint[], %s::bigint[])
    ON CONFLICT (span, began_at, brand, method, provider, status, latency_s, holder)
        DO UPDATE SET times = figures.times + excluded.times
""")
_BREAKERS = Statement("""
    INSERT INTO channels AS c (brand, holder, fence, breaker)
    SELECT brand, 0, fence, breaker
    FROM unnest(%s::text[], %s::bigint[], %s::bytea[]) AS new (brand, fence, breaker)
    ON CONFLICT (brand) DO UPDATE SET breaker = excluded.breaker WHERE c.fence <= excluded.fence
""")
_BREAKER_CHANGES = Statement("""
    INSERT INTO breaker_changes (brand, at, state)
    SELECT new.brand, new.at, new.state
    FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS new (brand, at, state)
    WHERE new.state <> coalesce((SELECT old.state FROM breaker_changes AS old
        WHERE old.brand = new.brand ORDER BY old.at DESC LIMIT 1), 'closed')
    ON CONFLICT (brand, at) DO NOTHING
""")


def statements_of(batch: Batch, loaded: Loaded, *, holder: int) -> Iterator[Bound]:
    """What writes each row of the batch, inside a transaction.

    Rows that others may write, too, go in the order of their keys, so that two nodes don't wait for each other.
    """
    if batch.created:
        yield from _creation(batch, loaded)
    if batch.advanced:
        moved = [
            (now.order.brand, reference, was, *progress_columns(now))
            for reference, (was, now) in sorted(batch.advanced.items())
        ]
        yield _ADVANCE.of_rows(moved, len(moved))
    yield from _intents(batch, loaded, holder)
    if batch.journal:
        yield _JOURNAL.of_rows(map(_journal_row, batch.journal))
    if batch.callbacks:
        yield _CALLBACKS.of_rows(map(_callback_row, batch.callbacks))
    if batch.suspense:
        yield _SUSPENSE.of_rows(_suspense_rows(batch.suspense))
    if batch.breakers:
        breakers = sorted(batch.breakers.items())
        yield _BREAKERS.of_rows(
            (brand, each.fence, breaker_row(each.breaker)) for brand, each in breakers
        )
        yield _BREAKER_CHANGES.of_rows(
            (brand, batch.latest_stamp, each.breaker.state) for brand, each in breakers
        )
    if figures := figures_of(batch):
        yield _FIGURES.of_rows((*key, holder, times) for key, times in sorted(figures.items()))


def _creation(batch: Batch, loaded: Loaded) -> Iterator[Bound]:
    created = batch.created
    yield _STILL_OPEN.of(*WRITER_LOCK)
    yield _NOT_TOO_LATE.of(min(each.order.created_at for each in created.values()))
    if batch.references:
        uses = dict(loaded.uses)
        rows = []
        for each in batch.references:
            key = (each.brand, each.merchant_reference)
            uses[key] = uses.get(key, 0) + 1
            rows.append((*key, uses[key], each.at, each.gateway_reference))
        yield _CONSUME.of_rows(sorted(rows))
    if batch.deposits:
        yield _DEPOSIT.of_rows(
            sorted(
                (
                    each.provider,
                    held(each.provider_reference),
                    created[each.gateway_reference].order.brand,
                    each.gateway_reference,
                )
                for each in batch.deposits
            )
        )
    yield _CREATE.of_rows(
        (*order_columns(each), *progress_columns(each)) for each in created.values()
    )


def _intents(batch: Batch, loaded: Loaded, holder: int) -> Iterator[Bound]:
    if batch.concluded:
        known = loaded.open_intents
        counted = len(batch.concluded & known.keys())
        yield _CONCLUDE.of_rows(
            ((*key, known.get(key, 0)) for key in sorted(batch.concluded)), counted
        )
    if batch.scheduled:
        transactions = loaded.ledger.transactions
        yield _SCHEDULE.of_rows(
            (transactions[reference].order.brand, reference, kind, holder)
            for reference, kind in batch.scheduled
        )


def _journal_row(line: Journaled) -> tuple[object, ...]:
    return (
        line.at,
        line.what,
        held(line.actor),
        held_or_none(line.gateway_reference),
        line.brand or "",
        line.stage_before,
        line.stage_after,
        held(line.detail),
    )


def _callback_row(callback: CallbackRecorded) -> tuple[object, ...]:
    attempt = callback.attempt
    return (
        callback.gateway_reference,
        callback.brand,
        attempt.outcome.value,
        held(attempt.url),
        attempt.status,
        attempt.duration_ms,
        held(attempt.detail),
        callback.at,
        attempt.body,
    )


def _suspense_rows(told: Iterable[SuspenseNoted]) -> list[tuple[Any, ...]]:
    """One row for all that is the same, in the order of their identities."""
    book: dict[bytes, list[SuspenseNoted]] = {}
    for each in told:
        book.setdefault(suspense_identity(each), []).append(each)
    return [
        (
            identity,
            same[0].reason.value,
            held(same[0].provider),
            held(same[0].told),
            held_or_none(same[0].gateway_reference),
            same[0].brand,
            same[0].at,
            same[-1].at,
            len(same),
        )
        for identity, same in sorted(book.items())
    ]


def suspense_identity(told: SuspenseNoted) -> bytes:
    """A digest of what makes two entries the same: who told what, about what, and why it was kept."""
    what = (told.provider, told.reason.value, told.gateway_reference, told.told)
    return sha256(json.dumps(what).encode()).digest()
