"""Delivers work of one kind to merchants: one attempt for each, with fair shares (K3, K6).

No task loops over the work. Enqueued work and the end of a delivery both start the next deliveries; a task lives until
the outcome of its delivery is recorded. This process never sends the same delivery twice, even if the outcome cannot be
recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import ClassVar, Final, TypeAlias, TypeVar

import structlog
import trio

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.resilience.fair_queue import FairQueue
from mmo_sansio.values.model import Order
from mmo_trio.brands.delivery_key import DeliveryRefused
from mmo_trio.storage.interface.failures import log_store_failure
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, StoreUnusable, WorkItem
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

DRAIN_GRACE_S: Final = 20.0
"""Seconds that active deliveries have while the pool drains: their 15 s, and time to record."""
RETRY_DELAY_MIN_S: Final = 0.1
RETRY_DELAY_MAX_S: Final = 5.0
"""Limits of the pause between two calls of an unavailable store; the pause doubles each time."""

FREQUENT_OUTCOMES: Final = frozenset({DeliveryOutcome.DELIVERED, DeliveryOutcome.BREAKER_OPEN})

FindDeliveryKey: TypeAlias = Callable[[Order, str], Awaitable[bytes | DeliveryRefused]]
"""Returns the API key that a delivery for a payment to a URL carries now, or why nothing may be sent (A4). May raise
StoreUnavailable."""

ResultT = TypeVar("ResultT")


class DeliveryPool(ABC):
    """Accepts work from any task of this process; `run` delivers it."""

    CONCLUDED_EVENT: ClassVar[str]
    """The log event of a delivery whose outcome is recorded."""

    def __init__(self, find_key: FindDeliveryKey, queue: FairQueue[WorkItem]) -> None:
        self.outcomes: Counter[DeliveryOutcome] = Counter()
        """Concluded deliveries since the start."""
        self._find_key = find_key
        self._queue = queue
        self._claimed: dict[str, WorkItem] = {}
        """Work by gatewayReference, in the order of its acceptance."""
        self._claimed_by_brand: Counter[str] = Counter()
        self._nursery: trio.Nursery | None = None
        self._is_draining = False
        self._logger: structlog.typing.FilteringBoundLogger = logger.bind()
        """Bound once, as binding costs more than a line that is not written."""

    @property
    def unrecorded(self) -> int:
        """Return how many deliveries ended in an internal error; they stay claimed until a restart."""
        return len(self._claimed) - self._queue.waiting - self._queue.active

    def claimed(self) -> Collection[WorkItem]:
        """Return the work that is accepted and not concluded."""
        return self._claimed.values()

    def claimed_of(self, brand: str) -> int:
        """Return how much work of this brand is accepted and not concluded."""
        return self._claimed_by_brand[brand]

    def active_brands(self) -> Collection[str]:
        """Return the brands that have an active delivery."""
        return self._queue.active_brands()

    def has_room_for(self, brand: str) -> bool:
        """Tell whether one more delivery to this brand would be accepted. A brand without a backlog is accepted as long
        as any room is left."""
        return not self._is_draining and self._queue.has_room_for(brand)

    def try_enqueue(self, work: WorkItem) -> bool:
        """Accept work, or return False so that the caller offers it again later. Work that is offered twice is
        delivered once. This never waits."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        if reference in self._claimed:
            return True
        if not self.has_room_for(brand):
            return False
        self._claimed[reference] = work
        self._claimed_by_brand[brand] += 1
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
        """Deliver until `drain` is set; then start nothing more and give active deliveries `grace_s` seconds.
        Deliveries that are cancelled or not started are not concluded, and their intents stay open."""
        async with trio.open_nursery() as self._nursery:
            self._start_next()
            task_status.started()
            try:
                await drain.wait()
            finally:
                self._is_draining = True
            self._nursery.cancel_scope.deadline = trio.current_time() + grace_s

    @abstractmethod
    async def _process(self, work: WorkItem) -> None:
        """Make the one attempt and record it, or release the work unsent. An exception means an internal error."""

    async def _delivery_key(self, order: Order, url: str) -> bytes | DeliveryRefused:
        return await retry_until_available(lambda: self._find_key(order, url))

    def _conclude(self, work: WorkItem, attempt: DeliveryAttempt) -> None:
        """Count and log a recorded attempt: one that did not arrive as a warning with its reason, and for `debug` only
        those of which a busy gateway has hundreds a second: the usual ones, and those behind an open breaker, of which
        its opening has warned. The URL and the answer's body are in the delivery record only: either may be private to
        the merchant."""
        self.outcomes[attempt.outcome] += 1
        is_delivered = attempt.outcome is DeliveryOutcome.DELIVERED
        (self._logger.debug if attempt.outcome in FREQUENT_OUTCOMES else self._logger.warning)(
            self.CONCLUDED_EVENT,
            reference=work.transaction.reference,
            brand=work.transaction.order.brand,
            outcome=attempt.outcome.value,
            status=attempt.status,
            duration_ms=attempt.duration_ms,
            **({} if is_delivered else {"reason": attempt.detail}),
        )

    def _start_next(self) -> None:
        if self._nursery is None or self._is_draining:
            return
        while (work := self._queue.next()) is not None:
            self._nursery.start_soon(self._deliver, work)

    async def _deliver(self, work: WorkItem) -> None:
        """Process deliveries, one after the other, for as long as there is one for this task. After an internal error
        a delivery may have been sent, so it stays claimed and nothing sends it again before a restart; others go on."""
        following: WorkItem | None = work
        while following is not None:
            following = await self._deliver_one(following)

    async def _deliver_one(self, work: WorkItem) -> WorkItem | None:
        """Process one delivery, and return the next one that this task is to process."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        try:
            await self._process(work)
            del self._claimed[reference]
            self._claimed_by_brand[brand] -= 1
        except Exception as error:
            log = logger.bind(kind=type(work.intent).__name__, reference=reference, brand=brand)
            log.error("delivery_record_failed", fault=describe_fault(error))
        finally:
            self._queue.release(brand)
        following = None if self._is_draining else self._queue.next()
        self._start_next()
        return following


async def retry_until_available(operation: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return the result of a store operation, repeated while the store is unavailable."""
    pause_s = RETRY_DELAY_MIN_S
    while True:
        try:
            return await operation()
        except (StoreUnavailable, StoreUnusable, OutcomeUnknown) as error:
            log_store_failure(logger, "delivery_store_retried", error, pause_s=pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_DELAY_MAX_S)
