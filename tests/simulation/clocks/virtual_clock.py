"""Keeps the one true time of a simulation: it stands still while a task can run, and jumps to what
comes next when none can.

What happens to others than tasks, such as bytes that arrive, is an event: a call at a moment.
Events cost no task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sized
from heapq import heappop, heappush
from typing import Final

import trio
from attrs import define, field

from mmo_sansio.values.clock import SECOND, Instant
from tests.simulation.clocks.sleepers import Sleepers

TRUE_TIME_AT_START: Final = Instant(1_767_225_600 * SECOND)
"""2026-01-01T00:00:00Z, when the true time of every simulation begins."""
IDLE_WAIT_S: Final = 1.0
"""How long Trio may take for those who wait until all tasks sleep; they are woken at once."""


@define(eq=False)
class VirtualClock(trio.abc.Clock):
    """Is the clock of a simulation's Trio run, which asks it how long to sleep only when no task
    can run."""

    runnable: Sized = ()
    """The tasks that can run now."""
    waiting_for_idle: Sized = ()
    """The tasks that wait until no other can run, as tests do."""
    rest_until: Callable[[float, float], float] = lambda now, deadline: deadline
    """Returns until when no deadline matters, given the time now and that of the next one: that
    one, or a later time, to which the clock jumps unless an event comes first."""
    sleepers: Sleepers = field(factory=Sleepers)
    on_stall: Callable[[], None] = lambda: None
    """Called when nothing will ever happen again; it makes a task runnable."""
    rested_s: float = field(default=0.0, init=False)
    """The seconds in all by which the clock has jumped over deadlines, as the world was at rest."""
    _now: float = field(default=0.0, init=False)
    _events: list[tuple[float, int, Callable[[], None]]] = field(factory=list, init=False)
    """A heap of moments and what happens then; the number keeps the order of equal moments."""
    _event_count: int = field(default=0, init=False)

    def start_clock(self) -> None:
        """Do nothing; Trio calls this once."""

    def current_time(self) -> float:
        """Return the seconds of true time since the simulation began."""
        return self._now

    def true_time(self) -> Instant:
        """Return the true wall time in microseconds, which no party of the simulation need know."""
        return Instant(TRUE_TIME_AT_START + round(self._now * SECOND))

    def call_at(self, at: float, event: Callable[[], None]) -> None:
        """Call this at a moment of the simulation's time, when no task can run; at the earliest one
        if it has passed.

        The call must not wait; it may wake tasks."""
        self._event_count += 1
        heappush(self._events, (at, self._event_count, event))

    def call_after(self, delay_s: float, event: Callable[[], None]) -> None:
        """Call this after so many seconds; see `call_at`."""
        self.call_at(self._now + delay_s, event)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Let events happen until a task can run, or else jump to the deadline; return 0, as nobody
        waits really."""
        if self.waiting_for_idle:
            return IDLE_WAIT_S
        events = self._events
        next_deadline = min(deadline, self.sleepers.next_at())
        deadline = max(next_deadline, self.rest_until(self._now, next_deadline))
        while events and events[0][0] <= deadline:
            at, _, event = heappop(events)
            if at > self._now:
                self._jump(at, next_deadline)
            event()
            if self.runnable and not (events and events[0][0] <= self._now):
                return 0.0
        if deadline == math.inf:
            self.on_stall()
        elif deadline > self._now:
            self._jump(deadline, next_deadline)
        self.sleepers.wake_due(self._now)
        return 0.0

    def _jump(self, to: float, next_deadline: float) -> None:
        self.rested_s += max(0.0, to - max(self._now, next_deadline))
        self._now = to
