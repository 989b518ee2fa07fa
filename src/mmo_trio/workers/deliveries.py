"""Delivers callbacks and QR codes to merchants: one attempt for each, with fair shares (K1 to K7,
Q1).

No task loops over the work. Enqueued work and the end of a delivery both start the next deliveries;
a task lives until the outcome of its delivery is recorded. This process never sends the same
delivery twice: what may have been sent stays claimed until its outcome is recorded. What failed
before anything was sent is tried again after a pause.

Where several processes share a store, callbacks are sent under the fence of their claim, for as
long as this process owns the merchant's channel. The others are released unsent, and the next owner
claims them again (K3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from io import BytesIO
from typing import ClassVar, Final, Protocol, TypeAlias, TypeVar

import segno
import structlog
import trio
from attrs import define, evolve, field, frozen

from mmo_sansio.api.outgoing import callback_request, not_sent_attempt, qr_code_request
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome, breaker_open_attempt
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import CallbackConcluded, QrConcluded
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
from mmo_sansio.values.model import Order, QrCode, Transaction
from mmo_trio.brands.delivery_key import DeliveryRefused
from mmo_trio.http.client.client import MaySend, SendForbidden
from mmo_trio.storage.interface.store import STORE_ERRORS, WorkItem, log_store_failure
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.latency import EXTERNAL_BUCKETS_S, LatencyHistogram
from mmo_trio.system.logs import simulated_mark
from mmo_trio.workers.postponed import Postponed

logger = structlog.get_logger(__name__)

# Seconds that active deliveries have while the pool drains: their 15 s, and time to record.
DRAIN_GRACE_S: Final = 20.0

# Deliveries of one merchant that may wait for another attempt before no more of this merchant are
# accepted.
POSTPONED_PER_BRAND_MAX: Final = 1_024

# Limits of the pause between two calls of an unavailable store; the pause doubles each time.
RETRY_DELAY_MIN_S: Final = 0.1
RETRY_DELAY_MAX_S: Final = 5.0

# How often the record of an outcome that cannot be decided is tried before its delivery leaves its
# place to others.
TRIES_IN_PLACE: Final = 4

# The longest pause before it is tried again from then on.
UNDECIDED_RETRY_DELAY_MAX_S: Final = 60.0

FREQUENT_OUTCOMES: Final = frozenset({DeliveryOutcome.DELIVERED, DeliveryOutcome.BREAKER_OPEN})

# Returns the API key that a delivery for a payment to a URL carries now, or why nothing may be sent
# (A4). May raise StoreUnavailable.
FindDeliveryKey: TypeAlias = Callable[[Order, str], Awaitable[bytes | DeliveryRefused]]

ResultT = TypeVar("ResultT")


@define(eq=False, kw_only=True)
class DeliveryPool(ABC):
    """Accepts work from any task of this process; `run` delivers it."""

    CONCLUDED_EVENT: ClassVar[str]
    """The log event of a delivery whose outcome is recorded."""

    _find_key: FindDeliveryKey
    _queue: FairQueue[WorkItem]
    outcomes: Counter[DeliveryOutcome] = field(factory=Counter, init=False)
    """Concluded deliveries since the start."""
    _claimed: dict[str, WorkItem] = field(factory=dict, init=False)
    """Work by gatewayReference, in the order of its acceptance."""
    _claimed_by_brand: Counter[str] = field(factory=Counter, init=False)
    _postponed: Postponed[str] = field(factory=Postponed, init=False)
    """What failed before anything was sent, by gatewayReference."""
    _postponed_by_brand: Counter[str] = field(factory=Counter, init=False)
    _undecided: set[str] = field(factory=set, init=False)
    """GatewayReferences of deliveries whose outcome cannot be decided; they have left their
    places."""
    _unsent: set[str] = field(factory=set, init=False)
    """GatewayReferences of active deliveries of which certainly nothing was sent."""
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _pauses: trio.Nursery | None = field(default=None, init=False)
    """Runs the pauses of what is postponed."""
    _is_draining: bool = field(default=False, init=False)
    _logger: structlog.typing.FilteringBoundLogger = field(
        factory=lambda: logger.bind(), init=False
    )
    """Bound once, as binding costs more than a line that is not written."""

    @property
    def unrecorded(self) -> int:
        """Return how many deliveries wait for another attempt after a fault of ours."""
        return self._postponed_by_brand.total()

    def claimed(self) -> Collection[WorkItem]:
        """Return the work that is accepted and not concluded."""
        return self._claimed.values()

    def claimed_of(self, brand: str) -> int:
        """Return how much work of this brand is accepted and not concluded, without what waits for
        another attempt."""
        return self._claimed_by_brand[brand] - self._postponed_by_brand[brand]

    def active_brands(self) -> Collection[str]:
        """Return the brands that have an active delivery."""
        return self._queue.active_brands()

    def has_room_for(self, brand: str) -> bool:
        """Tell whether one more delivery to this brand would be accepted. A brand without a backlog
        is accepted as long as any room is left."""
        is_postponing = self._postponed_by_brand[brand] >= POSTPONED_PER_BRAND_MAX
        return not self._is_draining and not is_postponing and self._queue.has_room_for(brand)

    def try_enqueue(self, work: WorkItem) -> bool:
        """Accept work, or return False so that the caller offers it again later. Work that is
        offered twice is delivered once. This never waits."""
        reference = work.transaction.reference
        brand = work.transaction.order.brand
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
        """Deliver until `drain` is set; then start nothing more and give active deliveries
        `grace_s` seconds. Deliveries that are cancelled or not started are not concluded, and their
        intents stay open."""
        async with trio.open_nursery() as self._nursery:
            async with trio.open_nursery() as self._pauses:
                self._start_next()
                task_status.started()
                try:
                    await drain.wait()
                finally:
                    # What waits for another attempt stays in the store.
                    self._is_draining = True
                    self._pauses.cancel_scope.cancel()
            self._nursery.cancel_scope.deadline = trio.current_time() + grace_s

    @abstractmethod
    async def _process(self, work: WorkItem) -> None:
        """Make the one attempt and record it, or release the work unsent. An exception means an
        internal error. `_note_sending` is called immediately before anything is sent."""

    def _note_sending(self, reference: str) -> bool:
        """Note that a delivery may have been sent from now on; return True."""
        self._unsent.discard(reference)
        return True

    async def _send_once(
        self, order: Order, url: str, send: Callable[[], Awaitable[DeliveryAttempt]]
    ) -> DeliveryAttempt:
        """Return the attempt. After a fault of ours it has failed if something may have been sent,
        as when a connection breaks; if nothing was, the fault is raised."""
        reference = order.gateway_reference
        try:
            return await send()
        except Exception as error:
            if reference in self._unsent:
                raise

            # It may have arrived: a second attempt could deliver it twice (K3).
            fault, mark = describe_fault(error), simulated_mark(order)
            logger.error("delivery_broken_off", reference=reference, fault=fault, **mark)
            return DeliveryAttempt(
                DeliveryOutcome.TRANSPORT_ERROR, url, detail="It was broken off by a fault of ours."
            )

    async def _delivery_key(self, order: Order, url: str) -> bytes | DeliveryRefused:
        return await retry_until_available(lambda: self._find_key(order, url))

    def _conclude(self, work: WorkItem, attempt: DeliveryAttempt) -> None:
        """Count and log a recorded attempt: one that did not arrive as a warning with its reason,
        and for `debug` only those of which a busy gateway has hundreds a second: the usual ones,
        and those behind an open breaker, of which its opening has warned. The URL and the answer's
        body are in the delivery record only: either may be private to the merchant."""
        # The method is chosen first: a line that is not written costs next to nothing.
        self.outcomes[attempt.outcome] += 1
        log = self._logger.warning
        if attempt.outcome in FREQUENT_OUTCOMES:
            log = self._logger.debug

        reason = {}
        if attempt.outcome is not DeliveryOutcome.DELIVERED:
            reason = {"reason": attempt.detail}

        log(
            self.CONCLUDED_EVENT,
            reference=work.transaction.reference,
            brand=work.transaction.order.brand,
            outcome=attempt.outcome.value,
            status=attempt.status,
            duration_ms=attempt.duration_ms,
            **reason,
            **simulated_mark(work.transaction.order),
        )

    def _start_next(self) -> None:
        if self._nursery is None or self._is_draining:
            return

        # The queue gives out as much as there are slots.
        while (work := self._queue.next()) is not None:
            self._nursery.start_soon(self._deliver, work)

    async def _deliver(self, work: WorkItem) -> None:
        """Process deliveries, one after the other, for as long as there is one for this task."""
        following: WorkItem | None = work
        while following is not None:
            following = await self._deliver_one(following)

    async def _deliver_one(self, work: WorkItem) -> WorkItem | None:
        """Process one delivery, and return the next one that this task is to process."""
        reference = work.transaction.reference
        brand = work.transaction.order.brand
        self._unsent.add(reference)
        try:
            await self._process(work)
            del self._claimed[reference]
            self._claimed_by_brand[brand] -= 1
            self._postponed.discard(reference)
        except Exception as error:
            # 1. Sent, and its outcome could not be recorded: it stays claimed, so that this process
            #    never sends it again.
            # 2. Certainly not sent: once more after a pause.
            kind = type(work.intent).__name__
            mark = simulated_mark(work.transaction.order)
            log = logger.bind(kind=kind, reference=reference, brand=brand, **mark)
            if reference not in self._unsent:
                log.error("delivery_record_failed", fault=describe_fault(error))
            elif self._pauses is not None and not self._is_draining:
                pause_s = self._postponed.add(reference)
                log.error("delivery_postponed", fault=describe_fault(error), pause_s=pause_s)
                self._postponed_by_brand[brand] += 1
                self._pauses.start_soon(self._try_again_later, work, pause_s)
        finally:
            self._unsent.discard(reference)

            # One that has left its place before has none to give back.
            if reference in self._undecided:
                self._undecided.remove(reference)
                self._postponed_by_brand[brand] -= 1
            else:
                self._queue.release(brand)

        # This task goes on with the next one: to start a task costs more than to go on.
        following = None
        if not self._is_draining:
            following = self._queue.next()

        self._start_next()
        return following

    async def _record_until_decided(
        self, work: WorkItem, record: Callable[[], Awaitable[ResultT]]
    ) -> ResultT:
        """Return the reply to an outcome, which nobody else knows, so it is recorded until that
        succeeds. While the store can't, the delivery keeps its place, as no other could be recorded
        either. One that itself cannot be decided leaves its place after some tries."""
        tries = 0
        pause_s = RETRY_DELAY_MIN_S
        pause_max_s = RETRY_DELAY_MAX_S
        while True:
            try:
                return await record()
            except Exception as error:
                log_store_failure(logger, "delivery_record_retried", error, pause_s=pause_s)
                tries += not isinstance(error, STORE_ERRORS)

            # No outage, but an outcome that cannot be decided: others need not wait for it.
            if tries == TRIES_IN_PLACE and work.transaction.reference not in self._undecided:
                self._leave_place(work)
                pause_max_s = UNDECIDED_RETRY_DELAY_MAX_S

            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, pause_max_s)

    def _leave_place(self, work: WorkItem) -> None:
        """Let another delivery begin, while the outcome of this one is still to be recorded."""
        brand = work.transaction.order.brand
        self._undecided.add(work.transaction.reference)
        self._postponed_by_brand[brand] += 1
        self._queue.release(brand)
        self._start_next()

    async def _try_again_later(self, work: WorkItem, pause_s: float) -> None:
        """Put it at the end of the queue after a pause, or wait on while that is full."""
        brand = work.transaction.order.brand
        await trio.sleep(pause_s)
        if self._queue.has_room_for(brand):
            self._postponed_by_brand[brand] -= 1
            self._queue.add(brand, work)
            self._start_next()
        elif self._pauses is not None:
            self._pauses.start_soon(self._try_again_later, work, RETRY_DELAY_MAX_S)


async def retry_until_available(operation: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return the result of a store operation, repeated while the store can't serve."""
    pause_s = RETRY_DELAY_MIN_S
    while True:
        try:
            return await operation()
        except STORE_ERRORS as error:
            log_store_failure(logger, "delivery_store_retried", error, pause_s=pause_s)

        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_DELAY_MAX_S)


