"""Knows when something will happen in a simulated world, so that the time in which nothing does
passes at once.

A gateway at rest looks at its clocks, its leases and its store some ten times a second, and so a
quiet day would be a million wake-ups. While the world is at rest, time passes in steps instead, as
for machines that all sleep at once: at the end of a step every part of a gateway finds that its
time has come. That is a standstill that gateways must bear in any case, and payments, notifications
and faults are never passed over, nor is the moment when a stored payment wakes.

While the store has work that is open, each step is as long as the rest before it, up to what the
plan says. Else a step lasts until a stored payment wakes, so that days in which there is nothing to
do pass in a few steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush

import trio
from attrs import Factory, define

from mmo_sansio.resilience.ownership import LEASE_RENEWAL_INTERVAL
from mmo_sansio.values.clock import SECOND
from tests.simulation.world.trace import SimulationTrace

REST_STEP_MAX_S = 6 * 3_600.0
"""The longest step while there is nothing to do."""
QUIET_S = 1.0
"""Seconds in which nothing has happened before the world counts as at rest."""
WAIT_STEP_S = LEASE_RENEWAL_INTERVAL / SECOND
"""The longest step while somebody waits for an answer, but nothing is on its way: a process renews
its lease as often as without such steps."""
TAKEN_OVER_AFTER_S = 30.0
"""Seconds after the death of a process, or after a fault that may have cost it its lease, in which
no more than `WAIT_STEP_S` passes at once: others end its lease, and take over what it had, only
once they have renewed their own steadily."""
SHORT_WAIT_S = 0.05
"""A task that waits for less than this is at work: for a name, or for a statement."""


@define(eq=False)
class WorldSchedule:
    """Holds the moments for which somebody outside the gateways waits."""

    trace: SimulationTrace
    has_traffic: Callable[[], bool]
    """Tells whether any connection is open."""
    next_work_at: Callable[[], float]
    """Returns when the store has work at the earliest, by true time in seconds; infinity when there
    is none, and 0 when work is open."""
    rest_step_s: float = 600.0
    """The longest step while work is open, in seconds."""
    _active: int = 0
    """Exchanges of merchants and operators that have begun and not ended."""
    _awake_until: float = 0.0
    """Until when the world does not rest."""
    _moments: list[float] = Factory(list)

    def expect(self, at: float) -> None:
        """Do not pass over this moment of Trio's time."""
        heappush(self._moments, at)

    async def sleep_until(self, at: float) -> None:
        """Sleep until this moment of Trio's time, which is not passed over."""
        self.expect(at)
        await trio.sleep_until(at)

    async def sleep(self, seconds: float) -> None:
        """Sleep for so long; see `sleep_until`."""
        await self.sleep_until(trio.current_time() + seconds)

    def stay_awake(self) -> None:
        """Do not rest until others have had the time to take over from a process."""
        self._awake_until = trio.current_time() + TAKEN_OVER_AFTER_S

    @contextmanager
    def activity(self) -> Iterator[None]:
        """Let no time be passed over while the block lasts."""
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def rest_until(self, now: float, deadline: float) -> float:
        """Return until when nothing happens, as no task can run before the `deadline`; the deadline
        itself unless the world is at rest."""
        if deadline - now < SHORT_WAIT_S:
            return deadline
        moments = self._moments
        while moments and moments[0] <= now:
            heappop(moments)
        until = now + self._step_s(now)
        if moments:
            until = min(until, moments[0])
        return max(until, deadline)

    def _step_s(self, now: float) -> float:
        """Return how much time may pass at once, in seconds."""
        if (
            now < self._awake_until
            or self._active
            or now - self.trace.last_at < QUIET_S
            or self.has_traffic()
        ):
            return WAIT_STEP_S
        work_at = self.next_work_at()
        if work_at <= now:
            return min(max(now - self.trace.last_at, WAIT_STEP_S), self.rest_step_s)
        return min(work_at - now, REST_STEP_MAX_S)
