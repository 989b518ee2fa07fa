"""Sends callbacks to merchants: one attempt for each callback, and for each merchant one breaker and a fair share of
the delivery slots (K1 to K7).

Where several processes share a store, this worker sends the callbacks that it has claimed, under the fence of the
claim, for as long as its process owns the channel. It releases the others unsent, and the next owner claims them again
(K3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

import structlog
import trio
from attrs import evolve, field, frozen

from mmo_sansio.api.outgoing import callback_request
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome, breaker_open_attempt
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import CallbackConcluded
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied
from mmo_sansio.resilience.circuit_breaker import (
    INITIAL_SNAPSHOT,
    BreakerSettings,
    BreakerSnapshot,
    BreakerState,
    CircuitBreaker,
)
from mmo_sansio.resilience.fair_queue import DELIVERY_SLOTS, DELIVERY_SLOTS_PER_BRAND, FairQueue
from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values.clock import HOUR, SECOND, Instant, MonotonicInstant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.brands.delivery_key import DeliveryRefused
from mmo_trio.http.client.client import MaySend, SendForbidden
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.system.latency import EXTERNAL_BUCKETS_S, LatencyHistogram
from mmo_trio.workers.delivery.pool import DeliveryPool, FindDeliveryKey, retry_until_available

logger = structlog.get_logger(__name__)

STORED_BODIES_BYTES: Final = 16 * 1024 * 1024
"""Bytes of answers that are stored whole for each merchant in an hour."""
SMALL_BODY_BYTES: Final = 4 * 1024
"""Bytes of an answer that are stored in any case."""
WAITING_MAX: Final = 32_768
"""Callbacks that may wait in memory with their transactions, some 50 MB: half of them of one merchant."""


class SendCallback(Protocol):
    """Makes one attempt of a brand within the delivery deadline; raises nothing that others cause, and SendForbidden
    when `may_send` returns False at the last moment."""

    async def __call__(self, request: HttpRequest, *, brand: str, may_send: MaySend) -> DeliveryAttempt: ...


OwnsChannel: TypeAlias = Callable[[str, int], bool]
"""Tells whether this process owns a brand's channel under this fence now, by a clock that runs on while the process is
stopped."""
RecordCallbackOutcome: TypeAlias = Callable[[CallbackConcluded], Awaitable[object]]
"""Records an outcome and may be repeated; may raise StoreUnavailable and OutcomeUnknown."""

WaitForDue: TypeAlias = Callable[[], Awaitable[None]]
"""Returns when no backlog of due transactions is left, or after some seconds."""

UNSENT_OUTCOMES: Final = frozenset(
    {DeliveryOutcome.EGRESS_REFUSED, DeliveryOutcome.BREAKER_OPEN, DeliveryOutcome.KEY_REVOKED}
)
"""Outcomes of attempts that opened no connection."""


@frozen
class CallbackStatistics:
    """Reports the present and past work of the callback worker."""

    waiting: int
    active: int
    outcomes: Mapping[DeliveryOutcome, int]
    """Concluded callbacks since the start."""
    open_breakers: frozenset[str]
    """Brands whose breaker is not closed."""
    unrecorded: int
    """Callbacks that wait for another attempt, after a fault of ours before anything was sent."""
    durations: LatencyHistogram = field(eq=False, factory=lambda: LatencyHistogram(EXTERNAL_BUCKETS_S))
    """Durations of the attempts that opened a connection, whatever their outcome."""


class CallbackWorker(DeliveryPool):
    """Delivers callbacks."""

    CONCLUDED_EVENT = "callback_concluded"

    def __init__(
        self,
        *,
        deliver: SendCallback,
        find_key: FindDeliveryKey,
        record_outcome: RecordCallbackOutcome,
        now: Callable[[], Instant],
        monotonic: Callable[[], MonotonicInstant],
        breaker: BreakerSettings,
        owns_channel: OwnsChannel = lambda brand, fence: True,
        active_max: int = DELIVERY_SLOTS,
        active_per_brand_max: int = DELIVERY_SLOTS_PER_BRAND,
        waiting_max: int = WAITING_MAX,
        stored_bodies_bytes: int = STORED_BODIES_BYTES,
        wait_for_due: WaitForDue = trio.lowlevel.checkpoint,
    ) -> None:
        """`now`: the gateway's own time, in which breakers are stored for the next owner of a channel.

        `monotonic`: the breakers' clock, in microseconds. A sandbox moves it, so it does not measure deliveries;
        `deliver` has a deadline of its own, and every permit ends with its delivery, so permits need no deadline on
        this clock.

        `wait_for_due`: a callback that an open breaker holds back is asked for once more after this, so that those of
        many payments that expire together don't slow their expiry."""
        super().__init__(
            find_key, FairQueue(waiting_max=waiting_max, slots=active_max, slots_per_brand=active_per_brand_max)
        )
        self._send = deliver
        self._record_outcome = record_outcome
        self._now = now
        self._monotonic = monotonic
        self._owns_channel = owns_channel
        self._wait_for_due = wait_for_due
        self._breaker_settings = evolve(breaker, permit_deadline=None)
        self._breakers: dict[str, CircuitBreaker] = {}
        self._stored: dict[str, BreakerSnapshot] = {}
        """What the store holds of each breaker, in the breakers' own time; a new one where nothing is said."""
        self._durations = LatencyHistogram(EXTERNAL_BUCKETS_S)
        self._stored_bodies = defaultdict[str, TokenBucket](
            lambda: TokenBucket(stored_bodies_bytes * SECOND / HOUR, burst=stored_bodies_bytes)
        )
        """The bytes of large answers that each brand may have stored."""

    def load_breaker(self, brand: str, snapshot: BreakerSnapshot) -> None:
        """Replace this brand's breaker by a stored one, whose times are the gateway's own."""
        by = Span(self._monotonic() - self._now())
        restored = snapshot.shifted(by).clamped(self._breaker_settings, now=self._monotonic())
        self._breakers[brand] = CircuitBreaker(self._breaker_settings, restored=restored)
        self._stored[brand] = restored

    def drop_breakers(self, brands: Collection[str]) -> None:
        """Forget the breakers of these brands, as another process goes on with them."""
        for brand in brands:
            self._breakers.pop(brand, None)
            self._stored.pop(brand, None)

    def unstored_breakers(self, brands: Collection[str]) -> Mapping[str, BreakerSnapshot]:
        """Return those of these brands' breakers, in the gateway's own time, that are not stored as they are."""
        snapshots = {brand: self._breakers[brand].snapshot() for brand in brands if brand in self._breakers}
        return {
            brand: self._in_gateway_time(snapshot)
            for brand, snapshot in snapshots.items()
            if snapshot != self._stored.get(brand, INITIAL_SNAPSHOT)
        }

    def statistics(self) -> CallbackStatistics:
        """Return the present figures."""
        states = {brand: breaker.state for brand, breaker in self._breakers.items()}
        return CallbackStatistics(
            self._queue.waiting,
            self._queue.active,
            dict(self.outcomes),
            frozenset(brand for brand in states if states[brand] is not BreakerState.CLOSED),
            self.unrecorded,
            self._durations,
        )

    async def _process(self, work: WorkItem) -> None:
        transaction, fence = work.transaction, fence_of(work)
        reference, brand = transaction.reference, transaction.order.brand
        try:
            if not self._owns_channel(brand, fence):
                raise SendForbidden
            attempt, breaker = await self._attempt(transaction, fence)
            attempt = self._limit_body(brand, attempt)
        except SendForbidden:
            logger.warning("callback_released", reference=reference, brand=brand)
            return
        record = partial(self._record, reference, brand, attempt, fence, breaker)
        reply = await retry_until_available(record, (Exception,))
        if fence and not isinstance(reply, Applied):
            logger.warning("callback_recorded_before", reference=reference, brand=brand)
            return
        if attempt.outcome not in UNSENT_OUTCOMES:
            self._durations.observe(attempt.duration_ms / 1_000)
        self._conclude(work, attempt)

    async def _attempt(self, transaction: Transaction, fence: int) -> tuple[DeliveryAttempt, CircuitBreaker | None]:
        """Make the one attempt, if the breaker permits it. The breaker is returned if it counted the attempt."""
        brand, url = transaction.order.brand, transaction.order.result_url
        assert url is not None
        breaker = self._breakers.get(brand)
        if breaker is None:
            breaker = self._breakers[brand] = CircuitBreaker(self._breaker_settings)
        permit = breaker.request_permit(self._monotonic())
        if permit is None:
            await self._wait_for_due()
            permit = breaker.request_permit(self._monotonic())
        if permit is None:
            return breaker_open_attempt(url), None
        try:
            key = await self._delivery_key(transaction.order, url)
            if isinstance(key, DeliveryRefused):
                return DeliveryAttempt(key.outcome, url, detail=key.detail), None
            send = partial(
                self._send,
                callback_request(transaction, key),
                brand=brand,
                may_send=lambda: self._owns_channel(brand, fence) and self._note_sending(transaction.reference),
            )
            attempt = await self._send_once(transaction.reference, url, send)
            if attempt.outcome is DeliveryOutcome.EGRESS_REFUSED:
                return attempt, None
            before = breaker.state
            succeeded = attempt.outcome is DeliveryOutcome.DELIVERED
            breaker.record(permit, succeeded=succeeded, now=self._monotonic())
            if breaker.state is not before:
                logger.warning("breaker_state_changed", brand=brand, state=breaker.state.value)
            return attempt, breaker
        finally:
            breaker.abandon(permit, now=self._monotonic())  # No effect once it is recorded.

    def _limit_body(self, brand: str, attempt: DeliveryAttempt) -> DeliveryAttempt:
        """Return what is stored of an attempt: the whole body (K4), as long as its merchant's answers do not fill the
        disk."""
        size = len(attempt.body)
        if size <= SMALL_BODY_BYTES or not self._stored_bodies[brand].take(self._monotonic(), size):
            return attempt
        detail = f"{attempt.detail} Of its answer's {size} bytes, the first {SMALL_BODY_BYTES} are stored."
        return evolve(attempt, body=attempt.body[:SMALL_BODY_BYTES], detail=detail)

    async def _record(
        self, reference: str, brand: str, attempt: DeliveryAttempt, fence: int, breaker: CircuitBreaker | None
    ) -> object:
        """Record an outcome, with the present state of the breaker that counted it if its successor has to know it."""
        snapshot = None if breaker is None else breaker.snapshot()
        if snapshot is None or not snapshot.must_be_stored_after(self._stored.get(brand, INITIAL_SNAPSHOT)):
            return await self._record_outcome(CallbackConcluded(reference, attempt, fence))
        stored = self._in_gateway_time(snapshot)
        reply = await self._record_outcome(CallbackConcluded(reference, attempt, fence, stored))
        if isinstance(reply, Applied) and self._breakers.get(brand) is breaker:
            self._stored[brand] = snapshot
        return reply

    def _in_gateway_time(self, snapshot: BreakerSnapshot) -> BreakerSnapshot:
        return snapshot.shifted(Span(self._now() - self._monotonic()))


def fence_of(work: WorkItem) -> int:
    """Return the fence under which this callback is claimed."""
    assert isinstance(work.intent, DeliverCallback)
    return work.intent.fence
