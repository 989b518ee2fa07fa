"""Delivers work of one kind to merchants: one attempt for each, with fair shares (K3, K6).

No task loops over the work. Enqueued work and the end of a delivery both start the next deliveries; a task lives until
the outcome of its delivery is recorded. This process never sends the same delivery twice: what may have been sent stays
claimed until its outcome is recorded. What failed before anything was sent is tried again after a pause.
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
from mmo_trio.storage.interface.store import (
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnusable,
    WorkItem,
    log_store_failure,
)
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.postponed import Postponed

logger = structlog.get_logger(__name__)

DRAIN_GRACE_S: Final = 20.0
"""Seconds that active deliveries have while the pool drains: their 15 s, and time to record."""
POSTPONED_PER_BRAND_MAX: Final = 1_024
"""Deliveries of one merchant that may wait for another attempt before no more of this merchant are accepted."""
RETRY_DELAY_MIN_S: Final = 0.1
RETRY_DELAY_MAX_S: Final = 5.0
"""Limits of the pause between two calls of an unavailable store; the pause doubles each time."""

STORE_ERRORS: Final = (StoreUnavailable, StoreUnusable, OutcomeUnknown)
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
        self._postponed: Postponed[str] = Postponed()
        """What failed before anything was sent, by gatewayReference."""
        self._postponed_by_brand: Counter[str] = Counter()
        self._unsent: set[str] = set()
        """GatewayReferences of active deliveries of which certainly nothing was sent."""
        self._nursery: trio.Nursery | None = None
        self._pauses: trio.Nursery | None = None
        """Runs the pauses of what is postponed."""
        self._is_draining = False
        self._logger: structlog.typing.FilteringBoundLogger = logger.bind()
        """Bound once, as binding costs more than a line that is not written."""

    @property
    def unrecorded(self) -> int:
        """Return how many deliveries wait for another attempt after a fault of ours."""
        return self._postponed_by_brand.total()

    def claimed(self) -> Collection[WorkItem]:
        """Return the work that is accepted and not concluded."""
        return self._claimed.values()

    def claimed_of(self, brand: str) -> int:
        """Return how much work of this brand is accepted and not concluded, without what waits for another attempt."""
        return self._claimed_by_brand[brand] - self._postponed_by_brand[brand]

    def active_brands(self) -> Collection[str]:
        """Return the brands that have an active delivery."""
        return self._queue.active_brands()

    def has_room_for(self, brand: str) -> bool:
        """Tell whether one more delivery to this brand would be accepted. A brand without a backlog is accepted as long
        as any room is left."""
        is_postponing = self._postponed_by_brand[brand] >= POSTPONED_PER_BRAND_MAX
        return not self._is_draining and not is_postponing and self._queue.has_room_for(brand)

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
            async with trio.open_nursery() as self._pauses:
                self._start_next()
                task_status.started()
                try:
                    await drain.wait()
                finally:
                    self._is_draining = True
                    self._pauses.cancel_scope.cancel()
            self._nursery.cancel_scope.deadline = trio.current_time() + grace_s

    @abstractmethod
    async def _process(self, work: WorkItem) -> None:
        """Make the one attempt and record it, or release the work unsent. An exception means an internal error.
        `_note_sending` is called immediately before anything is sent."""

    def _note_sending(self, reference: str) -> bool:
        """Note that a delivery may have been sent from now on; return True."""
        self._unsent.discard(reference)
        return True

    async def _send_once(
        self, reference: str, url: str, send: Callable[[], Awaitable[DeliveryAttempt]]
    ) -> DeliveryAttempt:
        """Return the attempt. After a fault of ours it has failed if something may have been sent, as when a connection
        breaks; if nothing was, the fault is raised."""
        try:
            return await send()
        except Exception as error:
            if reference in self._unsent:
                raise
            logger.error("delivery_broken_off", reference=reference, fault=describe_fault(error))
            return DeliveryAttempt(DeliveryOutcome.TRANSPORT_ERROR, url, detail="It was broken off by a fault of ours.")

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
        """Process deliveries, one after the other, for as long as there is one for this task."""
        following: WorkItem | None = work
        while following is not None:
            following = await self._deliver_one(following)

    async def _deliver_one(self, work: WorkItem) -> WorkItem | None:
        """Process one delivery, and return the next one that this task is to process."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        self._unsent.add(reference)
        try:
            await self._process(work)
            del self._claimed[reference]
            self._claimed_by_brand[brand] -= 1
            self._postponed.discard(reference)
        except Exception as error:
            log = logger.bind(kind=type(work.intent).__name__, reference=reference, brand=brand)
            if reference not in self._unsent:
                log.error("delivery_record_failed", fault=describe_fault(error))
            elif self._pauses is not None and not self._is_draining:
                pause_s = self._postponed.add(reference)
                log.error("delivery_postponed", fault=describe_fault(error), pause_s=pause_s)
                self._postponed_by_brand[brand] += 1
                self._pauses.start_soon(self._try_again_later, work, pause_s)
        finally:
            self._unsent.discard(reference)
            self._queue.release(brand)
        following = None if self._is_draining else self._queue.next()
        self._start_next()
        return following

    async def _try_again_later(self, work: WorkItem, pause_s: float) -> None:
        brand = work.transaction.order.brand
        await trio.sleep(pause_s)
        if self._queue.has_room_for(brand):
            self._postponed_by_brand[brand] -= 1
            self._queue.add(brand, work)
            self._start_next()
        elif self._pauses is not None:
            self._pauses.start_soon(self._try_again_later, work, RETRY_DELAY_MAX_S)


async def retry_until_available(
    operation: Callable[[], Awaitable[ResultT]], errors: tuple[type[Exception], ...] = STORE_ERRORS
) -> ResultT:
    """Return the result of a store operation, repeated while it raises one of these errors: an outcome, which nobody
    else knows, is recorded whatever they are."""
    pause_s = RETRY_DELAY_MIN_S
    while True:
        try:
            return await operation()
        except errors as error:
            log_store_failure(logger, "delivery_store_retried", error, pause_s=pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_DELAY_MAX_S)
