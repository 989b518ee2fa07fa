"""Holds merchants' channels of a store that several processes share, and brings their callbacks to the worker (K3).

The store is the truth: a few times a second it is asked for channels that nobody alive holds and for callbacks that
wait in ours, whichever process committed them. That this process has committed one only makes it ask at once. Whenever
it can't tell what became of a question, it ends its lease and begins another, and so leaves nothing half-taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.resilience.ownership import (
    LEASE_RENEWAL_INTERVAL,
    RELEASE_AGAIN_AFTER,
    RELEASE_COOLDOWN,
    beyond_share,
    trusted_until,
)
from mmo_sansio.values.clock import Instant, Span
from mmo_trio.storage.interface.store import (
    ChannelOwnership,
    OutcomeUnknown,
    StoreUnavailable,
    WorkItem,
)
from mmo_trio.system.clock import boot_time
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.delivery.callbacks import CallbackWorker, fence_of

logger = structlog.get_logger(__name__)

SCAN_INTERVAL_S = 0.3
"""How often the store is asked."""

SCAN_INTERVAL_MIN_S = 0.03
"""The shortest rest between two questions: what is committed meanwhile is claimed together."""

CLAIMED_PER_BRAND_MAX = 64
"""Callbacks of one merchant that are claimed and not concluded: enough to keep its places busy; the rest waits in the
store, so that no merchant's backlog keeps another's out."""

CLAIMED_MAX = 32_768
"""Callbacks that are claimed and not concluded, of all merchants."""

RETRY_DELAY_S = 0.5
"""How long it rests when the store can't serve."""


