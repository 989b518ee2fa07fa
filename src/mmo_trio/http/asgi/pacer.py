"""Limits the share of a process's time that the requests of an application take, so that others are served meanwhile.

The pages and the console share one event loop with the merchants. Few requests are handled at a time, clients take
turns, and each turn begins once the share is kept. A turn is about processor time: bytes that wait for a reader have
none (see `mmo_trio.http.server.write_budget`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import trio
from attrs import define, field

from mmo_sansio.resilience.fair_queue import FairQueue
from mmo_sansio.values.problems import UNAVAILABLE, ProblemError

PLACES: Final = 4
"""Requests that are handled at a time: while one waits for the store, another one goes on. One client has half of them
at most."""
WAITING_MAX: Final = 4096
"""Requests that wait for a place."""
BURST_S: Final = 0.25
"""Processor time that may be used at once after a quiet time."""
COST_MAX_S: Final = 0.05
"""The most that one request counts: what else the process did meanwhile is counted as well."""

CROWDED: Final = UNAVAILABLE.problem("Too many requests are waiting; send the request again soon.")


@define(eq=False)
class Turn:
    """One request's turn: it has a place until its end."""

    _pacer: Pacer
    client: str
    began: trio.Event = field(factory=trio.Event, init=False)
    is_over: bool = field(default=False, init=False)
    _began_at_s: float = field(default=0.0, init=False)

    async def begin(self) -> None:
        """Wait for the place, and until the share is kept."""
        await self.began.wait()
        await trio.sleep(self._pacer.pause_s())
        self._began_at_s = self._pacer.used_s()

    def end(self) -> None:
        """Give the place back; a second call does nothing."""
        if not self.is_over:
            self.is_over = True
            self._pacer.count(self._pacer.used_s() - self._began_at_s)
            self._pacer.release(self.client)


@define(eq=False)
class Pacer:
    """Gives turns to the requests of one application."""

    share: float
    """Of the time of this process, above 0 and at most 1, which is no limit."""
    used_s: Callable[[], float] = time.thread_time
    """Returns the processor time of this thread."""
    _queue: FairQueue[Turn] = field(
        factory=lambda: FairQueue(waiting_max=WAITING_MAX, slots=PLACES, slots_per_brand=PLACES), init=False
    )
    _even_at: float = field(default=0.0, init=False)
    """The moment of Trio's time until which the share is used up."""

    async def take_turn(self, client: str) -> Turn:
        """Wait for a turn. `client` is the network by which clients take turns. Raises ProblemError when too many
        requests wait."""
        if not self._queue.has_room_for(client):
            raise ProblemError(CROWDED)
        turn = Turn(self, client)
        self._queue.add(client, turn)
        self._start_next()
        try:
            await turn.begin()
        except trio.Cancelled:
            if turn.began.is_set():
                self.release(client)
            turn.is_over = True
            raise
        return turn

    def pause_s(self) -> float:
        """Return how long the next request waits."""
        return max(0.0, self._even_at - trio.current_time()) if self.share < 1 else 0.0

    def count(self, used_s: float) -> None:
        """Count the time that a request has used."""
        quiet_since = trio.current_time() - BURST_S / self.share
        self._even_at = max(self._even_at, quiet_since) + min(used_s, COST_MAX_S) / self.share

    def release(self, client: str) -> None:
        """Give a place to the next request."""
        self._queue.release(client)
        self._start_next()

    def _start_next(self) -> None:
        while (turn := self._queue.next()) is not None:
            if not turn.is_over:
                turn.began.set()
                return
            self._queue.release(turn.client)
