"""What a process does on the side, and no payment waits for: it logs the end of the audit log,
records refused requests, and removes what is too old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import structlog
import trio
from attrs import Factory, define, frozen

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.payments.brand_changes import RefusedRequest, refused_request
from mmo_sansio.values.clock import DAY, Instant, elapsed, format_with_microseconds
from mmo_sansio.values.problems import Problem
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.retention import LeaseLost, RetentionPace, RetentionRun, cutoffs, rows_by_name
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.interface.admin_types import AuditHead, BrandDay, NoteTopic, ProviderNote
from mmo_trio.storage.interface.audit_chain import EMPTY_HEAD
from mmo_trio.storage.interface.retention import RetentionDuty
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, log_store_failure
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.retention import RetentionStore
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

# Seconds between two lines about the end of the audit log: so much of it may be cut off unnoticed.
AUDIT_HEAD_INTERVAL_S = 3600.0

# Seconds that the store may take when the process ends.
AUDIT_HEAD_TIMEOUT_S = 5.0


@define(eq=False)
class AuditHeadLogger:
    """Writes `audit_head` to the log: the line that `mmo audit verify --seen` takes."""

    audit_log: AuditLog
    changes: int = 0
    """How often this process has found that the log no longer holds what it has logged."""
    _logged: AuditHead = EMPTY_HEAD
    """The end that was logged last."""

    async def run(self) -> None:
        """Log the end now and every hour until cancelled."""
        while True:
            await self.log_head()
            await trio.sleep(AUDIT_HEAD_INTERVAL_S)

    async def log_last_head(self) -> None:
        """Log the end once more, as the process ends."""
        with trio.move_on_after(AUDIT_HEAD_TIMEOUT_S):
            await self.log_head()

    async def log_head(self) -> None:
        """Log the end, and an error if the log no longer holds the end that was logged before."""
        store = self.audit_log.store
        logged = self._logged
        try:
            # The log of lines is elsewhere: whoever changes the database does not change both.
            if logged != EMPTY_HEAD:
                rows = await store.audit_after(logged.number - 1, limit=1)
                if [AuditHead(row.number, row.hash) for row in rows] != [logged]:
                    self.changes += 1
                    note = ProviderNote(
                        "", NoteTopic.AUDIT_LOG_CHANGED, "", self.audit_log.wall_time()
                    )
                    await store.note_provider(note)
                    logger.error("audit_log_changed", seen=f"{logged.number}:{logged.hash}")

            head = await store.audit_head()
            self._logged = head
        except Exception as error:
            log_store_failure(logger, "audit_head_unavailable", error)
        else:
            logger.info("audit_head", end=f"{head.number}:{head.hash}")


# Seconds between two writes: who sends refused requests does not make the store write for each.
REFUSALS_INTERVAL_S = 5.0

# Refused requests that wait for the next write; further ones are only counted.
REFUSALS_WAITING_MAX = 1_000

# Seconds that the last write may take when the process ends.
REFUSALS_LAST_WRITE_TIMEOUT_S = 2.0


@define(eq=False)
class RefusalRecorder:
    """Collects refused requests in memory, and writes them together; what a failing store does not
    take is dropped."""

    store: AdminStore
    wall_time: Callable[[], Instant]
    _waiting: list[RefusedRequest] = Factory(list)
    _times: Counter[BrandDay] = Factory(Counter)
    _arrived: trio.Event = Factory(trio.Event)

    def note(self, input_: CreatePayment, problem: Problem) -> None:
        """Keep a refused request for the next write, if other limits or flows would have accepted
        it."""
        refused = refused_request(input_, problem, now=self.wall_time())
        if refused is None:
            return

        # All are counted; of a flood only the first ones are kept.
        self._times[BrandDay(refused.brand, refused.request.created_at // DAY)] += 1
        if len(self._waiting) < REFUSALS_WAITING_MAX:
            self._waiting.append(refused)

        self._arrived.set()

    async def run(self) -> None:
        """Write what has come, some seconds after the first of it, until cancelled."""
        while True:
            await self._arrived.wait()
            await trio.sleep(REFUSALS_INTERVAL_S)
            await self.write()

    async def write_last(self) -> None:
        """Write what is left, as the process ends."""
        with trio.move_on_after(REFUSALS_LAST_WRITE_TIMEOUT_S):
            await self.write()

    async def write(self) -> None:
        """Write what has come since the last time."""
        if not self._times:
            return

        # Taken before the write: what comes meanwhile waits for the next one.
        times = self._times
        refused = self._waiting
        self._times = Counter()
        self._waiting = []
        self._arrived = trio.Event()
        try:
            await self.store.record_refusals(times, refused, now=self.wall_time())
        except Exception as error:
            log_store_failure(logger, "refusals_not_recorded", error, refused=times.total())


# Seconds after the start of a process; its first minutes belong to the payments.
RETENTION_FIRST_LOOK_AFTER_S = 600.0

# Seconds between two looks at whether a run is due.
RETENTION_LOOK_INTERVAL_S = 900.0

# Seconds that giving the lease back may take when the process ends.
RETENTION_LEASE_END_TIMEOUT_S = 2.0


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
    earlier_time: Callable[[], Instant]
    """Returns the time by which rows are old: the wall time, and never later than the gateway's
    own."""
    is_busy: Callable[[], bool]
    statistics: RetentionStatistics = Factory(RetentionStatistics)

    async def run(self) -> None:
        """Look every few minutes whether a run is due, until cancelled."""
        await trio.sleep(RETENTION_FIRST_LOOK_AFTER_S)
        while True:
            await self.run_if_due()
            await trio.sleep(RETENTION_LOOK_INTERVAL_S)

    async def run_if_due(self) -> None:
        """Remove what is too old, if no run has ended in the last day and no other process is at
        it."""
        pace = RetentionPace(self.store, self.section.time_share, self.is_busy)
        try:
            now = self.earlier_time()
            if elapsed(await self.store.last_run(), now) < DAY or not await pace.begin():
                return

            try:
                await self._run(pace, now)
            finally:
                # Given back also when the process ends: another one goes on at once.
                self.statistics.is_running = False
                with trio.move_on_after(RETENTION_LEASE_END_TIMEOUT_S, shield=True):
                    await pace.end()
        except (StoreUnavailable, OutcomeUnknown, LeaseLost) as error:
            self.statistics.failed_runs += 1
            logger.warning("retention_interrupted", error=str(error))
        except Exception as error:
            # Payments go on without it.
            self.statistics.failed_runs += 1
            logger.error("retention_failed", fault=describe_fault(error))

    async def _run(self, pace: RetentionPace, now: Instant) -> None:
        due = {
            duty.value: format_with_microseconds(before)[:10]
            for duty, before in cutoffs(self.section, now).items()
        }
        if not due:
            return

        # In the audit log from its beginning: one that is broken off has removed something, too.
        self.statistics.is_running = True
        logger.info("retention_begun")
        await self.audit_log.record("gateway", "retention_begun", older_than=due)
        rows = rows_by_name(
            await RetentionRun(self.store, self.section, pace, self._count).run(now)
        )
        logger.info("retention_ended", **rows)
        await self.audit_log.record("gateway", "retention_ended", rows=rows)

    def _count(self, duty: RetentionDuty, changed: int) -> None:
        self.statistics.changed[duty] += changed
