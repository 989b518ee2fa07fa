"""Old rows are removed once a day, by one process at a time, and not while payments wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.values.clock import DAY, Instant, Span, later
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.retention import cutoffs
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.interface.admin_types import AuditKey
from mmo_trio.storage.interface.retention import RetentionDuty
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.workers.housekeeping import (
    RETENTION_FIRST_LOOK_AFTER_S,
    RETENTION_LOOK_INTERVAL_S,
    RetentionWorker,
)
from tests.conformance.inputs import PAYER, reference
from tests.simulation.stores.simulated_run import at_once, quiet_server
from tests.support.aged_payments import NOW, pay

KEY = AuditKey("k1", bytes(32))
SECTION = RetentionSection()


def worker(
    store: Store, *, now: Callable[[], Instant] = lambda: NOW, is_busy: Callable[[], bool] = bool
) -> RetentionWorker:
    """A worker of a process of its own on this store."""
    return RetentionWorker(store.retention, SECTION, AuditLog(store.admin, KEY, now), now, is_busy)


async def actions(store: Store) -> list[str]:
    """Return what the audit log says."""
    return [row.event.action for row in await store.admin.audit_after(0, limit=99)]


async def test_one_of_several_processes_removes_old_rows_once_a_day(
    autojump_clock: MockClock,
) -> None:
    server, began = quiet_server(), trio.current_time()
    stores = [at_once(server, str(number)) for number in range(3)]
    await pay(stores[0], 1, 4)

    def now() -> Instant:
        return later(NOW, Span(round((trio.current_time() - began) * 1_000_000)))

    workers = [worker(each, now=now) for each in stores]
    with trio.move_on_after(RETENTION_FIRST_LOOK_AFTER_S + 10 * RETENTION_LOOK_INTERVAL_S):
        async with trio.open_nursery() as nursery:
            for each in workers:
                nursery.start_soon(each.run)
    assert await actions(stores[0]) == ["retention_begun", "retention_ended"]
    assert sum(each.statistics.changed[RetentionDuty.PERSONAL_DATA] for each in workers) == 4
    with trio.move_on_after(25 * 3600):
        await workers[0].run()
    assert len(await actions(stores[0])) == 4, "a day later"


async def test_nothing_is_removed_while_payments_wait(
    store: SqliteStore, autojump_clock: MockClock
) -> None:
    await pay(store, 1, 4)
    looks = 0

    def is_busy() -> bool:
        nonlocal looks
        looks += 1
        return looks < 200

    waiting = worker(store, is_busy=is_busy)
    with trio.move_on_after(100) as pending:
        await waiting.run_if_due()
    assert pending.cancelled_caught
    stored = await store.transaction(reference(1))
    assert stored is not None
    assert stored.order.party == PAYER
    assert not waiting.statistics.is_running
    await waiting.run_if_due()
    assert waiting.statistics.changed[RetentionDuty.PERSONAL_DATA] == 4


async def test_another_process_takes_over_when_the_lease_is_lost(autojump_clock: MockClock) -> None:
    server = quiet_server()
    store, rows = at_once(server), server.rows.connection
    await pay(store, 1, 4)

    def steal() -> bool:
        rows.execute("UPDATE retention_lease SET holder = 'another', held_until = ?", (2**62,))
        return trio.current_time() < autojump_end

    autojump_end = trio.current_time() + 60
    with capture_logs() as lines:
        await worker(store, is_busy=steal).run_if_due()
    assert "retention_interrupted" in [each["event"] for each in lines]
    lease = rows.execute("SELECT holder, held_until FROM retention_lease").fetchall()
    assert lease == [("another", 2**62)], "the lease of another is not ended"
    assert await store.retention.last_run() == 0


async def test_a_store_that_cannot_serve_ends_a_run_and_no_process(
    store: SqliteStore, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = worker(store)

    async def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("it is away")

    with capture_logs() as lines, monkeypatch.context() as patched:
        patched.setattr(type(failing.store), "age", refuse)
        await failing.run_if_due()
    assert [each["event"] for each in lines] == ["retention_begun", "retention_interrupted"]
    assert failing.statistics.failed_runs == 1
    assert await store.retention.last_run() == 0


async def test_a_fault_of_ours_ends_a_run_and_no_process(
    store: SqliteStore, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = worker(store)

    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    with capture_logs() as lines, monkeypatch.context() as patched:
        patched.setattr(type(failing.store), "age", fail)
        await failing.run_if_due()
    assert [each["event"] for each in lines] == ["retention_begun", "retention_failed"]


def test_what_is_switched_off_has_no_cutoff() -> None:
    off = RetentionSection(callback_bodies=None, personal_data=None, hourly_counts=None)
    assert cutoffs(off, NOW) == {}


def test_cutoffs_are_whole_days() -> None:
    for before in cutoffs(SECTION, NOW).values():
        assert before % DAY == 0
