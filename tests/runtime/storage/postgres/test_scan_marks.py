"""An old snapshot, such as that of a dump, keeps dead index entries; scans of queues do not pass over all of them."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.values.clock import Span, later
from mmo_trio.storage.conformance.driver import NOON, submit_batch
from mmo_trio.storage.conformance.inputs import DELIVERED, creation, reference, succeeded
from mmo_trio.storage.postgres import open_postgres, scan_marks
from mmo_trio.storage.postgres.scan_marks import (
    SETTLED_AFTER_S,
    WHOLE_SCAN_INTERVAL_MAX_S,
    WHOLE_SCAN_INTERVAL_S,
    ScanMarks,
    WholeScans,
)

# isort: split
import psycopg

PAYMENTS, ROUNDS = 400, 8


def test_a_mark_is_used_once_it_has_settled() -> None:
    marks = ScanMarks()
    marks.set("acme", 10.0, 5)
    assert marks.begin("acme", 10.0 + SETTLED_AFTER_S - 0.1) == 0
    marks.set("acme", 11.0, 9)
    marks.set("acme", 12.0, 7)
    assert marks.begin("acme", 10.0 + SETTLED_AFTER_S) == 5
    assert marks.begin("acme", 11.0 + SETTLED_AFTER_S) == 9
    assert marks.begin("globex", 99.0) == 0
    marks.forget(["acme", "globex"])
    assert marks.begin("acme", 99.0) == 0


def test_a_slow_whole_scan_is_rarer() -> None:
    scans = WholeScans()
    assert scans.is_due(0.0)
    scans.record(0.0, 0.001)
    assert not scans.is_due(WHOLE_SCAN_INTERVAL_S)
    assert scans.is_due(0.001 + WHOLE_SCAN_INTERVAL_S)
    scans.record(10.0, 10.04)
    assert not scans.is_due(10.0 + 8)
    assert scans.is_due(10.05 + 8)
    scans.record(30.0, 31.0)
    assert scans.is_due(31.0 + WHOLE_SCAN_INTERVAL_MAX_S)


@pytest.mark.finding("postgres-F8")
async def test_claims_under_an_old_snapshot_do_not_read_what_is_gone(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_marks, "SETTLED_AFTER_S", 0.0)
    async with open_postgres(database, serving=True) as store:
        assert store.ownership
        with psycopg.connect(database) as dump, psycopg.connect(database, autocommit=True) as staff:
            dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            dump.execute("SELECT FROM brands")
            fences: dict[str, int] = {}
            read = []
            for round in range(ROUNDS):
                numbers = range(round * PAYMENTS // ROUNDS, (round + 1) * PAYMENTS // ROUNDS)
                for event in (creation, lambda n: BeginSubmission(reference(n)), succeeded):
                    await submit_batch(store, *((event(n), later(NOON, Span(n))) for n in numbers))
                fences |= {each.brand: each.fence for each in await store.ownership.claim(known=fences)}
                before = blocks_read(staff)
                works = await store.ownership.claim_callbacks({"acme": PAYMENTS}, known=fences)
                read.append(blocks_read(staff) - before)
                assert len(works) == len(numbers)
                concluded = [CallbackConcluded(each.transaction.reference, DELIVERED, fences["acme"]) for each in works]
                await submit_batch(store, *((each, later(NOON, Span(PAYMENTS))) for each in concluded))
    assert read[-1] < 2 * min(read[1:])


def blocks_read(staff: psycopg.Connection[Any]) -> int:
    """Return how many blocks of the queue and its indexes have been read by all sessions that are idle."""
    staff.execute("SELECT pg_stat_force_next_flush()")
    staff.execute("SELECT pg_stat_clear_snapshot()")
    row = staff.execute(
        "SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables"
        " WHERE relname = 'intents'"
    ).fetchone()
    assert row is not None
    return int(row[0])
