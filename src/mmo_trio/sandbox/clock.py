"""Advances the clock of a sandbox; everything that is due on the way happens in its order."""

from __future__ import annotations

from pathlib import Path

from attrs import define

from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock, write_offset
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scheduler

# Transactions that are due within this span are woken together, in their order, as a thousand that
# are pending for three days are polled 80 times each.
BATCH_WINDOW: Span = SECOND


@define(eq=False)
class SandboxClock:
    """Moves the wall clock and the breakers' clock forward; I/O deadlines stay real."""

    clock: GatewayClock
    store: Store
    scheduler: Scheduler
    operator: SandboxOperatorWorker | None
    """The simulated operator; None where only other providers are configured."""
    providers: ProviderWorker
    offset_file: Path
    """The file in which the offset survives a restart."""

    async def advance(self, span: Span) -> Instant:
        """Return the new time once everything that was due on the way is decided, in the order of
        its due time, and committed. Raises ValueError for a negative span and StoreUnavailable when
        the store can't serve."""
        # The scheduler's own rounds would wake payments out of their order meanwhile.
        async with self.scheduler.lock:
            try:
                return await self._advance(span)
            finally:
                if self.operator is not None:
                    self.operator.hold_time(None)

    async def _advance(self, span: Span) -> Instant:
        await self._run_due_work(self.clock.own_time())
        # Counted from what was accepted before the call.
        target = later(self.clock.own_time(), span)
        # A restart goes on, never back.
        write_offset(self.offset_file, Span(self.clock.offset + span))

        # From one due time to the next: what happens at each makes new ones, which come in order.
        while (due := await self._next_due_at()) is not None and due <= target:
            await self._stop_at(min(self._next_stop(due), target))

        # Where nothing else is due, the clock still has to arrive.
        await self._stop_at(target)

        # Real time that has passed meanwhile is part of the span, so the offset is smaller.
        write_offset(self.offset_file, self.clock.offset)
        return self.clock.wall_time()

    async def _stop_at(self, stop: Instant) -> None:
        self.clock.advance(Span(max(0, stop - self.clock.own_time())))
        await self._run_due_work(stop)

    async def _run_due_work(self, until: Instant) -> None:
        """Do everything that is due by then, and everything that follows at once. Time passes
        meanwhile, so operator and scheduler go by the same instant: neither a poll nor an expiry
        is overtaken by a result that is due a moment later."""
        # 1. The operator's results, before anything is polled or expires.
        if self.operator is not None:
            self.operator.hold_time(until)
            await self.operator.wait_idle(until)

        # 2. The payments, and the conversations with operators that these begin.
        await self.scheduler.wake_all_due(until)
        await self.providers.wait_idle()
        self.scheduler.wake_up()

    def _next_stop(self, due: Instant) -> Instant:
        """Return the next stop: after BATCH_WINDOW, or when the operator has something due."""
        operator = self._operator_next_due()
        if operator is not None and operator <= due + BATCH_WINDOW:
            return due
        return later(due, BATCH_WINDOW)

    async def _next_due_at(self) -> Instant | None:
        """Return when something happens next, by the payments' own times or the operator's."""
        times = (await self.store.next_wake(), self._operator_next_due())
        return min((at for at in times if at is not None), default=None)

    def _operator_next_due(self) -> Instant | None:
        if self.operator is None:
            return None
        return self.operator.next_due()
