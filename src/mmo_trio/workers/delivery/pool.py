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

from mmo_sansio.resilience.fair_queue import FairQueue
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

DRAIN_GRACE_S: Final = 20.0
"""How long deliveries under way may take once they drain: their 15 s, and time to record."""

ProcessDelivery: TypeAlias = Callable[[WorkItem], Awaitable[None]]
"""Makes the one attempt and records it, or lets go of it unsent; raises only for a fault of ours."""


class DeliveryPool:
    """Takes work from anywhere in this process with `take`; `run` has it seen through."""

    def __init__(self, label: str, process: ProcessDelivery, queue: FairQueue[WorkItem]) -> None:
        """`what` is delivered, as logs call it."""
        self._label = label
        self._process = process
        self._queue = queue
        self._claimed: dict[str, WorkItem] = {}
        """By reference, in the order of their taking."""
        self._nursery: trio.Nursery | None = None
        self._is_draining = False

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return self._queue.waiting

    @property
    def active(self) -> int:
        """How many have one."""
        return self._queue.active

    @property
    def unrecorded(self) -> int:
        """How many ended in a fault of ours; they stay in hand until a restart."""
        return len(self._claimed) - self.waiting - self.active

    def claimed(self) -> Collection[WorkItem]:
        """What is taken and not done with."""
        return self._claimed.values()

    def active_brands(self) -> Collection[str]:
        """The brands that have a delivery under way."""
        return self._queue.active_brands()

    def has_room_for(self, brand: str) -> bool:
        """Whether one more delivery to this brand would be taken. A brand without a backlog finds room as long as
        there is any."""
        return not self._is_draining and self._queue.has_room_for(brand)

    def try_enqueue(self, work: WorkItem) -> bool:
        """Take it on, or refuse: False leaves it to be handed out again later. What is taken twice is done once.
        Never waits."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        if reference in self._claimed:
            return True
        if not self.has_room_for(brand):
            return False
        self._claimed[reference] = work
        self._queue.add(brand, work)
        self._start_next()
        return True

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = DRAIN_GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Deliver until `drain` is set; then start nothing more, and leave what is under way this many seconds. What
        is cancelled or hasn't begun by then isn't concluded, and its intent stays open."""
        async with trio.open_nursery() as self._nursery:
            self._start_next()
            task_status.started()
            try:
                await drain.wait()
            finally:
                self._is_draining = True
            self._nursery.cancel_scope.deadline = trio.current_time() + grace_s

    def _start_next(self) -> None:
        if self._nursery is None or self._is_draining:
            return
        while (work := self._queue.next()) is not None:
            self._nursery.start_soon(self._deliver, work)

    async def _deliver(self, work: WorkItem) -> None:
        """A fault of ours costs this delivery only; as it may have been sent, it stays in hand, so that nobody sends it
        again before a restart."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        try:
            await self._process(work)
            del self._claimed[reference]
        except Exception as error:
            fault = describe_fault(error)
            logger.error(
                "delivery_record_failed",
                kind=self._label,
                reference=reference,
                brand=brand,
                fault=fault,
            )
        finally:
            self._queue.release(brand)
            self._start_next()


RETRY_DELAY_MIN_S: Final = 0.1
RETRY_DELAY_MAX_S: Final = 5.0
"""Between two questions to a store that isn't available; the pause doubles from the first on."""

ResultT = TypeVar("ResultT")


async def retry_until_available(operation: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """The answer of a store that may be unavailable for a while."""
    pause_s = RETRY_DELAY_MIN_S
    while True:
        try:
            return await operation()
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning("delivery_store_retried", error=str(error), pause_s=pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_DELAY_MAX_S)
