"""Watches the deadlines of all connections of a listener with one timer.

Every request moves its connection's deadline on several times, and hardly any deadline ever passes. Trio sorts a cancel
scope again each time, for about 3 us; here moving a deadline on costs a comparison, and the timer learns of it when it
next looks at the connection."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

import trio
from attrs import Factory, define, field

OUTDATED_MAX: Final = 1024
"""Outdated entries that the timer keeps, besides as many as it has others, before it drops all of them."""


@define(eq=False)
class MovableDeadline:
    """The deadline of one connection, which it keeps for its whole life."""

    _timer: DeadlineTimer
    _expire: Callable[[], None]
    at: float = math.inf
    """Trio's time at which it passes; infinity for never."""
    entry_at: float = field(default=math.inf, init=False)
    """The moment of its one valid entry in the timer; infinity without one."""
    has_passed: bool = field(default=False, init=False)

    def move(self, at: float) -> None:
        """Let it pass at another moment."""
        self.at = at
        if at < self.entry_at:
            self._timer.enter(self)

    def close(self) -> None:
        """Let it never pass."""
        self.at = math.inf
        self._timer.forget(self)

    def pass_if_due(self, now: float) -> None:
        """Expire if it has passed by now, which happens once; else have the timer look again when it will have."""
        self.entry_at = math.inf
        if self.at <= now:
            self.at, self.has_passed = math.inf, True
            self._expire()
        elif self.at < math.inf:
            self._timer.enter(self)


@define(eq=False)
class DeadlineTimer:
    """Lets deadlines pass while `run` runs."""

    _entries: list[tuple[float, int, MovableDeadline]] = Factory(list)
    """A heap of moments at which to look at a deadline; the number keeps the order of equal ones."""
    _entered: int = 0
    _outdated: int = 0
    """Entries that are no longer those of their deadlines."""
    _pause: trio.CancelScope = Factory(trio.CancelScope)

    @property
    def entries(self) -> int:
        """Return how many entries it holds, with outdated ones."""
        return len(self._entries)

    async def run(self) -> None:
        """Look at each deadline when it may have passed, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._entries[0][0] if self._entries else math.inf) as self._pause:
                await trio.sleep_forever()
            now = trio.current_time()
            while self._entries and self._entries[0][0] <= now:
                at, _, deadline = heappop(self._entries)
                if at == deadline.entry_at:
                    deadline.pass_if_due(now)
                else:
                    self._outdated -= 1

    def new_deadline(self, expire: Callable[[], None]) -> MovableDeadline:
        """Return a deadline that never passes until it is moved; `expire` is called once it has passed."""
        return MovableDeadline(self, expire)

    def enter(self, deadline: MovableDeadline) -> None:
        """Look at this deadline when it passes as it is now, instead of at another moment."""
        self.forget(deadline)
        self._entered += 1
        deadline.entry_at = deadline.at
        heappush(self._entries, (deadline.at, self._entered, deadline))
        self._pause.deadline = self._entries[0][0]

    def forget(self, deadline: MovableDeadline) -> None:
        """Look at this deadline no more."""
        if deadline.entry_at == math.inf:
            return
        deadline.entry_at = math.inf
        self._outdated += 1
        if self._outdated > OUTDATED_MAX + len(self._entries) // 2:
            self._entries = [each for each in self._entries if each[0] == each[2].entry_at]
            heapify(self._entries)
            self._outdated = 0
