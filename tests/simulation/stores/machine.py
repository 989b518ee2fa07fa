"""Simulates the machine of a store: it does each thing at its time, whatever becomes of the process
that has asked for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Generic, TypeVar

import outcome
import trio
from attrs import Factory, define

from mmo_trio.system.waiting import ParkingSpot
from tests.simulation.clocks.virtual_clock import VirtualClock

T = TypeVar("T")

TICKS_PER_S = 1_000
"""How many moments of a second there are at which callers of a store are woken."""


def tick_after(delay_s: float) -> float:
    """Return the first tick of Trio's clock once the delay has passed. Callers of one tick are
    woken together, in an order that does not depend on who was answered first, and for what one
    turn of Trio costs."""
    return math.ceil((trio.current_time() + delay_s) * TICKS_PER_S) / TICKS_PER_S


@define(eq=False)
class StoreMachine:
    """Runs actions at times of Trio's clock; of several at one time, in the order in which they
    were given.

    A simulation's clock calls them itself, which costs no task."""

    _waiting: list[tuple[float, int, Callable[[], None]]] = Factory(list)
    """A heap."""
    _given: int = 0
    _clock: VirtualClock | None = None
    """The simulation's clock, once it has been asked to run an action."""
    _pause: trio.CancelScope = Factory(trio.CancelScope)
    """The pause until the next action."""

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Run this once the delay has passed."""
        self.run_at(trio.current_time() + delay_s, action)

    def run_at(self, at: float, action: Callable[[], None]) -> None:
        """Run this at a moment of Trio's clock."""
        if self._clock is not None:
            self._clock.call_at(at, action)
            return
        clock = trio.lowlevel.current_clock()
        if isinstance(clock, VirtualClock):
            self._clock = clock
            clock.call_at(at, action)
            return
        self._given += 1
        heappush(self._waiting, (at, self._given, action))
        if at < self._pause.deadline:
            self._pause.deadline = at

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run actions until cancelled."""
        task_status.started()
        waiting = self._waiting
        while True:
            self._pause = trio.CancelScope(deadline=waiting[0][0] if waiting else math.inf)
            with self._pause:
                await trio.sleep_forever()
            while waiting and waiting[0][0] <= trio.current_time():
                heappop(waiting)[2]()


@define(eq=False)
class StoreCall(ParkingSpot[T], Generic[T]):
    """A call on its way through a store: its caller sleeps until it is answered, once."""

    process: str
    name: str
    """What is called, for the trace."""
    deadline: float
    """When the caller gives up, by Trio's clock."""
    carry: Callable[[StoreCall[T], outcome.Outcome[T]], None] | None = None
    """How the reply reaches the caller; None for at once."""
    is_dropped: bool = False
    """Whether it does not arrive any more."""
    is_answered: bool = False
    _has_reply: bool = False
    _result: outcome.Outcome[T] | None = None

    def reply(self, result: outcome.Outcome[T]) -> None:
        """Send the store's reply on its way to the caller; only the first one counts."""
        if not self._has_reply:
            self._has_reply = True
            if self.carry is None:
                self.answer(result)
            else:
                self.carry(self, result)

    def answer(self, result: outcome.Outcome[T]) -> None:
        """Wake the caller with this result, unless it has been answered before."""
        if not self.is_answered:
            self.is_answered = True
            if not self.unpark(result):
                self._result = result

    async def result(self, *, is_shielded: bool = False) -> T:
        """Return or raise the answer; the caller's cancellation waits for it. With `is_shielded` it
        waits longer, until the caller looks at it, as if this were in a shielded cancel scope,
        which costs more."""
        if self._result is not None:
            return self._result.unwrap()
        self._task = trio.lowlevel.current_task()
        try:
            result: T = await trio.lowlevel.wait_task_rescheduled(_refuse_abort)
        finally:
            if not is_shielded:
                await trio.lowlevel.checkpoint_if_cancelled()
        return result


def _refuse_abort(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
