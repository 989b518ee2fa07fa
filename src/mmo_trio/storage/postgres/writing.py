"""The net effect of a batch in one round trip, with conditions that fail when another node was quicker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from mmo_sansio.changes import CallbackRecorded, Journaled, SuspenseNoted
from mmo_trio.storage.batch import Batch
from mmo_trio.storage.columns import order_columns, progress_columns
from mmo_trio.storage.office.figures import figures_of
from mmo_trio.storage.postgres import channels
from mmo_trio.storage.postgres.bridge import Connection
from mmo_trio.storage.postgres.horizon import WRITER_LOCK
from mmo_trio.storage.postgres.loading import Loaded
from mmo_trio.storage.postgres.text import held, held_or_none
from mmo_trio.storage.rows import breaker_row

_STILL_OPEN = "SELECT pg_advisory_xact_lock_shared(%s, %s)"
_NOT_TOO_LATE = "SELECT still_so(at <= %s::bigint) FROM horizon"
_CREATE = """
    INSERT INTO transactions (gateway_reference, brand, type, method, created_at, page_token, msisdn,
        reconciliation_reference, order_row, status, version, wake_at, provider_receipt, progress,
        object)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[],
        %s::text[], %s::text[], %b::bytea[], %s::text[], %s::integer[], %s::bigint[], %s::text[],
        %b::bytea[], %b::bytea[])
"""
_ADVANCE = """
    WITH moved AS (
        UPDATE transactions AS t SET status = new.status, version = new.version,
            wake_at = new.wake_at, provider_receipt = new.provider_receipt,
            progress = new.progress, object = new.object
        FROM unnest(%s::text[], %s::text[], %s::integer[], %s::text[], %s::integer[], %s::bigint[],
            %s::text[], %b::bytea[], %b::bytea[])
            AS new (brand, gateway_reference, was, status, version, wake_at, provider_receipt,
                progress, object)
        WHERE t.brand = new.brand AND t.gateway_reference = new.gateway_reference
            AND t.version = new.was
        RETURNING 1
    )
    SELECT still_so(count(*) = %s) FROM moved
"""
_CONSUME = """
    INSERT INTO reference_uses (brand, merchant_reference, nth, at, gateway_reference)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::bigint[], %s::text[])
"""
_DEPOSIT = """
    INSERT INTO deposits (provider, provider_reference, brand, gateway_reference)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])
"""
_CONCLUDE = """
    WITH gone AS (
        DELETE FROM intents AS i
        USING unnest(%s::text[], %s::text[], %s::bigint[]) AS old (gateway_reference, kind, fence)
        WHERE i.gateway_reference = old.gateway_reference AND i.kind = old.kind
            AND i.fence <= old.fence
        RETURNING 1
    )
    SELECT still_so(count(*) >= %s) FROM gone
"""
_SCHEDULE = """
    INSERT INTO intents (brand, gateway_reference, kind, holder)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
    ON CONFLICT (brand, gateway_reference, kind) DO UPDATE SET holder = excluded.holder
"""
_JOURNAL = """
    INSERT INTO journal (at, what, actor, gateway_reference, brand, stage_before, stage_after, detail)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::text[], %s::text[])
"""
_CALLBACKS = """
    INSERT INTO callbacks (gateway_reference, brand, outcome, url, status, duration_ms, detail, at, body)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::integer[], %s::bigint[],
        %s::text[], %s::bigint[], %b::bytea[])
"""
_SUSPENSE = """
    INSERT INTO suspense (identity, reason, provider, told, gateway_reference, brand, first_at, last_at,
        times)
    SELECT * FROM unnest(%b::bytea[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::bigint[], %s::bigint[], %s::integer[])
    ON CONFLICT (identity) DO UPDATE
        SET times = suspense.times + excluded.times, last_at = excluded.last_at
"""

_FIGURES = """
    INSERT INTO figures (span, began_at, brand, method, provider, status, latency_s, holder, times)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::integer[], %s::bigint[], %s::bigint[])
    ON CONFLICT (span, began_at, brand, method, provider, status, latency_s, holder)
        DO UPDATE SET times = figures.times + excluded.times