# Bytes of answers that are stored whole for each merchant in an hour.
STORED_BODIES_BYTES: Final = 16 * 1024 * 1024

# Bytes of an answer that are stored in any case.
SMALL_BODY_BYTES: Final = 4 * 1024

# Callbacks that may wait in memory with their transactions, some 50 MB: half of them of one
# merchant.
CALLBACKS_WAITING_MAX: Final = 32_768


class SendCallback(Protocol):
    """Makes one attempt of a brand within the delivery deadline; raises nothing that others cause,
    and SendForbidden when `may_send` returns False at the last moment."""

    async def __call__(
        self, request: HttpRequest, *, brand: str, may_send: MaySend
    ) -> DeliveryAttempt: ...


# Tells whether this process owns a brand's channel under this fence now, by a clock that runs on
# while the process is stopped.
OwnsChannel: TypeAlias = Callable[[str, int], bool]


def owns_every_channel(brand: str, fence: int) -> bool:
    """Tell that a process which uses its store alone owns the channel."""
    return True


# Records an outcome and may be repeated; may raise StoreUnavailable and OutcomeUnknown.
RecordCallbackOutcome: TypeAlias = Callable[[CallbackConcluded], Awaitable[object]]

# Returns when no backlog of due transactions is left, or after some seconds.
WaitForDue: TypeAlias = Callable[[], Awaitable[None]]

