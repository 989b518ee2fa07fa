"""Watches the machine's clocks, and saves the gateway's own time for the process after this one (S3)."""

from __future__ import annotations

from typing import Protocol

import structlog
import trio
from attrs import define

from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.values.clock import SECOND
from mmo_trio.storage.interface.failures import log_store_failure
from mmo_trio.system.clock import GatewayClock

logger = structlog.get_logger(__name__)

OBSERVATION_INTERVAL_S = 1.0
"""Seconds between two comparisons of the clocks: how long a step of the wall clock may go unnoticed."""

SAVE_INTERVAL_S = 60.0
"""Seconds between two records of the clocks, while nothing steps."""


class ClockStore(Protocol):
    """The store as the clock monitor needs it; see :class:`mmo_trio.storage.interface.store.BatchStore`."""

    async def save_clock_record(self, record: ClockRecord) -> None: ...


@define(eq=False)
class ClockMonitor:
    """Runs once in each process."""

    clock: GatewayClock
    store: ClockStore
    _save_at: float = 0.0
    """Trio's time of the next record."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Compare the clocks every second until cancelled, and save a record at the start, every minute, and when wall
        time has changed."""
        offset = self.clock.guard.utc_offset
        await self._save()
        task_status.started()
        while True:
            await trio.sleep(OBSERVATION_INTERVAL_S)
            step = self.clock.observe()
            if step is not None:
                logger.warning("wall_clock_stepped", seconds=round(step / SECOND, 3))
            if self.clock.guard.utc_offset != offset:
                offset = self.clock.guard.utc_offset
                logger.warning("wall_clock_accepted", seconds_ahead=round(offset / SECOND, 3))
                self._save_at = 0.0
            if trio.current_time() >= self._save_at:
                await self._save()

    async def _save(self) -> None:
        """Save a record; when that fails, a later one does as well."""
        self._save_at = trio.current_time() + SAVE_INTERVAL_S
        try:
            await self.store.save_clock_record(self.clock.record())
        except Exception as error:
            log_store_failure(logger, "clock_record_failed", error)
