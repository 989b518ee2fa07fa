"""Owns merchants' channels of a store that several processes share, and passes their callbacks to
the worker (K3).

The store is authoritative: a few times a second it is queried for channels without a live owner and
for callbacks that wait in this process's channels, whichever process committed them. What this
process has committed itself, for a channel that it owns, it takes at once. To take a callback
changes nothing in the store: only the channel's owner sends it, and the owner remembers what it has
taken until its outcome is recorded.

When the outcome of a query is unknown, the process keeps its lease and claims its channels again,
under new fences, so no other process sends what this one has sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.resilience import ownership
from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, later
from mmo_trio.storage.interface.store import (
    ChannelOwnership,
    StoreUnavailable,
    WorkItem,
    log_store_failure,
)
from mmo_trio.system.clock import boot_time
from mmo_trio.workers.deliveries import CallbackWorker, fence_of

logger = structlog.get_logger(__name__)

# Seconds between two queries of the store.
SCAN_INTERVAL_S = 0.3

# The shortest time between the beginnings of two queries: callbacks committed meanwhile are found
# together.
SCAN_INTERVAL_MIN_S = 0.03

# Callbacks of one merchant that are taken: enough to use all its slots. Others wait in the store,
# so that no merchant's backlog blocks another merchant.
CLAIMED_PER_BRAND_MAX = 64

# Callbacks of all merchants that are taken.
CLAIMED_MAX = 32_768

# Seconds before the next query after the store was unavailable.
RETRY_DELAY_S = 0.5


@define(eq=False)
class OwnedChannels:
    """The channels that one of the processes that share a store owns."""

    since_boot: Callable[[], MonotonicInstant] = boot_time
    """The clock that limits trust in a lease; it runs on while the process is stopped."""
    fences: dict[str, int] = Factory(dict)
    """The fences of the owned channels, by brand."""
    trusted_until: MonotonicInstant = MonotonicInstant(-1)
    """When this process stops to rely on its lease."""

    def owns(self, brand: str, fence: int) -> bool:
        """Tell whether this process owns the brand's channel under this fence now."""
        return self.fences.get(brand) == fence and self.since_boot() < self.trusted_until