# Outcomes of attempts that opened no connection.
UNSENT_OUTCOMES: Final = frozenset(
    {DeliveryOutcome.EGRESS_REFUSED, DeliveryOutcome.BREAKER_OPEN, DeliveryOutcome.KEY_REVOKED}
)


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
    durations: LatencyHistogram = field(
        eq=False, factory=lambda: LatencyHistogram(EXTERNAL_BUCKETS_S)
    )
    """Durations of the attempts that opened a connection, whatever their outcome."""


@define(eq=False, kw_only=True)
class CallbackWorker(DeliveryPool):
    """Delivers callbacks."""

    CONCLUDED_EVENT = "callback_concluded"

    _send: SendCallback = field(alias="deliver")
    _record_outcome: RecordCallbackOutcome
    _own_time: Callable[[], Instant]
    """Returns the gateway's own time, in which breakers are stored for the next owner of a
    channel."""
    _monotonic: Callable[[], MonotonicInstant]
    """The breakers' clock, in microseconds. A sandbox moves it, so it does not measure deliveries;
    `deliver` has a deadline of its own, and every permit ends with its delivery, so permits need no
    deadline on this clock."""
    _breaker_settings: BreakerSettings = field(alias="breaker")
    _owns_channel: OwnsChannel = owns_every_channel
    _active_max: int = DELIVERY_SLOTS
    _active_per_brand_max: int = DELIVERY_SLOTS_PER_BRAND
    _waiting_max: int = CALLBACKS_WAITING_MAX
    _stored_bodies_bytes: int = STORED_BODIES_BYTES
    _wait_for_due: WaitForDue = trio.lowlevel.checkpoint
    """A callback that an open breaker holds back is asked for once more after this, so that those
    of many payments that expire together don't slow their expiry."""
    _queue: FairQueue[WorkItem] = field(init=False)
    _breakers: dict[str, CircuitBreaker] = field(factory=dict, init=False)
    _stored: dict[str, BreakerSnapshot] = field(factory=dict, init=False)
    """What the store holds of each breaker, in the breakers' own time; a new one where nothing is
    said."""
    _durations: LatencyHistogram = field(
        factory=lambda: LatencyHistogram(EXTERNAL_BUCKETS_S), init=False
    )
    _stored_bodies: dict[str, TokenBucket] = field(init=False)
    """The bytes of large answers that each brand may have stored."""

    def __attrs_post_init__(self) -> None:
        self._breaker_settings = evolve(self._breaker_settings, permit_deadline=None)
        self._queue = FairQueue(
            waiting_max=self._waiting_max,
            slots=self._active_max,
            slots_per_brand=self._active_per_brand_max,
        )
        bytes_max = self._stored_bodies_bytes
        self._stored_bodies = defaultdict(
            lambda: TokenBucket(bytes_max * SECOND / HOUR, burst=bytes_max)
        )

    def load_breaker(self, brand: str, snapshot: BreakerSnapshot) -> None:
        """Replace this brand's breaker by a stored one, whose times are the gateway's own."""
        # From the gateway's own time, in which it is stored, to the clock of this process. What
        # would lie in the future counts from now.
        by = Span(self._monotonic() - self._own_time())
        restored = snapshot.shifted(by).clamped(self._breaker_settings, now=self._monotonic())
        self._breakers[brand] = CircuitBreaker(self._breaker_settings, restored=restored)
        self._stored[brand] = restored

    def drop_breakers(self, brands: Collection[str]) -> None:
        """Forget the breakers of these brands, as another process goes on with them."""
        for brand in brands:
            self._breakers.pop(brand, None)
            self._stored.pop(brand, None)

    def unstored_breakers(self, brands: Collection[str]) -> Mapping[str, BreakerSnapshot]:
        """Return those of these brands' breakers, in the gateway's own time, that are not stored as
        they are."""
        snapshots = {
            brand: self._breakers[brand].snapshot() for brand in brands if brand in self._breakers
        }
        return {
            brand: self._in_own_time(snapshot)
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
        transaction = work.transaction
        fence = fence_of(work)
        reference = transaction.reference
        brand = transaction.order.brand
        mark = simulated_mark(transaction.order)

        # 1. Send it, if its channel is still ours, now and at the moment at which it is sent.
        try:
            if not self._owns_channel(brand, fence):
                raise SendForbidden

            attempt, breaker = await self._attempt(transaction, fence)
            attempt = self._limit_body(brand, attempt)
        except SendForbidden:
            logger.warning("callback_released", reference=reference, brand=brand, **mark)
            return

        # 2. Record it. Under a fence the outcome counts only where nobody has recorded one before.
        record = partial(self._record, reference, brand, attempt, fence, breaker)
        reply = await self._record_until_decided(work, record)
        if fence and not isinstance(reply, Applied):
            logger.warning("callback_recorded_before", reference=reference, brand=brand, **mark)
            return

        # 3. Count it.
        if attempt.outcome not in UNSENT_OUTCOMES:
            self._durations.observe(attempt.duration_ms / 1_000)

        self._conclude(work, attempt)

    async def _attempt(
        self, transaction: Transaction, fence: int
    ) -> tuple[DeliveryAttempt, CircuitBreaker | None]:
        """Make the one attempt, if the breaker permits it. The breaker is returned if it counted
        the attempt."""
        brand = transaction.order.brand
        url = transaction.order.result_url
        assert url is not None
        breaker = self._breakers.get(brand)
        if breaker is None:
            breaker = CircuitBreaker(self._breaker_settings)
            self._breakers[brand] = breaker

        # An open breaker is asked once more, after the payments that are due have gone first (K5).
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
                may_send=lambda: (
                    self._owns_channel(brand, fence) and self._note_sending(transaction.reference)
                ),
            )
            attempt = await self._send_once(transaction.order, url, send)

            # Refused by our own rules: that says nothing about the merchant's server.
            if attempt.outcome is DeliveryOutcome.EGRESS_REFUSED:
                return attempt, None

            before = breaker.state
            succeeded = attempt.outcome is DeliveryOutcome.DELIVERED
            breaker.record(permit, succeeded=succeeded, now=self._monotonic())
            if breaker.state is not before:
                logger.warning("breaker_state_changed", brand=brand, state=breaker.state.value)

            return attempt, breaker
        finally:
            # No effect once it is recorded.
            breaker.abandon(permit, now=self._monotonic())

    def _limit_body(self, brand: str, attempt: DeliveryAttempt) -> DeliveryAttempt:
        """Return what is stored of an attempt: the whole body (K4), as long as its merchant's
        answers do not fill the disk."""
        size = len(attempt.body)
        if size <= SMALL_BODY_BYTES or not self._stored_bodies[brand].take(self._monotonic(), size):
            return attempt

        detail = (
            f"{attempt.detail} Of its answer's {size} bytes, the first {SMALL_BODY_BYTES} "
            f"are stored."
        )
        return evolve(attempt, body=attempt.body[:SMALL_BODY_BYTES], detail=detail)

    async def _record(
        self,
        reference: str,
        brand: str,
        attempt: DeliveryAttempt,
        fence: int,
        breaker: CircuitBreaker | None,
    ) -> object:
        """Record an outcome, with the present state of the breaker that counted it if its successor
        has to know it."""
        snapshot = None
        if breaker is not None:
            snapshot = breaker.snapshot()

        if snapshot is None or not snapshot.must_be_stored_after(
            self._stored.get(brand, INITIAL_SNAPSHOT)
        ):
            return await self._record_outcome(CallbackConcluded(reference, attempt, fence))

        # With the outcome, so that a successor knows the one with the other (K5).
        stored = self._in_own_time(snapshot)
        reply = await self._record_outcome(CallbackConcluded(reference, attempt, fence, stored))
        if isinstance(reply, Applied) and self._breakers.get(brand) is breaker:
            self._stored[brand] = snapshot

        return reply

    def _in_own_time(self, snapshot: BreakerSnapshot) -> BreakerSnapshot:
        return snapshot.shifted(Span(self._own_time() - self._monotonic()))