@define(eq=False)
class ChannelOwner:
    """One for each process that shares its store."""

    channels: ChannelOwnership
    callbacks: CallbackWorker
    clock: Callable[[], Instant] = boot_time
    """Tells how long a lease can be relied on."""
    _lease_number: int | None = None
    """Of the lease; None while it is known to have none."""
    _lease_trusted_until: Instant = -1
    _renew_lease_at: Instant = -1
    _fences: dict[str, int] = Factory(dict)
    """Of the channels that it holds, by brand."""
    _backlogged_brands: set[str] = Factory(set)
    """Brands that had more waiting, when last asked, than could be taken on."""
    _brands_to_release: set[str] = Factory(set)
    """Brands whose channels others should have: no more of their callbacks are claimed."""
    _released_at: dict[str, Instant] = Factory(dict)
    """When which channel was given up for others' sake."""
    _wake_up: trio.Event = Factory(trio.Event)

    def owns(self, brand: str, fence: int) -> bool:
        """Whether this brand's channel is ours under this fence, right now."""
        return self._fences.get(brand) == fence and self.clock() < self._lease_trusted_until

    def try_enqueue(self, work: WorkItem) -> bool:
        """A callback that has just become durable: the store hands it to whoever holds its channel. Never waits."""
        self._wake_up.set()
        return True

    async def run(
        self,
        *,
        drain: trio.Event,
        callbacks_ended: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hold channels until `drain` is set; then take nothing more, give up each channel once nothing of it is under
        way, and end the lease once the callback worker has `ended`."""
        task_status.started()
        while not callbacks_ended.is_set():
            try:
                rest_s = await self._run_round(is_draining=drain.is_set())
            except StoreUnavailable as error:
                logger.warning("channel_scan_failed", error=str(error))
                rest_s = RETRY_DELAY_S
            except OutcomeUnknown as error:
                logger.warning("channels_reset", error=str(error))
                rest_s = await self._reset()
            except Exception as error:
                logger.error("channels_reset", fault=describe_fault(error))
                rest_s = await self._reset()
            await self._wait(rest_s, callbacks_ended if drain.is_set() else self._wake_up)
            self._wake_up = trio.Event()
            await trio.sleep(SCAN_INTERVAL_MIN_S)
        await self._reset()

    async def _run_round(self, *, is_draining: bool) -> float:
        """Do what is to be done; how many seconds to rest then."""
        if self.clock() >= self._renew_lease_at:
            await self._renew_lease()
            self._brands_to_release = set() if is_draining else await self._brands_beyond_share()
        if is_draining:
            await self._release_idle(self._fences)
            return SCAN_INTERVAL_S
        let_go = await self._release_idle(self._brands_to_release)
        self._brands_to_release.difference_update(let_go)
        self._released_at |= dict.fromkeys(let_go, self.clock())
        for channel in await self.channels.claim(excluding=self._released_since(RELEASE_COOLDOWN)):
            self._fences[channel.brand] = channel.fence
            self.callbacks.load_breaker(channel.brand, channel.breaker)
            logger.info("channel_claimed", brand=channel.brand, fence=channel.fence)
        room = self._free_capacity()
        if room:
            found = await self.channels.claim_callbacks(
                room, already_claimed=self._claimed_under_earlier_fence()
            )
            for work in found:
                self.callbacks.try_enqueue(work)
                room[work.transaction.order.brand] -= 1
            self._backlogged_brands -= room.keys()
            self._backlogged_brands |= {brand for brand, left in room.items() if left == 0}
        return SCAN_INTERVAL_S

    async def _wait(self, timeout_s: float, wake_up: trio.Event) -> None:
        """Rest so long, or until there is a reason to ask: an event, or that half of what a merchant with a backlog may
        have in hand is done."""
        with trio.move_on_after(timeout_s):
            while self._backlogged_brands & self._fences.keys():
                await trio.sleep(SCAN_INTERVAL_MIN_S)
                room = self._free_capacity()
                if wake_up.is_set() or any(
                    room.get(brand, 0) >= CLAIMED_PER_BRAND_MAX // 2
                    for brand in self._backlogged_brands
                ):
                    return
            await wake_up.wait()

    def _free_capacity(self) -> dict[str, int]:
        """How many callbacks of each merchant can be taken on."""
        in_hand = Counter(work.transaction.order.brand for work in self.callbacks.claimed())
        if in_hand.total() >= CLAIMED_MAX:
            return {}
        wanted = self._fences.keys() - self._brands_to_release
        room = {brand: CLAIMED_PER_BRAND_MAX - in_hand[brand] for brand in wanted}
        return {brand: places for brand, places in room.items() if places > 0}

    def _claimed_under_earlier_fence(self) -> Collection[str]:
        """What is in hand though claimed under an earlier fence: under way, or about to be let go."""
        return [
            work.transaction.reference
            for work in self.callbacks.claimed()
            if self._fences.get(work.transaction.order.brand) != fence_of(work)
        ]

    async def _renew_lease(self) -> None:
        """Renew the lease, and count from before the question was asked."""
        asked_at = self.clock()
        number = await self.channels.renew_lease()
        if number != self._lease_number:
            if self._fences:
                logger.warning("lease_lost", channels=len(self._fences))
            self._lease_number = number
            self._drop_channels(list(self._fences))
        self._lease_trusted_until = trusted_until(asked_at)
        self._renew_lease_at = asked_at + LEASE_RENEWAL_INTERVAL

    async def _brands_beyond_share(self) -> set[str]:
        """The brands whose channels somebody else should have, so that each process does about as much."""
        standing = await self.channels.counts()
        stays = self._released_since(RELEASE_AGAIN_AFTER)
        self._released_at = {brand: at for brand, at in self._released_at.items() if brand in stays}
        return {brand for brand in beyond_share(self._fences, standing) if brand not in stays}

    def _released_since(self, span: Span) -> Collection[str]:
        since = self.clock() - span
        return [brand for brand, at in self._released_at.items() if at > since]

    def _drop_channels(self, brands: Collection[str]) -> None:
        for brand in brands:
            del self._fences[brand]
        self.callbacks.drop_breakers(brands)

    async def _release_idle(self, brands: Collection[str]) -> Collection[str]:
        """Give up those of these that have nothing under way."""
        busy = self.callbacks.active_brands()
        idle = {
            brand: fence
            for brand, fence in self._fences.items()
            if brand in brands and brand not in busy
        }
        if not idle:
            return idle
        for brand in idle:  # From here on nothing of them begins.
            del self._fences[brand]
        try:
            await self.channels.release(idle)
        except Exception:
            self._fences |= idle  # In the store they are ours, as far as we know.
            raise
        self.callbacks.drop_breakers(idle)
        return idle

    async def _reset(self) -> float:
        """Hold nothing, and make that known if that can be done."""
        self._drop_channels(list(self._fences))
        self._lease_number, self._lease_trusted_until, self._renew_lease_at = None, -1, -1
        try:
            await self.channels.end_lease()
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning("lease_release_failed", error=str(error))
        return RETRY_DELAY_S