@define(eq=False)
class ChannelOwner:
    """Claims channels, and releases them, for one of the processes that share a store.

    Its state, besides `owned`; times are of `owned.since_boot`:

        field              written by              meaning
        _lease_number      _renew_lease,           the number of the lease; None: there is
                           _end_lease              certainly none, and no channel is ours
        _renew_lease_at    _renew_lease            when it is renewed next
        _renewals          _renew_lease            how steadily it was renewed; unless it was, the
                                                   leases of others are not ended

        _uncertain_fences  _distrust_channels,     the last known fences of channels that may be
                           _claim, _drop_channels  ours: they are claimed again before their use
        _owned_since       _claim                  when each channel was claimed
        _brands_to_release _run_round              brands beyond our share: no more of their
                                                   callbacks is taken
        _released_at       _run_round,             when a channel was left to others: for a time it
                           _brands_beyond_share    is neither claimed nor released again

        _committed_brands  try_enqueue, _claim     brands whose callbacks could not be taken at
                                                   once: the next claim asks for their channels
        _to_search         try_enqueue, _claim,    brands that the next round searches, however
                           _take_from_store        early it is; until then none of theirs is taken
                                                   at once, as older ones may wait
        _search_all_at     _search                 when all brands are searched again
        _backlogged_brands _take_from_store        brands of which more waited at the last query
                                                   than could be taken
        _taken_meanwhile   _take_at_once,          what was taken at once since the last query
                           _take_from_store        began: its answer may still contain that
        _outdated_brands   _take_from_store        brands of which some callbacks were under way
                                                   under an earlier fence at the last query: these
                                                   are found once more
        _wake_up           try_enqueue, run        set to begin a round before its time
    """

    channels: ChannelOwnership
    callbacks: CallbackWorker
    owned: OwnedChannels

    _lease_number: int | None = None
    _renew_lease_at: MonotonicInstant = MonotonicInstant(-1)
    _renewals: ownership.RenewalHistory = ownership.RenewalHistory()

    _uncertain_fences: dict[str, int] = Factory(dict)
    _owned_since: dict[str, MonotonicInstant] = Factory(dict)
    _brands_to_release: set[str] = Factory(set)
    _released_at: dict[str, MonotonicInstant] = Factory(dict)

    _committed_brands: set[str] = Factory(set)
    _to_search: set[str] = Factory(set)
    _search_all_at: MonotonicInstant = MonotonicInstant(-1)
    _backlogged_brands: set[str] = Factory(set)
    _taken_meanwhile: set[str] = Factory(set)
    _outdated_brands: frozenset[str] = frozenset()
    _wake_up: trio.Event = Factory(trio.Event)

    def try_enqueue(self, work: WorkItem) -> bool:
        """Take a callback that this process has just committed, or query the store for it soon, as
        another process may own its channel, or older ones may wait. This never waits."""
        brand = work.transaction.order.brand
        if not self._take_at_once(work, brand):
            # Where the channel is not ours, the next claim asks whether it is free.
            self._committed_brands.add(brand)
            if brand in self.owned.fences:
                self._to_search.add(brand)

            self._wake_up.set()

        return True

    def _take_at_once(self, work: WorkItem, brand: str) -> bool:
        """Take a callback without a query. One of a commit that was begun before this process owned
        the channel is not: the owner of then may have found, sent and recorded it."""
        fence = self.owned.fences.get(brand)
        if (
            fence is None
            # Older callbacks may wait in the store, which come first.
            or brand in self._to_search
            or brand in self._backlogged_brands
            or brand in self._brands_to_release
            # The owner before us may have sent it.
            or work.begun_at < self._owned_since[brand]
            # The lease may have run out since the last round.
            or not self.owned.owns(brand, fence)
            or self.callbacks.claimed_of(brand) >= CLAIMED_PER_BRAND_MAX
            or len(self.callbacks.claimed()) >= CLAIMED_MAX
        ):
            return False

        reference = work.transaction.reference
        if not self.callbacks.try_enqueue(
            WorkItem(DeliverCallback(reference, fence), work.transaction)
        ):
            return False

        self._taken_meanwhile.add(reference)
        return True

    async def run(
        self,
        *,
        drain: trio.Event,
        callbacks_ended: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Own channels until `drain` is set. Then claim nothing more, release each channel once it
        has no active delivery, and end the lease once `callbacks_ended` is set. No error of the
        store ends this."""
        task_status.started()
        while not callbacks_ended.is_set():
            next_round_at = trio.current_time() + SCAN_INTERVAL_MIN_S
            try:
                # While it drains, rounds go on: deliveries end one by one, and the lease must last.
                pause_s = await self._run_round(is_draining=drain.is_set())
            except StoreUnavailable as error:
                # Nothing has happened there: what is ours stays ours until its lease runs out.
                log_store_failure(logger, "channel_scan_failed", error)
                pause_s = RETRY_DELAY_S
            except Exception as error:
                # A claim or a release may have taken place without our knowledge.
                log_store_failure(logger, "channels_uncertain", error)
                self._distrust_channels()
                pause_s = RETRY_DELAY_S

            # A round that drains has nothing to take, so new callbacks don't begin one.
            wake_up = self._wake_up
            if drain.is_set():
                wake_up = callbacks_ended

            await self._wait(pause_s, wake_up)
            self._wake_up = trio.Event()
            await trio.sleep_until(next_round_at)

        await self._end_lease()

    async def _run_round(self, *, is_draining: bool) -> float:
        """Renew, release and claim what is due. Returns the seconds until the next round."""
        # 1. The lease first: all else is worth nothing without it.
        if self.owned.since_boot() >= self._renew_lease_at:
            await self._renew_lease()
            if is_draining:
                self._brands_to_release = set()
            else:
                self._brands_to_release = await self._brands_beyond_share()

        # 2. Channels that others should have, once nothing of them is under way.
        if is_draining:
            await self._release_idle(self.owned.fences)
            return SCAN_INTERVAL_S

        released = await self._release_idle(self._brands_to_release)
        self._brands_to_release.difference_update(released)
        self._released_at |= dict.fromkeys(released, self.owned.since_boot())

        # 3. Channels that nobody has, and the callbacks that wait in ours.
        await self._claim()
        await self._search()
        return max(0.0, (self._search_all_at - self.owned.since_boot()) / SECOND)

    async def _claim(self) -> None:
        """Claim free channels in which callbacks wait, and those of ours whose fence is not
        certain."""
        known = dict(self.owned.fences)
        committed = frozenset(self._committed_brands)
        claimed = await self.channels.claim(
            excluding=self._released_since(ownership.RELEASE_COOLDOWN),
            known=known,
            waiting={*committed, *self._uncertain_fences} - known.keys(),
            end_leases=self._renewals.may_end_leases(self.owned.since_boot()),
        )
        for channel in claimed:
            # One that was ours all the time has a breaker here that knows more than the store's.
            fence_before = self.owned.fences.get(
                channel.brand, self._uncertain_fences.pop(channel.brand, None)
            )
            self.owned.fences[channel.brand] = channel.fence
            self._owned_since[channel.brand] = self.owned.since_boot()
            self._to_search.add(channel.brand)
            if fence_before is None:
                self.callbacks.load_breaker(channel.brand, channel.breaker)

            logger.info("channel_claimed", brand=channel.brand, fence=channel.fence)

        # Only those that were asked for: others were committed while the store answered.
        self._committed_brands -= committed

    async def _search(self) -> None:
        """Take callbacks from the store: of all brands if it is time, or else of those for which
        that cannot wait."""
        now = self.owned.since_boot()
        is_of_all = now >= self._search_all_at
        brands = self.owned.fences.keys() - self._brands_to_release
        if not is_of_all:
            brands &= self._to_search | self._backlogged_brands

        if brands and len(self.callbacks.claimed()) < CLAIMED_MAX:
            await self._take_from_store(brands)

        if is_of_all:
            self._search_all_at = later(now, Span(round(SCAN_INTERVAL_S * SECOND)))

    async def _take_from_store(self, brands: Collection[str]) -> None:
        """Take callbacks of these brands, as many of each as it has room for."""
        taken, outdated = self._taken_callbacks()
        room = {
            brand: CLAIMED_PER_BRAND_MAX - len(taken.get(brand, ())) for brand in sorted(brands)
        }
        room = {brand: count for brand, count in room.items() if count > 0}

        # These were passed over under their earlier fence: a search from the mark would miss them.
        afresh = (outdated | self._outdated_brands) & room.keys()

        # Before the query, so that what is committed during it is searched for by the next one.
        sought = self._to_search & room.keys()
        self._to_search -= sought
        self._taken_meanwhile.clear()
        try:
            waiting = await self.channels.find_callbacks(
                room, known=dict(self.owned.fences), taken=taken, afresh=afresh
            )
        except BaseException:
            self._to_search |= sought
            raise

        for work in waiting:
            room[work.transaction.order.brand] -= 1
            if work.transaction.reference not in self._taken_meanwhile:
                self.callbacks.try_enqueue(work)

        # A brand whose room is used up may have more in the store than it was given.
        self._backlogged_brands -= room.keys()
        self._backlogged_brands |= {brand for brand, left in room.items() if left == 0}
        self._outdated_brands = outdated | self._outdated_brands - afresh

    def _taken_callbacks(self) -> tuple[Mapping[str, Collection[str]], frozenset[str]]:
        """Return the references of callbacks that are taken and not concluded, by brand, and the
        brands of which some are active, or about to be released, under an earlier fence than the
        present one."""
        taken: dict[str, list[str]] = {}
        outdated: set[str] = set()
        for work in self.callbacks.claimed():
            brand = work.transaction.order.brand
            taken.setdefault(brand, []).append(work.transaction.reference)
            if self.owned.fences.get(brand) != fence_of(work):
                outdated.add(brand)

        return taken, frozenset(outdated)

    async def _wait(self, timeout_s: float, wake_up: trio.Event) -> None:
        """Wait this long, or until `wake_up`, or until a backlogged brand has room for half of what
        it may have."""
        with trio.move_on_after(timeout_s):
            # Deliveries end without a word to this task, so a backlog is looked at again and again.
            while self._backlogged_brands & self.owned.fences.keys():
                await trio.sleep(SCAN_INTERVAL_MIN_S)
                if wake_up.is_set() or any(
                    self.callbacks.claimed_of(brand) <= CLAIMED_PER_BRAND_MAX // 2
                    for brand in self._backlogged_brands
                ):
                    return

            await wake_up.wait()

    async def _renew_lease(self) -> None:
        """Renew the lease, and count its time from before the query."""
        requested_at = self.owned.since_boot()
        number = await self.channels.renew_lease()
        now = self.owned.since_boot()
        self._renewals = self._renewals.renewed(now)
        if number != self._lease_number:
            # The lease was ended, and others may own what was ours.
            if self.owned.fences:
                logger.warning("lease_lost", channels=len(self.owned.fences))

            self._lease_number = number
            self._drop_channels()
        elif now >= self.owned.trusted_until:
            # Meanwhile callbacks were released that are to be taken again.
            self._distrust_channels()

        self.owned.trusted_until = ownership.trusted_until(requested_at)
        self._renew_lease_at = later(requested_at, ownership.LEASE_RENEWAL_INTERVAL)

    async def _brands_beyond_share(self) -> set[str]:
        """Return the brands whose channels other processes should own, for equal shares."""
        counts = await self.channels.counts()

        # Nobody wanted these when they were released: they would go back and forth.
        settled = self._released_since(ownership.RELEASE_AGAIN_AFTER)
        self._released_at = {brand: self._released_at[brand] for brand in settled}
        return {
            brand
            for brand in ownership.beyond_share(self.owned.fences, counts)
            if brand not in settled
        }

    def _released_since(self, span: Span) -> Collection[str]:
        """Return the brands whose channels were left to others within this time."""
        since = self.owned.since_boot() - span
        return [brand for brand, at in self._released_at.items() if at > since]

    def _drop_channels(self) -> None:
        """Forget all channels, of which others may own some now."""
        self.callbacks.drop_breakers([*self.owned.fences, *self._uncertain_fences])
        self.owned.fences.clear()
        self._uncertain_fences.clear()

    def _distrust_channels(self) -> None:
        """Use no channel before it is claimed again, as it is not known what the store holds of it;
        nobody else gets it while the lease lasts."""
        self._uncertain_fences |= self.owned.fences
        self.owned.fences.clear()

    async def _release_idle(self, brands: Collection[str]) -> Collection[str]:
        """Release the channels of these brands that have no active delivery, and return their
        brands."""
        busy = self.callbacks.active_brands()
        idle = {
            brand: fence
            for brand, fence in self.owned.fences.items()
            if brand in brands and brand not in busy
        }
        if not idle:
            return idle

        # From here on none of their deliveries starts.
        for brand in idle:
            del self.owned.fences[brand]

        try:
            await self.channels.release(idle, self.callbacks.unstored_breakers(idle))
        except StoreUnavailable:
            # Nothing has happened there: they are ours as before.
            self.owned.fences |= idle
            raise
        except Exception:
            # They may be free, and go to another process.
            self.callbacks.drop_breakers(idle)
            raise

        self.callbacks.drop_breakers(idle)
        return idle

    async def _end_lease(self) -> None:
        """Pass on the breakers of which the store lacks successes, drop all channels, and end the
        lease in the store if it is available."""
        # The end of the lease frees all channels, but stores no breaker: the next owners would not
        # know of the merchants' latest successes.
        try:
            if self.callbacks.unstored_breakers(self.owned.fences):
                await self._release_idle(self.owned.fences)
        except Exception as error:
            log_store_failure(logger, "channel_release_failed", error)

        self._drop_channels()
        self._lease_number = None
        self.owned.trusted_until = MonotonicInstant(-1)
        try:
            await self.channels.end_lease()
        except Exception as error:
            log_store_failure(logger, "lease_release_failed", error)
