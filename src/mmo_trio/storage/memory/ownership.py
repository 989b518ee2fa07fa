"""Leases and channels of a store in memory that is open several times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import trio

from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.resilience.ownership import Channel, Standing
from mmo_sansio.values.clock import SECOND, Instant
from mmo_trio.storage.interface.store import StoreUnavailable, Work
from mmo_trio.storage.memory.state import Memory


def store_time() -> Instant:
    """The store's own clock: Trio's, which a test may move."""
    return round(trio.current_time() * SECOND)


class MemoryChannels:
    """See :class:`mmo_trio.storage.interface.store.Channels`."""

    def __init__(self, memory: Memory) -> None:
        self._kept: Memory | None = memory
        self.number = memory.channels.renew(None, now=store_time())

    async def renew(self) -> int:
        memory = await self._opened()
        self.number = memory.channels.renew(self.number, now=store_time())
        return self.number

    async def leave(self) -> None:
        (await self._opened()).channels.end(self.number)

    async def standing(self) -> Standing:
        return (await self._opened()).channels.standing(now=store_time())

    async def take(self, *, but: Collection[str] = ()) -> Sequence[Channel]:
        memory = await self._opened()
        waiting = dict.fromkeys(_brand(memory, intent) for intent in _callbacks(memory))
        wanted = [brand for brand in waiting if brand not in but]
        return memory.channels.take(self.number, wanted, now=store_time())

    async def take_callbacks(
        self, room: Mapping[str, int], *, in_hand: Collection[str] = ()
    ) -> Sequence[Work]:
        memory = await self._opened()
        left = dict(room)
        taken: list[Work] = []
        for intent in _callbacks(memory):
            brand, reference = _brand(memory, intent), intent.gateway_reference
            fence = memory.channels.fence(self.number, brand, now=store_time())
            if fence is None or intent.fence >= fence or reference in in_hand:
                continue
            if left.get(brand, 0) < 1:
                continue
            left[brand] -= 1
            claimed = DeliverCallback(reference, fence)
            memory.ledger.intents[reference, intent.kind] = claimed
            taken.append(Work(claimed, memory.ledger.transactions[reference]))
        return taken

    async def give_up(self, fences: Mapping[str, int]) -> None:
        (await self._opened()).channels.give_up(self.number, fences)

    def close(self) -> None:
        """End the lease; later calls raise StoreUnavailable."""
        if self._kept is not None:
            self._kept.channels.end(self.number)
            self._kept = None

    async def _opened(self) -> Memory:
        await trio.lowlevel.checkpoint()
        if self._kept is None:
            raise StoreUnavailable("the store is closed")
        return self._kept


def _callbacks(memory: Memory) -> Sequence[DeliverCallback]:
    """The callbacks that are waiting, in the order in which they came up."""
    return [each for each in memory.ledger.intents.values() if isinstance(each, DeliverCallback)]


def _brand(memory: Memory, intent: DeliverCallback) -> str:
    return memory.ledger.transactions[intent.gateway_reference].order.brand
