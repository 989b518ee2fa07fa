"""Knows when something will happen in a simulated world, so that the time in which nothing does passes at once.

A gateway at rest looks at its clocks, its leases and its store some ten times a second, and so a quiet day would be a
million wake-ups. While the world is at rest, time passes in steps instead, as for machines that all sleep at once: at
the end of a step every part of a gateway finds that its time has come. That is a standstill that gateways must bear in
any case, and payments, notifications and faults are never passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush

import trio
from attrs import Factory, define

from mmo_trio.testing.simulated_trace import SimulationTrace

QUIET_S = 3.0
"""Seconds in which nothing has happened before the world counts as at rest."""
SHORT_WAIT_S = 0.05
"""A task that waits for less than this is at work: for a name, or for a statement."""


@define(eq=False)
class WorldSchedule:
    """Holds the moments for which somebody outside the gateways waits."""

    trace: SimulationTrace
    has_traffic: Callable[[], bool]
    """Tells whether any connection is open."""
    rest_step_s: float = 600.0
    """The longest step while the world is at rest, in seconds."""
    _active: int = 0
    """Exchanges of merchants and operators that have begun and not ended."""
    _moments: list[float] = Factory(list)

    async def sleep_until(self, at: float) -> None:
        """Sleep until this moment of Trio's time, which is not passed over."""
        heappush(self._moments, at)
        await trio.sleep_until(at)

    async def sleep(self, seconds: float) -> None:
        """Sleep for so long; see `sleep_until`."""
        await self.sleep_until(trio.current_time() + seconds)

    @contextmanager
    def activity(self) -> Iterator[None]:
        """Let no time be passed over while the block lasts."""
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def rest_until(self, now: float, deadline: float) -> float:
        """Return until when nothing happens, as no task can run before the `deadline`; the deadline itself unless the
        world is at rest."""
        if self._active or deadline - now < SHORT_WAIT_S or now - self.trace.last_at < QUIET_S or self.has_traffic():
            return deadline
        moments = self._moments
        while moments and moments[0] <= now:
            heappop(moments)
        until = now + self.rest_step_s
        if moments:
            until = min(until, moments[0])
        return max(until, deadline)
