"""Owns merchants' channels of a store that several processes share, and passes their callbacks to the worker (K3).

The store is authoritative: a few times a second it is queried for channels without a live owner and for callbacks that
wait in this process's channels, whichever process committed them. A local commit only triggers an early query. When the
outcome of a query is unknown, the process keeps its lease and claims its channels again, under new fences, so nothing
stays half-claimed and no other process sends what this one has sent.
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
    RenewalHistory,
    beyond_share,
    trusted_until,
)
from mmo_sansio.values.clock import MonotonicInstant, Span, later
from mmo_trio.storage.interface.failures import log_store_failure
from mmo_trio.storage.interface.store import ChannelOwnership, StoreUnavailable, WorkItem
from mmo_trio.system.clock import boot_time
from mmo_trio.workers.delivery.callbacks import CallbackWorker, fence_of

logger = structlog.get_logger(__name__)

SCAN_INTERVAL_S = 0.3
"""Seconds between two queries of the store."""

SCAN_INTERVAL_MIN_S = 0.03
"""The shortest pause between two queries: callbacks committed meanwhile are claimed together."""

CLAIMED_PER_BRAND_MAX = 64
"""Claimed callbacks of one merchant: enough to use all its slots. Others wait in the store, so that no merchant's
backlog blocks another merchant."""

CLAIMED_MAX = 32_768
"""Claimed callbacks of all merchants."""

RETRY_DELAY_S = 0.5
"""Seconds before the next query after the store was unavailable."""


@define(eq=False)
class OwnedChannels:
    """The channels that this process owns: all of them unless several processes share the store."""

    is_store_shared: bool
    clock: Callable[[], MonotonicInstant] = boot_time
    """The clock that limits trust in a lease; it runs on while the process is stopped."""
    fences: dict[str, int] = Factory(dict)
    """The fences of the owned channels, by brand."""
    trusted_until: MonotonicInstant = MonotonicInstant(-1)
    """When this process stops to rely on its lease."""

    def owns(self, brand: str, fence: int) -> bool:
        """Tell whether this process owns the brand's channel under this fence now."""
        return not self.is_store_shared or (self.fences.get(brand) == fence and self.clock() < self.trusted_until)


