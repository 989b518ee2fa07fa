"""Questions that wait together are asked together: one hop to where the rows are answers them all."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import outcome
import trio
from attrs import Factory, define

from mmo_trio.storage.interface.store import StoreUnavailable

QueryT = TypeVar("QueryT")
ResultT = TypeVar("ResultT")

COALESCED_MAX = 64
"""Questions in one hop: beyond this the first to come waits longer, and the hop is cheap enough for each."""


@define(eq=False)
class _Waiter(Generic[QueryT, ResultT]):
    query: QueryT
    task: trio.lowlevel.Task | None = None
    """Who sleeps until there is an answer, or until it is its turn to ask."""
    result: outcome.Outcome[ResultT] | None = None

    def wake(self) -> None:
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)
            self.task = None


@define(eq=False)
class Coalescer(Generic[QueryT, ResultT]):
    """Whoever comes while nobody is asking asks, for everybody who waits by then; the others sleep meanwhile. No task
    and no timer of its own: a question that is alone isn't kept waiting for others."""

    execute: Callable[[Sequence[QueryT]], Awaitable[Sequence[ResultT]]]
    """An answer to each question, in order. Raises only StoreUnavailable for what others cause; it ends by itself."""
    coalesced_max: int = COALESCED_MAX
    _waiting: deque[_Waiter[QueryT, ResultT]] = Factory(deque)
    _is_executing: bool = False

    async def __call__(self, query: QueryT) -> ResultT:
        """The answer; raises what `ask` does."""
        asked = _Waiter[QueryT, ResultT](query)
        self._waiting.append(asked)
        while asked.result is None:
            if self._is_executing:
                await self._wait(asked)
            else:
                await self._execute_waiting()
        return asked.result.unwrap()

    async def _wait(self, waiter: _Waiter[QueryT, ResultT]) -> None:
        def leave(_: object) -> trio.lowlevel.Abort:
            waiter.task = None
            if waiter.result is None and waiter in self._waiting:
                self._waiting.remove(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        waiter.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(leave)

    async def _execute_waiting(self) -> None:
        """Ask for those who came first. Others wait for the answer, too, so it isn't cut short when its asker is."""
        waiting = self._waiting
        gathered = [waiting.popleft() for _ in range(min(self.coalesced_max, len(waiting)))]
        self._is_executing = True
        try:
            with trio.CancelScope(shield=True):
                answers = await self.execute([each.query for each in gathered])
            for each, answer in zip(gathered, answers, strict=True):
                each.result = outcome.Value(answer)
        except Exception as error:
            for each in gathered:
                each.result = outcome.Error(_copy_error(error))
        finally:
            self._is_executing = False
            for each in gathered:
                each.wake()
            if waiting:
                waiting[0].wake()


def _copy_error(error: Exception) -> Exception:
    """An exception for each who raises it: they add their own traceback to it."""
    return StoreUnavailable(str(error)) if isinstance(error, StoreUnavailable) else error
