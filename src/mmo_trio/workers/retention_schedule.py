"""Removes what is too old once a day, in one of the processes that share a store."""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio
from attrs import Factory, define, frozen

from mmo_sansio.values.clock import DAY, Instant, elapsed, format_with_microseconds
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.retention import LeaseLost, RetentionPace, RetentionReport, RetentionRun, cutoffs
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.interface.retention import RetentionDuty
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sql.retention import RetentionStore
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

FIRST_LOOK_AFTER_S = 600.0
"""Seconds after the start of a process; its first minutes belong to the payments."""
LOOK_INTERVAL_S = 900.0
"""Seconds between two looks at whether a run is due."""
LEASE_END_TIMEOUT_S = 2.0
"""Seconds that giving the lease back may take when the process ends."""


@define
class RetentionStatistics:
    """Counts what this process has removed since its start."""

    changed: dict[RetentionDuty, int] = Factory(lambda: dict.fromkeys(RetentionDuty, 0))
    """Rows that were removed or masked."""
    is_running: bool = False
    failed_runs: int = 0
    """Runs that ended early."""


@frozen
class RetentionWorker:
    """Runs once in each process; the lease lets one of them work."""

    store: RetentionStore
    section: RetentionSection
    audit_log: AuditLog
    now: Callable[[], Instant]
    """Returns the time by which rows are old: the wall time, and never later than the gateway's own."""
    is_busy: Callable[[], bool]
    statistics: RetentionStatistics = Factory(RetentionStatistics)

    async def run(self) -> None:
        """Look every few minutes whether a run is due, until cancelled."""
        await trio.sleep(FIRST_LOOK_AFTER_S)
        while True:
            await self.run_if_due()
            await trio.sleep(LOOK_INTERVAL_S)

    async def run_if_due(self) -> None:
        """Remove what is too old, if no run has ended in the last day and no other process is at it."""
        pace = RetentionPace(self.store, self.section.time_share, self.is_busy)
        try:
            now = self.now()
            if elapsed(await self.store.last_run(), now) < DAY or not await pace.begin():
                return
            try:
                await self._run(pace, now)
            finally:
                self.statistics.is_running = False
                with trio.move_on_after(LEASE_END_TIMEOUT_S, shield=True):
                    await pace.end()
        except (StoreUnavailable, OutcomeUnknown, LeaseLost) as error:
            self.statistics.failed_runs += 1
            logger.warning("retention_interrupted", error=str(error))
        except Exception as error:  # Payments go on without it.
            self.statistics.failed_runs += 1
            logger.error("retention_failed", fault=describe_fault(error))

    async def _run(self, pace: RetentionPace, now: Instant) -> None:
        due = {duty.value: format_with_microseconds(before)[:10] for duty, before in cutoffs(self.section, now).items()}
        if not due:
            return
        self.statistics.is_running = True
        logger.info("retention_begun")
        await self.audit_log.record("gateway", "retention_begun", older_than=due)
        report = await RetentionRun(self.store, self.section, pace, self._count).run(now)
        await self._report(report)

    async def _report(self, report: RetentionReport) -> None:
        logger.info("retention_ended", **report.rows())
        await self.audit_log.record("gateway", "retention_ended", rows=report.rows())

    def _count(self, duty: RetentionDuty, changed: int) -> None:
        self.statistics.changed[duty] += changed