@define(eq=False)
class ChannelOwner:
    """Claims channels, and releases them, for one of the processes that share a store."""

    channels: ChannelOwnership
    callbacks: CallbackWorker
    owned: OwnedChannels
    _lease_number: int | None = None
    """The number of the lease; None while there is certainly none."""
    _renew_lease_at: MonotonicInstant = MonotonicInstant(-1)
    _renewals: RenewalHistory = RenewalHistory()
    _uncertain_fences: dict[str, int] = Factory(dict)
    """The last known fences of channels that this process may own and does not use before it has claimed them again."""
    _committed_brands: set[str] = Factory(set)
    """Brands of callbacks that this process has committed since the last claim of channels."""
    _backlogged_brands: set[str] = Factory(set)
    """Brands that had more callbacks waiting at the last query than could be claimed."""
    _brands_to_release: set[str] = Factory(set)
    """Brands whose channels others should own: no more of their callbacks are claimed."""
    _released_at: dict[str, MonotonicInstant] = Factory(dict)
    """When each channel was released to other processes."""
    _wake_up: trio.Event = Factory(trio.Event)

    def try_enqueue(self, work: WorkItem) -> bool:
        """Query the store soon for a callback that has just become durable, as another process may own its channel.
        This never waits."""
        self._committed_brands.add(work.transaction.order.brand)
        self._wake_up.set()
        return True

    async def run(
        self,
        *,
        drain: trio.Event,
        callbacks_ended: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Own channels until `drain` is set. Then claim nothing more, release each channel once it has no active
        delivery, and end the lease once `callbacks_ended` is set. No error of the store ends this."""
        task_status.started()
        while not callbacks_ended.is_set():
            try:
                pause_s = await self._run_round(is_draining=drain.is_set())
            except StoreUnavailable as error:
                log_store_failure(logger, "channel_scan_failed", error)
                pause_s = RETRY_DELAY_S
            except Exception as error:
                log_store_failure(logger, "channels_uncertain", error)
                self._distrust_channels()
                pause_s = RETRY_DELAY_S
            await self._wait(pause_s, callbacks_ended if drain.is_set() else self._wake_up)
            self._wake_up = trio.Event()
            await trio.sleep(SCAN_INTERVAL_MIN_S)
        await self._end_lease()

    async def _run_round(self, *, is_draining: bool) -> float:
        """Renew, release and claim what is due. Returns the seconds until the next round."""
        if self.owned.clock() >= self._renew_lease_at:
            await self._renew_lease()
            self._brands_to_release = set() if is_draining else await self._brands_beyond_share()
        if is_draining:
            await self._release_idle(self.owned.fences)
            return SCAN_INTERVAL_S
        released = await self._release_idle(self._brands_to_release)
        self._brands_to_release.difference_update(released)
        self._released_at |= dict.fromkeys(released, self.owned.clock())
        cooling = self._released_since(RELEASE_COOLDOWN)
        may_end_leases = self._renewals.may_end_leases(self.owned.clock())
        known = dict(self.owned.fences)
        committed = frozenset(self._committed_brands)
        waiting = {*committed, *self._uncertain_fences} - known.keys()
        for channel in await self.channels.claim(
            excluding=cooling, known=known, waiting=waiting, end_leases=may_end_leases
        ):
            fence_before = self.owned.fences.get(channel.brand, self._uncertain_fences.pop(channel.brand, None))
            self.owned.fences[channel.brand] = channel.fence
            if fence_before is None:
                self.callbacks.load_breaker(channel.brand, channel.breaker)
            logger.info("channel_claimed", brand=channel.brand, fence=channel.fence)
        self._committed_brands -= committed
        capacity = self._free_capacity()
        if capacity:
            found = await self.channels.claim_callbacks(
                capacity, known=dict(self.owned.fences), already_claimed=self._claimed_under_earlier_fence()
            )
            for work in found:
                self.callbacks.try_enqueue(work)
                capacity[work.transaction.order.brand] -= 1
            self._backlogged_brands -= capacity.keys()
            self._backlogged_brands |= {brand for brand, left in capacity.items() if left == 0}
        return SCAN_INTERVAL_S

    async def _wait(self, timeout_s: float, wake_up: trio.Event) -> None:
        """Wait this long, or until `wake_up`, or until half the claims of a backlogged brand are free."""
        with trio.move_on_after(timeout_s):
            while self._backlogged_brands & self.owned.fences.keys():
                await trio.sleep(SCAN_INTERVAL_MIN_S)
                capacity = self._free_capacity()
                if wake_up.is_set() or any(
                    capacity.get(brand, 0) >= CLAIMED_PER_BRAND_MAX // 2 for brand in self._backlogged_brands
                ):
                    return
            await wake_up.wait()

    def _free_capacity(self) -> dict[str, int]:
        """Return how many more callbacks of each brand can be claimed."""
        claimed = Counter(work.transaction.order.brand for work in self.callbacks.claimed())
        if claimed.total() >= CLAIMED_MAX:
            return {}
        claimable = self.owned.fences.keys() - self._brands_to_release
        capacity = {brand: CLAIMED_PER_BRAND_MAX - claimed[brand] for brand in claimable}
        return {brand: count for brand, count in capacity.items() if count > 0}

    def _claimed_under_earlier_fence(self) -> Collection[str]:
        """Return the references of callbacks that are active, or about to be released, under an earlier fence than the
        present one."""
        return [
            work.transaction.reference
            for work in self.callbacks.claimed()
            if self.owned.fences.get(work.transaction.order.brand) != fence_of(work)
        ]

    async def _renew_lease(self) -> None:
        """Renew the lease, and count its time from before the query."""
        requested_at = self.owned.clock()
        number = await self.channels.renew_lease()
        now = self.owned.clock()
        self._renewals = self._renewals.renewed(now)
        if number != self._lease_number:
            if self.owned.fences:
                logger.warning("lease_lost", channels=len(self.owned.fences))
            self._lease_number = number
            self._drop_channels()
        elif now >= self.owned.trusted_until:
            self._distrust_channels()  # Meanwhile callbacks were released that are to be claimed again.
        self.owned.trusted_until = trusted_until(requested_at)
        self._renew_lease_at = later(requested_at, LEASE_RENEWAL_INTERVAL)

    async def _brands_beyond_share(self) -> set[str]:
        """Return the brands whose channels other processes should own, for equal shares."""
        counts = await self.channels.counts()
        settled = self._released_since(RELEASE_AGAIN_AFTER)
        self._released_at = {brand: self._released_at[brand] for brand in settled}
        return {brand for brand in beyond_share(self.owned.fences, counts) if brand not in settled}

    def _released_since(self, span: Span) -> Collection[str]:
        since = self.owned.clock() - span
        return [brand for brand, at in self._released_at.items() if at > since]

    def _drop_channels(self) -> None:
        """Forget all channels, of which others may own some now."""
        self.callbacks.drop_breakers([*self.owned.fences, *self._uncertain_fences])
        self.owned.fences.clear()
        self._uncertain_fences.clear()

    def _distrust_channels(self) -> None:
        """Use no channel before it is claimed again, as it is not known what the store holds of it; nobody else gets it
        while the lease lasts."""
        self._uncertain_fences |= self.owned.fences
        self.owned.fences.clear()

    async def _release_idle(self, brands: Collection[str]) -> Collection[str]:
        """Release the channels of these brands that have no active delivery, and return their brands."""
        busy = self.callbacks.active_brands()
        idle = {brand: fence for brand, fence in self.owned.fences.items() if brand in brands and brand not in busy}
        if not idle:
            return idle
        for brand in idle:  # From here on none of their deliveries starts.
            del self.owned.fences[brand]
        try:
            await self.channels.release(idle, self.callbacks.unstored_breakers(idle))
        except StoreUnavailable:
            self.owned.fences |= idle
            raise
        except Exception:
            self.callbacks.drop_breakers(idle)  # They may be free, and go to another process.
            raise
        self.callbacks.drop_breakers(idle)
        return idle

    async def _end_lease(self) -> None:
        """Drop all channels, and end the lease in the store if it is available."""
        self._drop_channels()
        self._lease_number = None
        self.owned.trusted_until = MonotonicInstant(-1)
        try:
            await self.channels.end_lease()
        except Exception as error:
            log_store_failure(logger, "lease_release_failed", error)