def fence_of(work: WorkItem) -> int:
    """Return the fence under which this callback is claimed."""
    assert isinstance(work.intent, DeliverCallback)
    return work.intent.fence


# Codes that may wait in memory; some bring a picture of several kilobytes.
QR_WAITING_MAX: Final = 16_384

# Active deliveries of all merchants together.
QR_ACTIVE_MAX: Final = 256

QR_ACTIVE_PER_BRAND_MAX: Final = 16

# The white margin that a reader needs.
QUIET_ZONE_MODULES: Final = 4

MODULE_PIXELS: Final = 6

# Records an outcome and may be repeated; may raise StoreUnavailable and OutcomeUnknown.
RecordQrOutcome: TypeAlias = Callable[[QrConcluded], Awaitable[object]]


class SendQrCode(Protocol):
    """Makes one attempt of a brand within the delivery deadline; raises nothing that others
    cause."""

    async def __call__(self, request: HttpRequest, *, brand: str) -> DeliveryAttempt: ...


@define(eq=False, kw_only=True)
class QrWorker(DeliveryPool):
    """Delivers QR codes."""

    CONCLUDED_EVENT = "qr_code_concluded"

    _send: SendQrCode = field(alias="deliver")
    _record_outcome: RecordQrOutcome
    _queue: FairQueue[WorkItem] = field(
        factory=lambda: FairQueue(
            waiting_max=QR_WAITING_MAX, slots=QR_ACTIVE_MAX, slots_per_brand=QR_ACTIVE_PER_BRAND_MAX
        ),
        init=False,
    )

    async def _process(self, work: WorkItem) -> None:
        attempt = await self._attempt(work.transaction)
        concluded = QrConcluded(work.transaction.reference, attempt)
        await self._record_until_decided(work, lambda: self._record_outcome(concluded))
        self._conclude(work, attempt)

    async def _attempt(self, transaction: Transaction) -> DeliveryAttempt:
        """Make the one attempt, if there is a code and the payment is still pending."""
        # A picture of a payment that has ended would have somebody pay in vain.
        code = transaction.progress.qr
        if transaction.progress.stage.is_terminal:
            return not_sent_attempt(transaction, "The payment had ended, so nothing was sent.")
        if code is None:
            return not_sent_attempt(transaction, "The provider gave no code, so nothing was sent.")

        order = transaction.order
        assert order.display_qr_url is not None, "only a QR pay-in is shown"
        key = await self._delivery_key(order, order.display_qr_url)
        if isinstance(key, DeliveryRefused):
            return not_sent_attempt(transaction, key.detail, key.outcome)

        # Drawn before it counts as sent: a fault of the drawing is tried again.
        request = qr_code_request(transaction, key, image=await _image_base64(code))
        self._note_sending(transaction.reference)
        send = partial(self._send, request, brand=order.brand)
        return await self._send_once(order, order.display_qr_url, send)


async def _image_base64(code: QrCode) -> str:
    """Return the operator's picture in base64, or draw one from the text."""
    if code.image is not None:
        return code.image
    assert code.payload is not None, "a code is a text or a picture"
    return await trio.to_thread.run_sync(draw_png, code.payload)


def draw_png(payload: str) -> str:
    """Return the text as a PNG picture in base64, with error correction M."""
    file = BytesIO()
    code = segno.make_qr(payload, error="m", encoding="utf-8", boost_error=False)
    code.save(file, kind="png", scale=MODULE_PIXELS, border=QUIET_ZONE_MODULES)
    return b64encode(file.getvalue()).decode()
