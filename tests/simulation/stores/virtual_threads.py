"""Runs the calls of a store in virtual time, as threads that a world can stop where they wait for a
disk."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar, cast

import outcome
import trio
from attrs import Factory, define, field
from greenlet import GreenletExit, getcurrent, greenlet

from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sqlite.connection import CLOSED_TEXT, CallRunner
from mmo_trio.system.waiting import ParkingSpot
from tests.simulation.stores.machine import StoreMachine, tick_after

T = TypeVar("T")


@define(eq=False)
class _Caller(ParkingSpot[Any]):
    """Waits for a call, or has given up."""

    call: Callable[[], Any]
    context: Context = Factory(copy_context)
    answer: outcome.Outcome[Any] | None = None


@define(eq=False)
class VirtualThread(CallRunner):
    """Runs calls one by one, in the order in which they came. A call may stand still: then the
    tasks go on, and it does after a time, unless its process was killed meanwhile."""

    machine: StoreMachine
    when_running: Callable[[Callable[[], None]], None]
    """Makes a call at once, or as soon as the process is resumed."""
    _waiting: deque[_Caller] = field(factory=deque, init=False)
    _caller: _Caller | None = field(default=None, init=False)
    """Whose call is being run."""
    _stack: greenlet | None = field(default=None, init=False)
    """The stack of that call."""
    _is_killed: bool = field(default=False, init=False)

    async def run(self, call: Callable[[], T], *, turn_within_s: float = math.inf) -> T:
        """Return what the call returns, or raise what it raises; see `CallRunner`. Raises
        StoreUnavailable when the process is killed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_killed:
            raise StoreUnavailable("the process was killed")
        caller = _Caller(call)
        self._waiting.append(caller)
        self._begin_next()
        if caller.answer is None:
            return cast(T, await caller.park())
        await trio.lowlevel.cancel_shielded_checkpoint()
        return cast(T, caller.answer.unwrap())

    def drop_waiting(self) -> None:
        """Let the calls that have not begun raise StoreUnavailable."""
        for each in self._waiting:
            each.unpark(outcome.Error(StoreUnavailable(CLOSED_TEXT)))
        self._waiting.clear()

    def end(self) -> None:
        """Do nothing: it ends with its process."""

    def stand_still(self, for_s: float) -> None:
        """Let the world go on for so long; called by a call that it runs."""
        stack = self._stack
        if for_s > 0.0 and stack is not None and stack is getcurrent():
            self.machine.after(for_s, partial(self.when_running, self._go_on))
            assert stack.parent is not None
            stack.parent.switch()

    def kill(self) -> None:
        """End where it stands: no call goes on."""
        self._is_killed, stack, caller = True, self._stack, self._caller
        self._stack = self._caller = None
        if stack is not None:
            stack.throw(
                GreenletExit
            )  # What its frames still do reaches no file: the world has closed them.
        for each in (caller, *self._waiting):
            if each is not None:
                each.unpark(outcome.Error(StoreUnavailable("the process was killed")))
        self._waiting.clear()

    def _begin_next(self) -> None:
        while self._stack is None and self._waiting:
            self._caller = self._waiting.popleft()
            self._stack = greenlet(
                partial(self._caller.context.run, outcome.capture, self._caller.call)
            )
            self._run_to_pause()

    def _go_on(self) -> None:
        if self._stack is not None:
            self._run_to_pause()
            self._begin_next()

    def _run_to_pause(self) -> None:
        """Run the call until it stands still or has ended; whoever waits for it is woken at the
        next tick."""
        stack, caller = self._stack, self._caller
        assert stack is not None
        assert caller is not None
        result = stack.switch()
        if not stack.dead:
            return
        self._stack = self._caller = None
        caller.answer = result
        if caller.is_taken:
            self.machine.run_at(tick_after(0.0), partial(self._wake, caller, result))

    @staticmethod
    def _wake(caller: _Caller, result: outcome.Outcome[Any]) -> None:
        caller.unpark(result)
