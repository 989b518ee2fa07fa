"""Calls merchants back: one attempt for each callback, one breaker and a fair share of the places
for each merchant (K1 to K7).

Where several processes share a store, this one sends what it has claimed, under the fence that it
was claimed under, for as long as that holds; the rest it lets go of, unsent, to whoever claims it
next (K3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol, TypeAlias

import structlog
import trio
from attrs import evolve, field, frozen

from mmo_sansio.api.outgoing.callback import callback_request
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome, breaker_open_attempt
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import CallbackConcluded
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied
from mmo_sansio.resilience.circuit_breaker import (
    BreakerSettings,
    BreakerSnapshot,
    BreakerState,
    CircuitBreaker,
)
from mmo_sansio.resilience.fair_queue import DELIVERY_SLOTS, DELIVERY_SLOTS_PER_BRAND, FairQueue
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.http.client.exchange import MaySend, SendForbidden
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.system.latency import EXTERNAL_BUCKETS_S, LatencyHistogram
from mmo_trio.workers.delivery.pool import DRAIN_GRACE_S, DeliveryPool, retry_until_available

logger = structlog.get_logger(__name__)

WAITING_MAX: Final = 65_536
"""Callbacks that may wait in memory: some 100 MB of transactions."""


class SendCallback(Protocol):
    """Makes one attempt, within the callback deadline over everything; raises nothing that others
    cause, and SendForbidden when `may_send` forbids it at the last moment."""

    async def __call__(self, request: HttpRequest, *, may_send: MaySend) -> DeliveryAttempt: ...


OwnsChannel: TypeAlias = Callable[[str, int], bool]
"""Whether this process holds a brand's channel under this fence, right now; it asks a clock that
goes on while the process is stopped."""
FindApiKey: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""The API key that a brand's callbacks carry now (A4); None when there is no such brand, or no key
in use. May raise StoreUnavailable."""
RecordCallbackOutcome: TypeAlias = Callable[[CallbackConcluded], Awaitable[object]]
"""Records an outcome; may raise StoreUnavailable and OutcomeUnknown. To repeat it does no harm."""

UNSENT_OUTCOMES: Final = frozenset({DeliveryOutcome.EGRESS_REFUSED, DeliveryOutcome.BREAKER_OPEN})
"""Outcomes for which nobody was called."""


@frozen
class CallbackStatistics:
    """What the worker is doing, and what it has done."""

    waiting: int
    active: int
    outcomes: Mapping[DeliveryOutcome, int]
    """Concluded callbacks since the start."""
    open_breakers: frozenset[str]
    """Brands whose breaker isn't closed."""
    unrecorded: int
    """Callbacks that ended in an internal error; they stay open until a restart."""
    durations: LatencyHistogram = field(
        eq=False, factory=lambda: LatencyHistogram(EXTERNAL_BUCKETS_S)
    )
    """How long deliveries took for which somebody was called, whatever they came to."""


