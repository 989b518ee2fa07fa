"""The end of the audit log is logged every hour, and a log that no longer holds it is reported."""

from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.values.clock import Instant
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.storage.interface.admin_types import AuditKey
from mmo_trio.storage.sql.statements import SqlQuery, execute
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.workers.housekeeping import AUDIT_HEAD_INTERVAL_S, AuditHeadLogger
from tests.support.sqlite_store import StoreFile

KEY = AuditKey("k1", bytes(32))


@pytest.fixture
def audit_log(store: SqliteStore) -> AuditLog:
    """An audit log without rows."""
    return AuditLog(store.admin, KEY, lambda: Instant(1))


async def run_for(head_logger: AuditHeadLogger, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await head_logger.run()


async def test_the_end_is_logged_at_the_start_every_hour_and_at_the_stop(
    audit_log: AuditLog, autojump_clock: MockClock
) -> None:
    head_logger = AuditHeadLogger(audit_log)
    with capture_logs() as lines:
        await audit_log.record("user:ada", "looked")
        await run_for(head_logger, AUDIT_HEAD_INTERVAL_S * 2 + 1)
        await audit_log.record("user:ada", "looked")
        await head_logger.log_last_head()
    head = await audit_log.store.audit_head()
    assert [each["event"] for each in lines] == ["audit_head"] * 4
    assert [each["end"][:2] for each in lines] == ["1:", "1:", "1:", "2:"]
    assert lines[-1]["end"] == f"2:{head.hash}"


async def _cut_off_all_but_the_first(store: SqliteStore) -> None:
    """Do what only somebody does who writes to the database."""

    def cut_off() -> SqlQuery[None]:
        yield from execute("DELETE FROM audit WHERE number > 1")
        yield from execute(
            "UPDATE audit_head SET (number, hash) = (SELECT number, hash FROM audit)"
        )

    await store.admin.write(cut_off)


async def test_a_log_whose_end_was_cut_off_is_reported(
    audit_log: AuditLog, store: SqliteStore, autojump_clock: MockClock
) -> None:
    for _ in range(3):
        await audit_log.record("user:ada", "looked")
    head_logger = AuditHeadLogger(audit_log)
    with capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_for, head_logger, AUDIT_HEAD_INTERVAL_S * 3 + 1)
            await trio.sleep(AUDIT_HEAD_INTERVAL_S / 2)
            seen = await audit_log.store.audit_head()
            await _cut_off_all_but_the_first(store)
            await audit_log.record("user:eve", "looked")
            await audit_log.record("user:eve", "looked")
    changed = [each for each in lines if each["event"] == "audit_log_changed"]
    assert [(each["log_level"], each["seen"]) for each in changed] == [("error", f"3:{seen.hash}")]
    assert head_logger.changes == 1


async def test_a_store_that_cannot_answer_stops_nothing(
    audit_log: AuditLog, autojump_clock: MockClock
) -> None:
    head_logger = AuditHeadLogger(audit_log)
    async with StoreFile().open() as store:
        closed = AuditHeadLogger(AuditLog(store.admin, KEY, lambda: Instant(1)))
    with capture_logs() as lines:
        await run_for(closed, 1)
        await run_for(head_logger, 1)
    assert [each["event"] for each in lines] == ["audit_head_unavailable", "audit_head"]
