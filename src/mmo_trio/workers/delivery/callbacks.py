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

from mmo_sansio.api.outgoing.callback import build
from mmo_sansio.http.exchange import Attempt, DeliveryOutcome, stopped_by_breaker
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import CallbackConcluded
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Noted
from mmo_sansio.resilience.circuit_breaker import (
    Breaker,
    BreakerSettings,
    BreakerSnapshot,
    BreakerState,
)
from mmo_sansio.resilience.fair_queue import PLACES, PLACES_PER_MERCHANT, Turns
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.http.client.exchange import MaySend, WithheldError
from mmo_trio.storage.interface.store import Work
from mmo_trio.system.latency import OUTSIDE_S, Durations
from mmo_trio.workers.delivery.pool import GRACE_S, Deliveries, insist

logger = structlog.get_logger(__name__)

WAITING_MOST: Final = 65_536
"""Callbacks that may wait in memory: some 100 MB of transactions."""


class Deliver(Protocol):
    """Makes one attempt, within the callback deadline over everything; raises nothing that others
    cause, and WithheldError when `may_send` forbids it at the last moment."""

    async def __call__(self, request: HttpRequest, *, may_send: MaySend) -> Attempt: ...


Holds: TypeAlias = Callable[[str, int], bool]
"""Whether this process holds a brand's channel under this fence, right now; it asks a clock that
goes on while the process is stopped."""
KeyFor: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""The API key that a brand's callbacks carry now (A4); None when there is no such brand, or no key
in use. May raise StoreUnavailable."""
Conclude: TypeAlias = Callable[[CallbackConcluded], Awaitable[object]]
"""Records an outcome; may raise StoreUnavailable and OutcomeUnknown. To repeat it does no harm."""

UNSENT: Final = frozenset({DeliveryOutcome.EGRESS_REFUSED, DeliveryOutcome.BREAKER_OPEN})
"""Outcomes for which nobody was called."""


@frozen
class CallbackStatistics:
    """What the worker is doing, and what it has done."""

    waiting: int
    under_way: int
    outcomes: Mapping[DeliveryOutcome, int]
    """Concluded callbacks since the start."""
    open_breakers: frozenset[str]
    """Brands whose breaker isn't closed."""
    unrecorded: int
    """Callbacks that ended in a fault of ours; they stay open until a restart."""
    sent: Durations = field(eq=False, factory=lambda: Durations(OUTSIDE_S))
    """How long deliveries took for which somebody was called, whatever they came to."""


