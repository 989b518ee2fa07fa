"""Leases and channels of a store in memory that is open several times, as by several processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.ownership import Channel, OwnershipCounts
from mmo_trio.storage.interface.store import StoreUnavailable, WorkItem
from mmo_trio.storage.memory.state import MemoryState


class MemoryChannelOwnership:
    """See :class:`mmo_trio.storage.interface.store.ChannelOwnership`."""

    def __init__(self, memory: MemoryState, pause: Callable[[], Awaitable[None]]) -> None:
        self._state: MemoryState | None = memory
        self._pause = pause
        self.lease_number = memory.ownership.renew(None, now=memory.clock())

    async def renew_lease(self) -> int:
        memory = await self._open_state()
        self.lease_number = memory.ownership.renew(self.lease_number, now=memory.clock())
        return self.lease_number

    async def end_lease(self) -> None:
        (await self._open_state()).ownership.end_lease(self.lease_number)

    async def counts(self) -> OwnershipCounts:
        memory = await self._open_state()
        return memory.ownership.counts(now=memory.clock())

    async def claim(
        self,
        *,
        excluding: Collection[str] = (),
        known: Mapping[str, int] | None = None,
        waiting: Collection[str] | None = None,
        end_leases: bool = False,
    ) -> Sequence[Channel]:
        memory = await self._open_state()
        if end_leases:
            memory.ownership.end_expired_leases(now=memory.clock())
        waiting = dict.fromkeys(_brand_of_callback(memory, intent) for intent in _open_callbacks(memory))
        wanted = [brand for brand in waiting if brand not in excluding]
        return memory.ownership.claim(self.lease_number, wanted, known=known)

    async def find_callbacks(
        self,
        room: Mapping[str, int],
        *,
        known: Mapping[str, int] | None = None,
        taken: Mapping[str, Collection[str]] | None = None,
        afresh: Collection[str] = (),
    ) -> Sequence[WorkItem]:
        memory = await self._open_state()
        left = dict(room)
        found: list[WorkItem] = []
        for intent in _open_callbacks(memory):
            brand, reference = _brand_of_callback(memory, intent), intent.gateway_reference
            fence = memory.ownership.fence(self.lease_number, brand)
            if known is not None and known.get(brand) != fence:
                continue
            if fence is None or left.get(brand, 0) < 1 or (taken and reference in taken.get(brand, ())):
                continue
            left[brand] -= 1
            found.append(WorkItem(DeliverCallback(reference, fence), memory.ledger.transactions[reference]))
        return found

    async def release(self, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]) -> None:
        (await self._open_state()).ownership.release(self.lease_number, fences, breakers)

    def close(self) -> None:
        """End the lease; later calls raise StoreUnavailable."""
        if self._state is not None:
            self._state.ownership.end_lease(self.lease_number)
            self._state = None

    async def _open_state(self) -> MemoryState:
        await self._pause()
        if self._state is None:
            raise StoreUnavailable("the store is closed")
        return self._state


def _open_callbacks(memory: MemoryState) -> Sequence[DeliverCallback]:
    """Return the callbacks that are waiting, in the order of their creation."""
    return [
        each
        for key, each in memory.ledger.intents.items()
        if isinstance(each, DeliverCallback) and key not in memory.locked_intents
    ]


def _brand_of_callback(memory: MemoryState, intent: DeliverCallback) -> str:
    return memory.ledger.transactions[intent.gateway_reference].order.brand
