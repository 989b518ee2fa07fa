"""Wakes transactions whose time has come, and takes on work that the dead have left (clauses S3, S6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import TransactionWoke
from mmo_sansio.resilience.clock_guard import ClockGuard
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant
from mmo_trio.engine.engine import Enqueue
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

ROUND_SIZE_MAX = 128
"""Transactions that are woken, and intents that are taken on, in one round: half of what the engine decides in one
batch, so that other inputs get their turn between."""

SCAN_INTERVAL_S = 1.0
"""How often it looks for orphans, and at the latest for times that have come up meanwhile."""

SCAN_INTERVAL_MIN_S = 0.02
"""The shortest rest between two rounds, so that a transaction that can't be woken doesn't keep the store busy."""

RETRY_DELAY_S = 1.0
"""How long it rests when the store can't serve."""


class SchedulerStore(Protocol):
    """What the scanner needs of a store; see :class:`mmo_trio.storage.interface.store.Store`."""

    async def next_wake(self) -> Instant | None: ...
    async def due(self, now: Instant, *, limit: int) -> Sequence[str]: ...
    async def claim_abandoned(self, *, limit: int) -> Sequence[WorkItem]: ...


@define(eq=False)
class Scheduler:
    """One for each process; the store gives each its share of what is due."""

    store: SchedulerStore
    post: Enqueue
    dispatch: Callable[[WorkItem], None]
    """Gives an orphan to the worker that does it."""
    has_room: Callable[[], bool]
    """Whether the workers can take on orphans."""
    now: Callable[[], Instant]
    monotonic: Callable[[], MonotonicInstant]
    """Moves along with `now` when a sandbox's clock is advanced."""
    clock_guard: ClockGuard = Factory(ClockGuard)
    scan_interval_s: float = SCAN_INTERVAL_S
    """How often it looks."""
    lock: trio.Lock = Factory(trio.Lock)
    """Whoever holds it is the only one who wakes."""
    _wake_up: trio.Event = Factory(trio.Event)
    _next_claim_at: float = -math.inf
    """Trio's time when it looks for orphans next."""

    def wake_up(self) -> None:
        """Look again now: the clock has moved, or something due soon is new."""
        self._wake_up.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Scan until cancelled; a store that fails is tried again."""
        task_status.started()
        while True:
            try:
                async with self.lock:
                    rest_s = await self._run_round()
            except (StoreUnavailable, OutcomeUnknown) as error:
                logger.warning("schedule_scan_failed", error=str(error))
                rest_s = RETRY_DELAY_S
            except Exception as error:
                logger.error("schedule_scan_failed", fault=describe_fault(error))
                rest_s = RETRY_DELAY_S
            with trio.move_on_after(rest_s):
                await self._wake_up.wait()
            self._wake_up = trio.Event()

    async def wake_all_due(self, until: Instant) -> int:
        """Wake everything that is due by then; how many there were. For a sandbox's clock, which holds `held`.

        Raises StoreUnavailable when the store can't serve.
        """
        count = 0
        while True:
            woken = await self._wake_due(until)
            count += woken
            if woken < ROUND_SIZE_MAX:
                return count

    async def _run_round(self) -> float:
        """Do what is to be done; how many seconds to rest then."""
        now = self.now()
        believed = self.clock_guard.is_trusted(wall=now, monotonic=self.monotonic())
        woken = await self._wake_due(now) if believed else 0
        taken_on = await self._claim_abandoned()
        if ROUND_SIZE_MAX in (woken, taken_on):
            return SCAN_INTERVAL_MIN_S
        return await self._wait_s() if believed else self.scan_interval_s

    async def _claim_abandoned(self) -> int:
        """Hand over one round of them, when it is time for it; how many there were."""
        if trio.current_time() < self._next_claim_at or not self.has_room():
            return 0
        orphans = await self.store.claim_abandoned(limit=ROUND_SIZE_MAX)
        for each in orphans:
            self.dispatch(each)
        rest_s = SCAN_INTERVAL_MIN_S if len(orphans) == ROUND_SIZE_MAX else self.scan_interval_s
        self._next_claim_at = trio.current_time() + rest_s
        return len(orphans)

    async def _wait_s(self) -> float:
        at = await self.store.next_wake()
        if at is None:
            return self.scan_interval_s
        return min(max((at - self.now()) / clock.SECOND, SCAN_INTERVAL_MIN_S), self.scan_interval_s)

    async def _wake_due(self, until: Instant) -> int:
        """Wake one round of them, in the order of their times; how many there were. Raises the first error once all
        have been tried."""
        woken = await self.store.due(until, limit=ROUND_SIZE_MAX)
        calls = [self.post(TransactionWoke(reference)) for reference in woken]
        errors: list[Exception] = []
        for call in calls:
            try:
                await call.reply()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return len(woken)