class CallbackWorker:
    """Takes callbacks from anywhere in this process with `take`; `run` delivers them."""

    def __init__(
        self,
        *,
        deliver: Deliver,
        key_for: KeyFor,
        conclude: Conclude,
        now: Callable[[], Instant],
        monotonic: Callable[[], Instant],
        breaker: BreakerSettings,
        holds: Holds = lambda brand, fence: True,
        places: int = PLACES,
        per_merchant: int = PLACES_PER_MERCHANT,
        waiting_most: int = WAITING_MOST,
    ) -> None:
        """`now`: wall time, in which breakers are kept for whoever goes on from them.

        `monotonic`: the breakers' clock, in microseconds; a sandbox moves it, so it says nothing
        of how long a delivery takes. That is for `deliver` to see to, and here every permit comes
        to an end with its delivery: permits need no deadline on that clock."""
        self._deliver = deliver
        self._key_for = key_for
        self._conclude = conclude
        self._now = now
        self._monotonic = monotonic
        self._holds = holds
        self._settings = evolve(breaker, permit_deadline=None)
        self._breakers: dict[str, Breaker] = {}
        self._outcomes: Counter[DeliveryOutcome] = Counter()
        self._sent = Durations(OUTSIDE_S)
        turns = Turns[Work](waiting_most=waiting_most, places=places, per_merchant=per_merchant)
        self._deliveries = Deliveries("callback", self._see_through, turns)

    def adopt(self, brand: str, kept: BreakerSnapshot) -> None:
        """Go on with this brand's breaker from here, as it was kept, in wall time."""
        by = self._monotonic() - self._now()
        restored = kept.shifted(by).believable(self._settings, now=self._monotonic())
        self._breakers[brand] = Breaker(self._settings, restored=restored)

    def disown(self, brands: Collection[str]) -> None:
        """Forget these brands' breakers: others go on with them."""
        for brand in brands:
            self._breakers.pop(brand, None)

    def in_hand(self) -> Collection[Work]:
        """What is taken and not concluded."""
        return self._deliveries.in_hand()

    def brands_under_way(self) -> Collection[str]:
        """The brands that have a delivery under way."""
        return self._deliveries.brands_under_way()

    def has_room_for(self, brand: str) -> bool:
        """Whether one more callback of this brand would be taken; see `Deliveries.has_room_for`."""
        return self._deliveries.has_room_for(brand)

    def take(self, work: Work) -> bool:
        """Take on a callback, or refuse it for now; see `Deliveries.take`."""
        assert isinstance(work.intent, DeliverCallback)
        return self._deliveries.take(work)

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call back until `drain` is set; see `Deliveries.run`."""
        await self._deliveries.run(drain=drain, grace_s=grace_s, task_status=task_status)

    def statistics(self) -> CallbackStatistics:
        """As of now."""
        return CallbackStatistics(
            self._deliveries.waiting,
            self._deliveries.under_way,
            dict(self._outcomes),
            frozenset(
                brand
                for brand, breaker in self._breakers.items()
                if breaker.state is not BreakerState.CLOSED
            ),
            self._deliveries.unrecorded,
            self._sent,
        )

    async def _see_through(self, work: Work) -> None:
        """From the breaker to the record."""
        transaction, fence = work.transaction, fence_of(work)
        reference, brand = transaction.reference, transaction.order.brand
        try:
            if not self._holds(brand, fence):
                raise WithheldError
            attempt, breaker = await self._attempt(transaction, fence)
        except WithheldError:
            logger.warning("callback left to another", reference=reference, brand=brand)
            return
        reply = await insist(
            lambda: self._conclude(
                CallbackConcluded(reference, attempt, fence, self._kept(breaker))
            )
        )
        if fence and not isinstance(reply, Noted):
            logger.warning("callback claimed by another", reference=reference, brand=brand)
            return
        self._outcomes[attempt.outcome] += 1
        if attempt.outcome not in UNSENT:
            self._sent.add(attempt.duration_ms / 1_000)
        _log(reference, brand, attempt)

    async def _attempt(
        self, transaction: Transaction, fence: int
    ) -> tuple[Attempt, Breaker | None]:
        """The one attempt, if the breaker lets it through; and the breaker, if it counted."""
        brand, url = transaction.order.brand, transaction.order.result_url
        assert url is not None
        breaker = self._breakers.setdefault(brand, Breaker(self._settings))
        permit = breaker.permit(self._monotonic())
        if permit is None:
            return stopped_by_breaker(url), None
        try:
            key = await insist(lambda: self._key_for(brand))
            if key is None:
                detail = "The brand has no API key in use, so nothing was sent."
                return Attempt(DeliveryOutcome.TRANSPORT_ERROR, url, detail=detail), None
            attempt = await self._deliver(
                build(transaction, key), may_send=lambda: self._holds(brand, fence)
            )
            if attempt.outcome is DeliveryOutcome.EGRESS_REFUSED:
                return attempt, None
            before = breaker.state
            succeeded = attempt.outcome is DeliveryOutcome.DELIVERED
            breaker.record(permit, succeeded=succeeded, now=self._monotonic())
            if breaker.state is not before:
                logger.warning("breaker changed", brand=brand, state=breaker.state.value)
            return attempt, breaker
        finally:
            breaker.abandon(permit, now=self._monotonic())  # nothing, once it was recorded

    def _kept(self, breaker: Breaker | None) -> BreakerSnapshot | None:
        """The breaker as it is now, in wall time: the last one that is recorded is the newest."""
        if breaker is None:
            return None
        return breaker.snapshot().shifted(self._now() - self._monotonic())


def fence_of(work: Work) -> int:
    """The fence under which this callback is claimed."""
    assert isinstance(work.intent, DeliverCallback)
    return work.intent.fence


def _log(reference: str, brand: str, attempt: Attempt) -> None:
    """The URL and the answer's body stand in the delivery record, not here: either may hold what is
    the merchant's only."""
    logger.info(
        "callback concluded",
        reference=reference,
        brand=brand,
        outcome=attempt.outcome.value,
        status=attempt.status,
        duration_ms=attempt.duration_ms,
    )
