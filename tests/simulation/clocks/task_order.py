"""Decides by a seed in which order the tasks of a simulation run, and which do not run: those of a
stopped process."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING

import trio
from attrs import define, field

if TYPE_CHECKING:
    _TaskDeque = deque[trio.lowlevel.Task]
else:
    _TaskDeque = deque

CURRENT_PROCESS: ContextVar[ProcessTasks | None] = ContextVar("CURRENT_PROCESS", default=None)
"""The simulated process to which the running task belongs; None for the simulation's own tasks, and
for Trio's."""

_by_age = attrgetter("_counter")


@define(eq=False)
class ProcessTasks:
    """Says whether the tasks of one simulated process run, and counts their steps."""

    queue: SeededTaskQueue
    is_suspended: bool = field(default=False, init=False)
    is_killed: bool = field(default=False, init=False)
    """Whether its tasks end without anything that they still do being seen."""
    waiting: list[trio.lowlevel.Task] = field(factory=list, init=False)
    """Tasks that could run but for the suspension."""
    steps_left: int = field(default=-1, init=False)
    """How many more steps its tasks make before `on_last_step`; negative for any number."""
    on_last_step: Callable[[], None] = field(default=lambda: None, init=False)

    def suspend(self) -> None:
        """Let no task of the process run from its next checkpoint on."""
        self.is_suspended = True
        self.queue.watched[self] = None

    def resume(self) -> None:
        """Let its tasks go on where they stood."""
        self.is_suspended = False
        self.queue.extend(self.waiting)
        self.waiting.clear()
        self._end_watch()

    def call_after_steps(self, steps: int, call: Callable[[], None]) -> None:
        """Call this once, when its tasks have made so many more steps, from one checkpoint to the
        next; none of its tasks makes a step in between."""
        self.steps_left, self.on_last_step = steps, call
        self.queue.watched[self] = None

    def _end_watch(self) -> None:
        if not self.is_suspended and self.steps_left < 0:
            self.queue.watched.pop(self, None)

    def take_step(self) -> bool:
        """Return whether a task of the process may make a step now."""
        if self.steps_left == 0 or self.is_suspended:
            return False
        if self.steps_left > 0:
            self.steps_left -= 1
        return True

    def reach_last_step(self) -> None:
        """Make the call that `call_after_steps` asked for, if it is due."""
        if self.steps_left == 0:
            self.steps_left = -1
            self._end_watch()
            self.on_last_step()


class SeededTaskQueue(_TaskDeque):
    """Holds the tasks that can run, for Trio to take in the order that a generator decides.

    Trio runs whatever waits here as one batch. It fills the queue in the order of sets, which
    differs between runs; so tasks are sorted by age first. Tasks of a suspended process stay
    behind."""

    def __init__(self, generator: random.Random) -> None:
        super().__init__()
        self._generator = generator
        self._left_behind: list[trio.lowlevel.Task] = []
        self.watched: dict[ProcessTasks, None] = {}
        """The processes whose steps are counted or forbidden."""

    def __iter__(self) -> Iterator[trio.lowlevel.Task]:
        """Return the next batch. Trio then clears the queue."""
        for process in tuple(self.watched):
            process.reach_last_step()
        if len(self) < 2 and not self.watched:  # So are most batches, and nothing is to be drawn.
            return super().__iter__()
        batch = list(super().__iter__())
        if len(batch) > 1:
            batch.sort(key=_by_age)
            self._shuffle(batch)
        if self.watched:
            batch = [task for task in batch if self._may_run(task)]
        return iter(batch)

    def clear(self) -> None:
        """Keep only what is not in the batch but can run in the next one."""
        super().clear()
        if self._left_behind:
            self.extend(self._left_behind)
            self._left_behind.clear()

    def _shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        if len(batch) > 2:
            self._generator.shuffle(batch)
        elif self._generator.getrandbits(1):
            batch.reverse()

    def _may_run(self, task: trio.lowlevel.Task) -> bool:
        process = task.context.get(CURRENT_PROCESS)
        if process is None or process not in self.watched or process.take_step():
            return True
        if process.is_suspended:
            process.waiting.append(task)
        else:
            self._left_behind.append(task)
        return False
