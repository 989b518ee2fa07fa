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
    LEFT_ALONE,
    LET_GO_AGAIN,
    RENEWAL,
    surplus,
    trusted_until,
)
from mmo_sansio.values.clock import Instant, Span
from mmo_trio.storage.interface.store import Channels, OutcomeUnknown, StoreUnavailable, Work
from mmo_trio.system.clock import boot_time
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.delivery.callbacks import CallbackWorker, fence_of

logger = structlog.get_logger(__name__)

POLL_S = 0.3
"""How often the store is asked."""

REST_S = 0.03
"""The shortest rest between two questions: what is committed meanwhile is claimed together."""

IN_HAND_PER_BRAND = 64
"""Callbacks of one merchant that are claimed and not concluded: enough to keep its places busy; the rest waits in the
store, so that no merchant's backlog keeps another's out."""

IN_HAND_MAX = 32_768
"""Callbacks that are claimed and not concluded, of all merchants."""

RETRY_S = 0.5
"""How long it rests when the store can't serve."""


@define(eq=False)
class ChannelKeeper:
    """One for each process that shares its store."""

    channels: Channels
    callbacks: CallbackWorker
    clock: Callable[[], Instant] = boot_time
    """Tells how long a lease can be relied on."""
    _number: int | None = None
    """Of the lease; None while it is known to have none."""
    _trusted_until: Instant = -1
    _renew_at: Instant = -1
    _fences: dict[str, int] = Factory(dict)
    """Of the channels that it holds, by brand."""
    _backlogs: set[str] = Factory(set)
    """Brands that had more waiting, when last asked, than could be taken on."""
    _surplus: set[str] = Factory(set)
    """Brands whose channels others should have: no more of their callbacks are claimed."""
    _let_go: dict[str, Instant] = Factory(dict)
    """When which channel was given up for others' sake."""
    _kicked: trio.Event = Factory(trio.Event)

    def holds(self, brand: str, fence: int) -> bool:
        """Whether this brand's channel is ours under this fence, right now."""
        return self._fences.get(brand) == fence and self.clock() < self._trusted_until

    def take(self, work: Work) -> bool:
        """A callback that has just become durable: the store hands it to whoever holds its channel. Never waits."""
        self._kicked.set()
        return True

    async def run(
        self,
        *,
        drain: trio.Event,
        ended: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hold channels until `drain` is set; then take nothing more, give up each channel once nothing of it is under
        way, and end the lease once the callback worker has `ended`."""
        task_status.started()
        while not ended.is_set():
            try:
                rest_s = await self._round(is_draining=drain.is_set())
            except StoreUnavailable as error:
                logger.warning("channels not looked after", error=str(error))
                rest_s = RETRY_S
            except OutcomeUnknown as error:
                logger.warning("channels in doubt", error=str(error))
                rest_s = await self._start_over()
            except Exception as error:
                logger.error("channels in doubt", fault=describe_fault(error))
                rest_s = await self._start_over()
            await self._rest(rest_s, ended if drain.is_set() else self._kicked)
            self._kicked = trio.Event()
            await trio.sleep(REST_S)
        await self._start_over()

    async def _round(self, *, is_draining: bool) -> float:
        """Do what is to be done; how many seconds to rest then."""
        if self.clock() >= self._renew_at:
            await self._renew()
            self._surplus = set() if is_draining else await self._beyond_share()
        if is_draining:
            await self._give_up_idle(self._fences)
            return POLL_S
        let_go = await self._give_up_idle(self._surplus)
        self._surplus.difference_update(let_go)
        self._let_go |= dict.fromkeys(let_go, self.clock())
        for channel in await self.channels.take(but=self._let_go_since(LEFT_ALONE)):
            self._fences[channel.brand] = channel.fence
            self.callbacks.adopt(channel.brand, channel.breaker)
            logger.info("channel taken", brand=channel.brand, fence=channel.fence)
        room = self._room()
        if room:
            found = await self.channels.take_callbacks(room, in_hand=self._in_hand_from_before())
            for work in found:
                self.callbacks.take(work)
                room[work.transaction.order.brand] -= 1
            self._backlogs -= room.keys()
            self._backlogs |= {brand for brand, left in room.items() if left == 0}
        return POLL_S

    async def _rest(self, rest_s: float, until: trio.Event) -> None:
        """Rest so long, or until there is a reason to ask: an event, or that half of what a merchant with a backlog may
        have in hand is done."""
        with trio.move_on_after(rest_s):
            while self._backlogs & self._fences.keys():
                await trio.sleep(REST_S)
                room = self._room()
                if until.is_set() or any(
                    room.get(brand, 0) >= IN_HAND_PER_BRAND // 2 for brand in self._backlogs
                ):
                    return
            await until.wait()

    def _room(self) -> dict[str, int]:
        """How many callbacks of each merchant can be taken on."""
        in_hand = Counter(work.transaction.order.brand for work in self.callbacks.in_hand())
        if in_hand.total() >= IN_HAND_MAX:
            return {}
        wanted = self._fences.keys() - self._surplus
        room = {brand: IN_HAND_PER_BRAND - in_hand[brand] for brand in wanted}
        return {brand: places for brand, places in room.items() if places > 0}

    def _in_hand_from_before(self) -> Collection[str]:
        """What is in hand though claimed under an earlier fence: under way, or about to be let go."""
        return [
            work.transaction.reference
            for work in self.callbacks.in_hand()
            if self._fences.get(work.transaction.order.brand) != fence_of(work)
        ]

    async def _renew(self) -> None:
        """Renew the lease, and count from before the question was asked."""
        asked_at = self.clock()
        number = await self.channels.renew()
        if number != self._number:
            if self._fences:
                logger.warning("lease lost", channels=len(self._fences))
            self._number = number
            self._lose(list(self._fences))
        self._trusted_until = trusted_until(asked_at)
        self._renew_at = asked_at + RENEWAL

    async def _beyond_share(self) -> set[str]:
        """The brands whose channels somebody else should have, so that each process does about as much."""
        standing = await self.channels.standing()
        stays = self._let_go_since(LET_GO_AGAIN)
        self._let_go = {brand: at for brand, at in self._let_go.items() if brand in stays}
        return {brand for brand in surplus(self._fences, standing) if brand not in stays}

    def _let_go_since(self, span: Span) -> Collection[str]:
        since = self.clock() - span
        return [brand for brand, at in self._let_go.items() if at > since]

    def _lose(self, brands: Collection[str]) -> None:
        for brand in brands:
            del self._fences[brand]
        self.callbacks.disown(brands)

    async def _give_up_idle(self, brands: Collection[str]) -> Collection[str]:
        """Give up those of these that have nothing under way."""
        busy = self.callbacks.brands_under_way()
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
            await self.channels.give_up(idle)
        except Exception:
            self._fences |= idle  # In the store they are ours, as far as we know.
            raise
        self.callbacks.disown(idle)
        return idle

    async def _start_over(self) -> float:
        """Hold nothing, and make that known if that can be done."""
        self._lose(list(self._fences))
        self._number, self._trusted_until, self._renew_at = None, -1, -1
        try:
            await self.channels.leave()
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning("lease left to its end", error=str(error))
        return RETRY_S
