"""Answers look-ups of several tasks together: those that wait while the store works go to it in one
hop next."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import outcome
import trio
from attrs import Factory, define

from mmo_trio.storage.interface.store import HANGS_AFTER_S, StoreUnavailable
from mmo_trio.system.waiting import ParkingSpot

QueryT = TypeVar("QueryT")
ResultT = TypeVar("ResultT")

# Look-ups in one hop: with more, the first would wait longer, and the hop is cheap enough for each.
COALESCED_MAX = 64


@define(eq=False)
class _Waiter(ParkingSpot[None], Generic[QueryT, ResultT]):
    """A request; its task sleeps until there is a result, or until it is its turn to execute."""

    query: QueryT
    result: outcome.Outcome[ResultT] | None = None

    def wake(self) -> None:
        self.unpark(outcome.Value(None))


@define(eq=False)
class Coalescer(Generic[QueryT, ResultT]):
    """Lets a task that finds no active execution execute the requests of all tasks that wait by
    then; the others sleep meanwhile. It needs no task and no timer of its own: a single request
    doesn't wait for others."""

    execute: Callable[[Sequence[QueryT]], Awaitable[Sequence[ResultT]]]
    """Returns a result for each request, in order. Raises only StoreUnavailable for what others
    cause; it ends by itself."""
    coalesced_max: int = COALESCED_MAX
    _waiting: deque[_Waiter[QueryT, ResultT]] = Factory(deque)
    _is_executing: bool = False

    async def __call__(self, query: QueryT) -> ResultT:
        """Return the result; raises what `execute` does."""
        waiter: _Waiter[QueryT, ResultT] = _Waiter(query)
        self._waiting.append(waiter)

        # Woken without a result it is the first in line, and has to execute. Another task may have
        # begun to before this one runs: then it sleeps on.
        while waiter.result is None:
            if self._is_executing:
                await waiter.park(on_cancel=lambda: self._withdraw(waiter))
            else:
                await self._execute_waiting()

        return waiter.result.unwrap()

    def _withdraw(self, waiter: _Waiter[QueryT, ResultT]) -> None:
        if waiter.result is None and waiter in self._waiting:
            self._waiting.remove(waiter)

    async def _execute_waiting(self) -> None:
        """Execute the requests that came first. Other tasks wait for the results, so a cancellation
        waits for them."""
        waiting = self._waiting
        batch = [waiting.popleft() for _ in range(min(self.coalesced_max, len(waiting)))]

        # If the store hangs, these have waited as long for it, and must not wait for it again.
        as_old = set(waiting)
        began = trio.current_time()
        self._is_executing = True
        try:
            with trio.CancelScope(shield=True):
                results = await self.execute([waiter.query for waiter in batch])

            for waiter, result in zip(batch, results, strict=True):
                waiter.result = outcome.Value(result)
        except Exception as error:
            if trio.current_time() - began >= HANGS_AFTER_S:
                batch += [waiter for waiter in waiting if waiter in as_old]
                waiting = deque(waiter for waiter in waiting if waiter not in as_old)
                self._waiting = waiting

            for waiter in batch:
                waiter.result = outcome.Error(_copy_error(error))
        finally:
            self._is_executing = False
            for waiter in batch:
                waiter.wake()

            # Whoever is first now executes for the others, or they would sleep for ever.
            if waiting:
                waiting[0].wake()


def _copy_error(error: Exception) -> Exception:
    """Return an exception for each task that raises it, as each adds its own traceback."""
    if isinstance(error, StoreUnavailable):
        return StoreUnavailable(str(error))
    return error
