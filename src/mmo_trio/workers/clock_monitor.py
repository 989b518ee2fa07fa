"""Watches the machine's clocks, compares them with the store's, and saves the gateway's own time
for the process after this one (S3)."""

from __future__ import annotations

import structlog
import trio
from attrs import define

from mmo_sansio.resilience.clock_guard import ClockComparison, compare_clocks
from mmo_sansio.values.clock import SECOND, Span, earlier
from mmo_trio.storage.interface.store import StoreUnusable, log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock

logger = structlog.get_logger(__name__)

# Seconds between two comparisons of the clocks: how long a step of the wall clock may go unnoticed.
OBSERVATION_INTERVAL_S = 1.0

# Seconds between two records of the clocks, while nothing steps.
SAVE_INTERVAL_S = 60.0

# Seconds between two comparisons with the store's clock.
COMPARISON_INTERVAL_S = 10.0


@define(eq=False)
class ClockMonitor:
    """Runs once in each process."""

    clock: GatewayClock
    store: Store
    _save_at: float = 0.0
    """Trio's time of the next record."""
    _compare_at: float = 0.0
    """Trio's time of the next comparison with the store's clock."""
    fault: str | None = None
    """Why this process should get no requests, as far as its clock is concerned; None when it
    may."""
    ahead_of_store: Span | None = None
    """By how much this machine's wall time was ahead of the store's clock at the last comparison,
    at least; negative when behind, None before the first one and for a store without a clock."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Compare the clocks every second until cancelled, and save a record every minute, and when
        wall time has changed. The engine has saved one at its start."""
        self._save_at = trio.current_time() + SAVE_INTERVAL_S
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._observe)
            task_status.started()
            await self._keep_records()

    async def _observe(self) -> None:
        """Look at the clocks, however long the store takes for its part."""
        # What was there at the start is known, and not said.
        offset = self.clock.guard.utc_offset
        suspension = self.clock.last_suspension
        while True:
            step = self.clock.observe()
            if step is not None:
                logger.warning("wall_clock_stepped", seconds=round(step / SECOND, 3))

            # A step that has lasted counts as right: it is saved at once, so that the next process
            # begins with it.
            if self.clock.guard.utc_offset != offset:
                offset = self.clock.guard.utc_offset
                logger.warning("wall_clock_accepted", seconds_ahead=round(offset / SECOND, 3))
                self._save_at = 0.0

            if self.clock.last_suspension != suspension:
                suspension = self.clock.last_suspension
                assert suspension is not None, "a suspension stays known"
                logger.warning("process_resumed", seconds=round(suspension.lasted / SECOND, 3))

            await trio.sleep(OBSERVATION_INTERVAL_S)

    async def _keep_records(self) -> None:
        while True:
            await trio.sleep(OBSERVATION_INTERVAL_S)
            if trio.current_time() >= self._save_at:
                await self._save()

            if trio.current_time() >= self._compare_at:
                await self._compare_with_store()

    async def _compare_with_store(self) -> None:
        """Compare with the store's clock; when that fails, the last result stays in force."""
        self._compare_at = trio.current_time() + COMPARISON_INTERVAL_S
        try:
            found = await compare_with_store(self.clock, self.store)
        except Exception as error:
            log_store_failure(logger, "clock_comparison_failed", error)
            return

        self.fault = None
        self.ahead_of_store = None
        if found is None:
            return

        self.ahead_of_store = found.ahead
        if not found.is_notable:
            return

        # A difference that is only notable is said, and the process goes on to serve.
        if found.forbids_service:
            self.fault = describe_difference(found)

        logger.warning(
            "clock_differs_from_store",
            seconds_ahead=round(found.ahead / SECOND, 3),
            machines_agreeing_with_store=found.agreeing,
            machines_differing=found.differing,
            once_a_minute=True,
        )

    async def _save(self) -> None:
        """Save a record; when that fails, a later one does as well."""
        self._save_at = trio.current_time() + SAVE_INTERVAL_S
        try:
            await self.store.save_clock_record(self.clock.record())
        except Exception as error:
            log_store_failure(logger, "clock_record_failed", error)


async def compare_with_store(clock: GatewayClock, store: Store) -> ClockComparison | None:
    """Compare the wall time that is recorded with the store's clock; None when it has none. Raises
    what the store raises."""
    # The answer's time lies between these two, so the difference is known within them.
    before = clock.wall_time()
    found = await store.read_clock(clock.boot_id())
    if found is None:
        return None

    # A sandbox's clock is moved by people; the machine's own is compared.
    offset = clock.offset
    return compare_clocks(
        found, before=earlier(before, offset), after=earlier(clock.wall_time(), offset)
    )


async def require_right_clock(clock: GatewayClock, store: Store) -> None:
    """Return when this machine's wall time is near enough to the store's. Raises StoreUnusable, and
    what the store raises."""
    found = await compare_with_store(clock, store)
    if found is not None and found.forbids_start:
        raise StoreUnusable(
            f"{describe_difference(found)}: set the clock of this machine right, or that of the "
            f"database's server"
        )


def describe_difference(comparison: ClockComparison) -> str:
    """Return a sentence about a difference between the clocks."""
    side = "behind"
    if comparison.ahead > 0:
        side = "ahead of"

    return (
        f"this machine's clock is {abs(comparison.ahead) / SECOND:.0f} s {side} the clock of "
        f"the database"
    )
