"""What keeps the tables small, step by step: none waits for another one to succeed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_trio.storage.postgres import PostgresStore
from mmo_trio.storage.postgres.startup import maintain_while_open


@define(eq=False)
class FailingStore:
    """Fails at each step, and counts the attempts."""

    attempts: list[str] = Factory(list)

    async def roll_up_counts(self) -> None:
        self.attempts.append("roll up")
        raise RuntimeError

    async def _purge(self) -> None:
        self.attempts.append("purge")
        raise RuntimeError

    @property
    def purge_steps(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return [self._purge, self._purge]


async def test_a_step_that_always_fails_stops_no_other(autojump_clock: MockClock) -> None:
    store = FailingStore()
    with trio.move_on_after(130):
        await maintain_while_open(cast("PostgresStore", store))
    assert store.attempts == ["roll up", "purge", "purge", "roll up"]
