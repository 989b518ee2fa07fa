"""Coalesced requests: those that wait together are executed together, in one hop to where the rows are."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import outcome
import trio
from attrs import Factory, define

from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.system.waiting import ParkingSpot

QueryT = TypeVar("QueryT")
ResultT = TypeVar("ResultT")

COALESCED_MAX = 64
"""Requests in one hop: with more, the first would wait longer, and the hop is cheap enough for each."""


@define(eq=False)
class _Waiter(ParkingSpot[None], Generic[QueryT, ResultT]):
    """A request; its task sleeps until there is a result, or until it is its turn to execute."""

    query: QueryT
    result: outcome.Outcome[ResultT] | None = None

    def wake(self) -> None:
        self.unpark(outcome.Value(None))


@define(eq=False)
class Coalescer(Generic[QueryT, ResultT]):
    """Lets a task that finds no active execution execute the requests of all tasks that wait by then; the others sleep
    meanwhile. It needs no task and no timer of its own: a single request doesn't wait for others."""

    execute: Callable[[Sequence[QueryT]], Awaitable[Sequence[ResultT]]]
    """Returns a result for each request, in order. Raises only StoreUnavailable for what others cause; it ends by
    itself."""
    coalesced_max: int = COALESCED_MAX
    _waiting: deque[_Waiter[QueryT, ResultT]] = Factory(deque)
    _is_executing: bool = False

    async def __call__(self, query: QueryT) -> ResultT:
        """Return the result; raises what `execute` does."""
        waiter: _Waiter[QueryT, ResultT] = _Waiter(query)
        self._waiting.append(waiter)
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
        """Execute the requests that came first. Other tasks wait for the results, so a cancellation waits for them."""
        waiting = self._waiting
        batch = [waiting.popleft() for _ in range(min(self.coalesced_max, len(waiting)))]
        self._is_executing = True
        try:
            with trio.CancelScope(shield=True):
                results = await self.execute([waiter.query for waiter in batch])
            for waiter, result in zip(batch, results, strict=True):
                waiter.result = outcome.Value(result)
        except Exception as error:
            for waiter in batch:
                waiter.result = outcome.Error(_copy_error(error))
        finally:
            self._is_executing = False
            for waiter in batch:
                waiter.wake()
            if waiting:
                waiting[0].wake()


def _copy_error(error: Exception) -> Exception:
    """Return an exception for each task that raises it, as each adds its own traceback."""
    return StoreUnavailable(str(error)) if isinstance(error, StoreUnavailable) else error
