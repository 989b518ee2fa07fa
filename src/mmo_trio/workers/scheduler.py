"""Wakes transactions whose time has come, and takes on work that the dead have left (clauses S3, S6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import TransactionWoke
from mmo_sansio.resilience.clock_guard import ClockGuard
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span
from mmo_trio.engine.engine import Post
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, Work
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

ROUND_MAX = 128
"""Transactions that are woken, and intents that are taken on, in one round: half of what the engine decides in one
batch, so that other inputs get their turn between."""

POLL_S = 1.0
"""How often it looks for orphans, and at the latest for times that have come up meanwhile."""

PAUSE_S = 0.02
"""The shortest rest between two rounds, so that a transaction that can't be woken doesn't keep the store busy."""

RETRY_S = 1.0
"""How long it rests when the store can't serve."""


class Wakes(Protocol):
    """What the scanner needs of a store; see :class:`mmo_trio.storage.interface.store.Store`."""

    async def next_wake(self) -> Instant | None: ...
    async def woken(self, now: Instant, *, limit: int) -> Sequence[str]: ...
    async def orphans(self, *, limit: int) -> Sequence[Work]: ...


@define(eq=False)
class Scanner:
    """One for each process; the store gives each its share of what is due."""

    store: Wakes
    post: Post
    hand_over: Callable[[Work], None]
    """Gives an orphan to the worker that does it."""
    has_room: Callable[[], bool]
    """Whether the workers can take on orphans."""
    now: Callable[[], Instant]
    monotonic: Callable[[], Span]
    """Moves along with `now` when a sandbox's clock is advanced."""
    guard: ClockGuard = Factory(ClockGuard)
    poll_s: float = POLL_S
    """How often it looks."""
    held: trio.Lock = Factory(trio.Lock)
    """Whoever holds it is the only one who wakes."""
    _kicked: trio.Event = Factory(trio.Event)
    _orphans_at: float = -math.inf
    """Trio's time when it looks for orphans next."""

    def kick(self) -> None:
        """Look again now: the clock has moved, or something due soon is new."""
        self._kicked.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Scan until cancelled; a store that fails is tried again."""
        task_status.started()
        while True:
            try:
                async with self.held:
                    rest_s = await self._round()
            except (StoreUnavailable, OutcomeUnknown) as error:
                logger.warning("scan failed", error=str(error))
                rest_s = RETRY_S
            except Exception as error:
                logger.error("scan failed", fault=describe_fault(error))
                rest_s = RETRY_S
            with trio.move_on_after(rest_s):
                await self._kicked.wait()
            self._kicked = trio.Event()

    async def wake_all_due(self, until: Instant) -> int:
        """Wake everything that is due by then; how many there were. For a sandbox's clock, which holds `held`.

        Raises StoreUnavailable when the store can't serve.
        """
        count = 0
        while True:
            woken = await self._wake_due(until)
            count += woken
            if woken < ROUND_MAX:
                return count

    async def _round(self) -> float:
        """Do what is to be done; how many seconds to rest then."""
        now = self.now()
        believed = self.guard.believes(wall=now, monotonic=self.monotonic())
        woken = await self._wake_due(now) if believed else 0
        taken_on = await self._take_on_orphans()
        if ROUND_MAX in (woken, taken_on):
            return PAUSE_S
        return await self._rest_s() if believed else self.poll_s

    async def _take_on_orphans(self) -> int:
        """Hand over one round of them, when it is time for it; how many there were."""
        if trio.current_time() < self._orphans_at or not self.has_room():
            return 0
        orphans = await self.store.orphans(limit=ROUND_MAX)
        for each in orphans:
            self.hand_over(each)
        rest_s = PAUSE_S if len(orphans) == ROUND_MAX else self.poll_s
        self._orphans_at = trio.current_time() + rest_s
        return len(orphans)

    async def _rest_s(self) -> float:
        at = await self.store.next_wake()
        if at is None:
            return self.poll_s
        return min(max((at - self.now()) / clock.SECOND, PAUSE_S), self.poll_s)

    async def _wake_due(self, until: Instant) -> int:
        """Wake one round of them, in the order of their times; how many there were. Raises the first error once all
        have been tried."""
        woken = await self.store.woken(until, limit=ROUND_MAX)
        calls = [self.post(TransactionWoke(reference)) for reference in woken]
        errors: list[Exception] = []
        for call in calls:
            try:
                await call.reply()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return len(woken)