"""
_BREAKER_CHANGES = """
    INSERT INTO breaker_changes (brand, at, state)
    SELECT new.brand, new.at, new.state
    FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS new (brand, at, state)
    WHERE new.state <> coalesce((SELECT old.state FROM breaker_changes AS old
        WHERE old.brand = new.brand ORDER BY old.at DESC LIMIT 1), 'closed')
    ON CONFLICT (brand, at) DO NOTHING
"""


async def write(connection: Connection, batch: Batch, loaded: Loaded, *, holder: int) -> None:
    """Write each row of the batch; inside a pipeline and a transaction.

    Rows that others may write, too, go in the order of their keys, so that two nodes don't wait for each other.
    """
    if batch.created:
        await _write_created(connection, batch, loaded)
    if batch.advanced:
        await _execute(
            connection,
            _ADVANCE,
            [
                (now.order.brand, reference, was, *progress_columns(now))
                for reference, (was, now) in sorted(batch.advanced.items())
            ],
            len(batch.advanced),
        )
    await _write_intents(connection, batch, loaded, holder)
    if batch.journal:
        await _execute(connection, _JOURNAL, map(_journal_row, batch.journal))
    if batch.callbacks:
        await _execute(connection, _CALLBACKS, map(_callback_row, batch.callbacks))
    if batch.suspense:
        await _execute(connection, _SUSPENSE, _suspense_rows(batch.suspense))
    if batch.breakers:
        kept = [
            (each.brand, each.fence, breaker_row(each.breaker)) for each in batch.breakers.values()
        ]
        await channels.keep(connection, kept)
        states = [
            (each.brand, batch.latest_stamp, each.breaker.state.value)
            for each in batch.breakers.values()
        ]
        await _execute(connection, _BREAKER_CHANGES, sorted(states))
    if figures := figures_of(batch):
        counted = [(*key, holder, times) for key, times in sorted(figures.items())]
        await _execute(connection, _FIGURES, counted)


async def _write_created(connection: Connection, batch: Batch, loaded: Loaded) -> None:
    created = batch.created
    earliest = min(each.order.created_at for each in created.values())
    await connection.execute(_STILL_OPEN.encode(), WRITER_LOCK)
    await connection.execute(_NOT_TOO_LATE.encode(), (earliest,))
    if batch.references:
        uses = dict(loaded.uses)
        rows = []
        for each in batch.references:
            key = (each.brand, each.merchant_reference)
            uses[key] = uses.get(key, 0) + 1
            rows.append((*key, uses[key], each.at, each.gateway_reference))
        await _execute(connection, _CONSUME, sorted(rows))
    if batch.deposits:
        await _execute(
            connection,
            _DEPOSIT,
            sorted(
                (
                    each.provider,
                    held(each.provider_reference),
                    created[each.gateway_reference].order.brand,
                    each.gateway_reference,
                )
                for each in batch.deposits
            ),
        )
    await _execute(
        connection,
        _CREATE,
        [(*order_columns(each), *progress_columns(each)) for each in created.values()],
    )


async def _write_intents(connection: Connection, batch: Batch, loaded: Loaded, holder: int) -> None:
    if batch.concluded:
        known = loaded.open_intents
        counted = len(batch.concluded & known.keys())
        old = [(*key, known.get(key, 0)) for key in sorted(batch.concluded)]
        await _execute(connection, _CONCLUDE, old, counted)
    if batch.scheduled:
        transactions = loaded.ledger.transactions
        rows = [
            (transactions[reference].order.brand, reference, kind.value, holder)
            for reference, kind in batch.scheduled
        ]
        await _execute(connection, _SCHEDULE, rows)


async def _execute(
    connection: Connection, statement: str, rows: Iterable[Sequence[Any]], *further: object
) -> None:
    """All rows travel as arrays of their columns, so that a statement is prepared once, whatever their number."""
    await connection.execute(
        statement.encode(), (*(list(column) for column in zip(*rows, strict=True)), *further)
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
