"""Lets the removal of old rows take a small share of the store's time, in one process at a time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import uuid4

import trio
from attrs import Factory, define

from mmo_sansio.values.clock import SECOND, Span
from mmo_trio.storage.sql.retention import RetentionStore

StepT = TypeVar("StepT")

LEASE: Span = Span(60 * SECOND)
"""How long the others wait after a process that died while it worked at it; longer than any step."""

LEASE_RENEWED_AFTER_S = 15.0
"""Seconds after which the lease is renewed, between two steps."""

BUSY_PAUSE_S = 1.0
"""Seconds until it is looked again whether the store has time."""


STEP_S = 0.05
"""Seconds that a step is to take: long enough that it does more than begin and commit on a disk that takes 10 ms for
that, and so short that nobody waits for it."""

ROWS_MIN = 50
"""Rows of a step at least, however long they take: a database works for some milliseconds at them."""


class LeaseLost(Exception):
    """Says that another process has taken the lease."""


@define(eq=False)
class StepSize:
    """Says how many rows a step handles: on a fast store more than on a slow one, so that each takes STEP_S."""

    rows: int
    rows_max: int

    def adapt(self, took_s: float) -> None:
        """Follow a step that has taken so many seconds; at most twice or half as many rows are next."""
        wanted = self.rows * STEP_S / max(took_s, 0.001)
        rows = round(min(max(wanted, self.rows / 2), self.rows * 2))
        self.rows = min(max(rows, ROWS_MIN), self.rows_max)


@define(eq=False)
class RetentionPace:
    """Lets a run take its share of the time and no more."""

    store: RetentionStore
    share: float
    """Share of the time that steps may take; 1: all of it."""
    is_busy: Callable[[], bool] = bool
    """Whether the store is needed for payments now."""
    holder: str = Factory(lambda: uuid4().hex)
    _renew_at: float = 0.0

    async def begin(self) -> bool:
        """Take the lease; return False while another process works at it."""
        self._renew_at = trio.current_time() + LEASE_RENEWED_AFTER_S
        return await self.store.take_lease(self.holder, LEASE)

    async def step(self, work: Callable[[], Awaitable[StepT]]) -> StepT:
        """Do one step once the store is not busy, and rest as much longer as the share says. Raises LeaseLost."""
        await self._renew()
        while self.is_busy():
            await trio.sleep(BUSY_PAUSE_S)
            await self._renew()
        began = time.monotonic()
        result = await work()
        await trio.sleep((time.monotonic() - began) * (1 / self.share - 1))
        return result

    async def sized_step(self, size: StepSize, work: Callable[[int], Awaitable[StepT]]) -> StepT:
        """Do one step with as many rows as the size says, and adapt the size. Raises LeaseLost."""

        async def measured() -> StepT:
            began = time.monotonic()
            result = await work(size.rows)
            size.adapt(time.monotonic() - began)
            return result

        return await self.step(measured)

    async def _renew(self) -> None:
        if trio.current_time() >= self._renew_at and not await self.begin():
            raise LeaseLost("another process removes old rows by now")

    async def end(self) -> None:
        """Give the lease back."""
        await self.store.end_lease(self.holder)