class CallbackWorker:
    """Takes callbacks from anywhere in this process with `take`; `run` delivers them."""

    def __init__(
        self,
        *,
        deliver: SendCallback,
        find_api_key: FindApiKey,
        record_outcome: RecordCallbackOutcome,
        now: Callable[[], Instant],
        monotonic: Callable[[], Instant],
        breaker: BreakerSettings,
        owns_channel: OwnsChannel = lambda brand, fence: True,
        active_max: int = DELIVERY_SLOTS,
        active_per_brand_max: int = DELIVERY_SLOTS_PER_BRAND,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        """`now`: wall time, in which breakers are kept for whoever goes on from them.

        `monotonic`: the breakers' clock, in microseconds; a sandbox moves it, so it says nothing
        of how long a delivery takes. That is for `deliver` to see to, and here every permit comes
        to an end with its delivery: permits need no deadline on that clock."""
        self._deliver = deliver
        self._find_api_key = find_api_key
        self._record_outcome = record_outcome
        self._now = now
        self._monotonic = monotonic
        self._owns_channel = owns_channel
        self._breaker_settings = evolve(breaker, permit_deadline=None)
        self._breakers: dict[str, CircuitBreaker] = {}
        self._outcomes: Counter[DeliveryOutcome] = Counter()
        self._durations = LatencyHistogram(EXTERNAL_BUCKETS_S)
        turns = FairQueue[WorkItem](
            waiting_max=waiting_max, slots=active_max, slots_per_brand=active_per_brand_max
        )
        self._pool = DeliveryPool("callback", self._process, turns)

    def load_breaker(self, brand: str, snapshot: BreakerSnapshot) -> None:
        """Go on with this brand's breaker from here, as it was kept, in wall time."""
        by = self._monotonic() - self._now()
        restored = snapshot.shifted(by).clamped(self._breaker_settings, now=self._monotonic())
        self._breakers[brand] = CircuitBreaker(self._breaker_settings, restored=restored)

    def drop_breakers(self, brands: Collection[str]) -> None:
        """Forget these brands' breakers: others go on with them."""
        for brand in brands:
            self._breakers.pop(brand, None)

    def claimed(self) -> Collection[WorkItem]:
        """What is taken and not concluded."""
        return self._pool.claimed()

    def active_brands(self) -> Collection[str]:
        """The brands that have a delivery under way."""
        return self._pool.active_brands()

    def has_room_for(self, brand: str) -> bool:
        """Whether one more callback of this brand would be taken; see `DeliveryPool.has_room_for`."""
        return self._pool.has_room_for(brand)

    def try_enqueue(self, work: WorkItem) -> bool:
        """Take on a callback, or refuse it for now; see `DeliveryPool.try_enqueue`."""
        assert isinstance(work.intent, DeliverCallback)
        return self._pool.try_enqueue(work)

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = DRAIN_GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call back until `drain` is set; see `DeliveryPool.run`."""
        await self._pool.run(drain=drain, grace_s=grace_s, task_status=task_status)

    def statistics(self) -> CallbackStatistics:
        """As of now."""
        return CallbackStatistics(
            self._pool.waiting,
            self._pool.active,
            dict(self._outcomes),
            frozenset(
                brand
                for brand, breaker in self._breakers.items()
                if breaker.state is not BreakerState.CLOSED
            ),
            self._pool.unrecorded,
            self._durations,
        )

    async def _process(self, work: WorkItem) -> None:
        """From the breaker to the record."""
        transaction, fence = work.transaction, fence_of(work)
        reference, brand = transaction.reference, transaction.order.brand
        try:
            if not self._owns_channel(brand, fence):
                raise SendForbidden
            attempt, breaker = await self._attempt(transaction, fence)
        except SendForbidden:
            logger.warning("callback_released", reference=reference, brand=brand)
            return
        reply = await retry_until_available(
            lambda: self._record_outcome(
                CallbackConcluded(reference, attempt, fence, self._breaker_snapshot(breaker))
            )
        )
        if fence and not isinstance(reply, Applied):
            logger.warning("callback_claim_lost", reference=reference, brand=brand)
            return
        self._outcomes[attempt.outcome] += 1
        if attempt.outcome not in UNSENT_OUTCOMES:
            self._durations.observe(attempt.duration_ms / 1_000)
        _log_concluded(reference, brand, attempt)

    async def _attempt(
        self, transaction: Transaction, fence: int
    ) -> tuple[DeliveryAttempt, CircuitBreaker | None]:
        """The one attempt, if the breaker lets it through; and the breaker, if it counted."""
        brand, url = transaction.order.brand, transaction.order.result_url
        assert url is not None
        breaker = self._breakers.setdefault(brand, CircuitBreaker(self._breaker_settings))
        permit = breaker.request_permit(self._monotonic())
        if permit is None:
            return breaker_open_attempt(url), None
        try:
            key = await retry_until_available(lambda: self._find_api_key(brand))
            if key is None:
                detail = "The brand has no API key in use, so nothing was sent."
                return DeliveryAttempt(DeliveryOutcome.TRANSPORT_ERROR, url, detail=detail), None
            attempt = await self._deliver(
                callback_request(transaction, key),
                may_send=lambda: self._owns_channel(brand, fence),
            )
            if attempt.outcome is DeliveryOutcome.EGRESS_REFUSED:
                return attempt, None
            before = breaker.state
            succeeded = attempt.outcome is DeliveryOutcome.DELIVERED
            breaker.record(permit, succeeded=succeeded, now=self._monotonic())
            if breaker.state is not before:
                logger.warning("breaker_state_changed", brand=brand, state=breaker.state.value)
            return attempt, breaker
        finally:
            breaker.abandon(permit, now=self._monotonic())  # nothing, once it was recorded

    def _breaker_snapshot(self, breaker: CircuitBreaker | None) -> BreakerSnapshot | None:
        """The breaker as it is now, in wall time: the last one that is recorded is the newest."""
        if breaker is None:
            return None
        return breaker.snapshot().shifted(self._now() - self._monotonic())


def fence_of(work: WorkItem) -> int:
    """The fence under which this callback is claimed."""
    assert isinstance(work.intent, DeliverCallback)
    return work.intent.fence


def _log_concluded(reference: str, brand: str, attempt: DeliveryAttempt) -> None:
    """The URL and the answer's body stand in the delivery record, not here: either may hold what is
    the merchant's only."""
    logger.info(
        "callback_concluded",
        reference=reference,
        brand=brand,
        outcome=attempt.outcome.value,
        status=attempt.status,
        duration_ms=attempt.duration_ms,
    )
