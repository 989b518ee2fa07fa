"""Lets time pass in a sandbox: everything that falls due on the way happens in its order, then the clock is there."""

from __future__ import annotations

from pathlib import Path

from attrs import define

from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_trio.sandbox.operator_worker import SandboxWorker
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import WallClock, write_offset
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scanner

STRIDE: Span = SECOND
"""Payments whose own times come within it are woken together, in their order: a thousand that are pending for three
days are asked about 80 times each."""


@define(eq=False)
class SandboxClock:
    """Moves wall and breaker time forward; deadlines of input and output stay real."""

    clock: WallClock
    store: Store
    scanner: Scanner
    operator: SandboxWorker
    providers: ProviderWorker
    kept_in: Path
    """The file that the offset survives a restart in."""

    async def advance(self, span: Span) -> Instant:
        """The new time, once everything that was due on the way is decided, in the order of its due time, and
        committed. Raises ValueError for a step back and StoreUnavailable when the store can't serve."""
        async with self.scanner.held:
            await self._settle()
            target = self.clock.now() + span  # Counted from what was accepted before the call.
            write_offset(self.kept_in, self.clock.offset + span)  # A restart goes on, never back.
            while (due := await self._next_due()) is not None and due <= target:
                self.clock.advance(max(0, min(self._stop(due), target) - self.clock.now()))
                await self._settle()
            self.clock.advance(max(0, target - self.clock.now()))
            await self._settle()
            write_offset(self.kept_in, self.clock.offset)
            return self.clock.now()

    async def _settle(self) -> None:
        """Do everything that is due by now, and what follows from it at once. A result that was due before a question
        has been told before it is asked: time goes on meanwhile, so both go by one `now`."""
        now = self.clock.now()
        await self.operator.wait_idle(now)
        await self.scanner.wake_all_due(now)
        await self.providers.wait_idle()
        self.scanner.kick()

    def _stop(self, due: Instant) -> Instant:
        """Where to stop next: as far on as nothing but payments' own times comes up."""
        operator = self.operator.next_due()
        if operator is not None and operator <= due + STRIDE:
            return due
        return due + STRIDE

    async def _next_due(self) -> Instant | None:
        """When something happens next, by the payments' own times or the operator's."""
        times = (await self.store.next_wake(), self.operator.next_due())
        return min((at for at in times if at is not None), default=None)
