"""Deliveries to merchants, of one kind: each taken once, a fair share of the places for each merchant (K3, K6).

Nothing here loops. Work that is taken, and a delivery that ends, both look who may start next; a task lives as long
as its delivery is under way, until what became of it is recorded. What was sent is never sent again by this process,
even if its outcome can't be recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias, TypeVar

import structlog
import trio

from mmo_sansio.resilience.fair_queue import Turns
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, Work
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

GRACE_S: Final = 20.0
"""How long deliveries under way may take once they drain: their 15 s, and time to record."""

SeeThrough: TypeAlias = Callable[[Work], Awaitable[None]]
"""Makes the one attempt and records it, or lets go of it unsent; raises only for a fault of ours."""


class Deliveries:
    """Takes work from anywhere in this process with `take`; `run` has it seen through."""

    def __init__(self, what: str, see_through: SeeThrough, turns: Turns[Work]) -> None:
        """`what` is delivered, as logs call it."""
        self._what = what
        self._see_through = see_through
        self._turns = turns
        self._in_hand: dict[str, Work] = {}
        """By reference, in the order of their taking."""
        self._nursery: trio.Nursery | None = None
        self._is_draining = False

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return self._turns.waiting

    @property
    def under_way(self) -> int:
        """How many have one."""
        return self._turns.under_way

    @property
    def unrecorded(self) -> int:
        """How many ended in a fault of ours; they stay in hand until a restart."""
        return len(self._in_hand) - self.waiting - self.under_way

    def in_hand(self) -> Collection[Work]:
        """What is taken and not done with."""
        return self._in_hand.values()

    def brands_under_way(self) -> Collection[str]:
        """The brands that have a delivery under way."""
        return self._turns.merchants_under_way()

    def has_room_for(self, brand: str) -> bool:
        """Whether one more delivery to this brand would be taken. A brand without a backlog finds room as long as
        there is any."""
        return not self._is_draining and self._turns.has_room_for(brand)

    def take(self, work: Work) -> bool:
        """Take it on, or refuse: False leaves it to be handed out again later. What is taken twice is done once.
        Never waits."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        if reference in self._in_hand:
            return True
        if not self.has_room_for(brand):
            return False
        self._in_hand[reference] = work
        self._turns.add(brand, work)
        self._start_who_may()
        return True

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Deliver until `drain` is set; then start nothing more, and leave what is under way this many seconds. What
        is cancelled or hasn't begun by then isn't concluded, and its intent stays open."""
        async with trio.open_nursery() as self._nursery:
            self._start_who_may()
            task_status.started()
            try:
                await drain.wait()
            finally:
                self._is_draining = True
            self._nursery.cancel_scope.deadline = trio.current_time() + grace_s

    def _start_who_may(self) -> None:
        if self._nursery is None or self._is_draining:
            return
        while (work := self._turns.next()) is not None:
            self._nursery.start_soon(self._deliver, work)

    async def _deliver(self, work: Work) -> None:
        """A fault of ours costs this delivery only; as it may have been sent, it stays in hand, so that nobody sends it
        again before a restart."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        try:
            await self._see_through(work)
            del self._in_hand[reference]
        except Exception as error:
            fault = describe_fault(error)
            logger.error(
                f"{self._what} not recorded", reference=reference, brand=brand, fault=fault
            )
        finally:
            self._turns.leave(brand)
            self._start_who_may()


FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
"""Between two questions to a store that isn't available; the pause doubles from the first on."""

Answer = TypeVar("Answer")


async def insist(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of a store that may be unavailable for a while."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await ask()
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning("store unavailable to deliveries", error=str(error), pause_s=pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
