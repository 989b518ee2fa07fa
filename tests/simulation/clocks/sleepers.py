"""Lets the tasks of a simulation sleep for far less than Trio's own sleep costs, which has two
cancel scopes for each.

A simulation sleeps some thousand times for each payment, mostly in loops of processes at rest."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from heapq import heappop, heappush
from typing import Any, NoReturn

import trio
from attrs import define, field


@define(eq=False)
class Sleeper:
    """Is a task that sleeps."""

    task: trio.lowlevel.Task | None
    """None when it was cancelled."""


@define(eq=False)
class Sleepers:
    """Holds the tasks that sleep until a moment of Trio's time."""

    _heap: list[tuple[float, int, Sleeper]] = field(factory=list, init=False)
    """The number keeps the order of equal moments."""
    _count: int = field(default=0, init=False)

    def next_at(self) -> float:
        """Return when the next one wakes; infinity when none sleeps."""
        heap = self._heap
        while heap:
            at, _, sleeper = heap[0]
            if sleeper.task is not None:
                return at
            heappop(heap)
        return math.inf

    def wake_due(self, now: float) -> None:
        """Wake each one whose time has come."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            task = heappop(heap)[2].task
            if task is not None:
                trio.lowlevel.reschedule(task)

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Sleep as `trio.sleep` does. Raises ValueError for a negative time."""
        if not seconds >= 0:
            raise ValueError("`seconds` must be non-negative")
        return self.sleep_until(trio.current_time() + seconds)

    async def sleep_until(self, deadline: float) -> None:
        """Sleep as `trio.sleep_until` does."""
        if deadline <= trio.current_time():
            await trio.lowlevel.checkpoint()
            return
        sleeper = Sleeper(trio.lowlevel.current_task())
        self._count += 1
        heappush(self._heap, (deadline, self._count, sleeper))

        def abort(_: object) -> trio.lowlevel.Abort:
            sleeper.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def sleep_forever(self) -> NoReturn:
        """Sleep as `trio.sleep_forever` does."""
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
        raise AssertionError("nobody wakes this task")
