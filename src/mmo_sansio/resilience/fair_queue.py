"""Chooses the next delivery among those of many merchants that wait for a slot, each merchant in
its own order (K6).

A slot goes to the merchant with the fewest active deliveries, and among equals to the one that has
waited longest for its turn; a merchant that has its fair share waits, however many slots are free.
So merchants take turns, and one whose receiver hangs does not block the others."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from typing import Generic, TypeVar

Item = TypeVar("Item")

# Deliveries that are active at one time, of all merchants together (K6).
DELIVERY_SLOTS = 2048

# Deliveries of one merchant that are active at one time, while most slots are free (K6).
DELIVERY_SLOTS_PER_BRAND = 16


def fair_share(
    free: int, *, slots: int = DELIVERY_SLOTS, slots_per_brand: int = DELIVERY_SLOTS_PER_BRAND
) -> int:
    """Return how many active deliveries one merchant may have while `free` of all `slots` are free.

    It is `slots_per_brand` while nearly all are free, and decreases as they fill up: with the
    fourth power, so that with the usual figures the last half of the slots goes only to merchants
    without an active delivery. Therefore more than a thousand merchants whose receivers hang, with
    any backlog and in any order, leave a slot to a newcomer; with a fixed share, 128 of them would
    take all. It is at least 1 while any slot is free, and 0 when none is."""
    # Rounded up, so that it is at least 1 while a slot is free.
    return -(-slots_per_brand * free**4 // slots**4)


class FairQueue(Generic[Item]):
    """Holds the waiting items and counts the active ones; the time of each method grows with
    neither."""

    def __init__(
        self,
        *,
        waiting_max: int,
        slots: int = DELIVERY_SLOTS,
        slots_per_brand: int = DELIVERY_SLOTS_PER_BRAND,
    ) -> None:
        """Hold at most `waiting_max` waiting items, of all merchants together."""
        self._waiting_max = waiting_max

        # The share of a merchant by the number of free slots.
        # Computed once: `next` is called for each delivery.
        self._shares = [
            fair_share(free, slots=slots, slots_per_brand=slots_per_brand)
            for free in range(slots + 1)
        ]
        self._queues: dict[str, deque[Item]] = {}
        self._active_by_brand: Counter[str] = Counter()

        # Merchants with waiting items, by the number of their active ones; the first of a rank is
        # next.
        self._ranks: list[dict[str, None]] = [{} for _ in range(slots_per_brand + 1)]
        self.waiting = 0
        self.active = 0

    def has_room_for(self, brand: str) -> bool:
        """Tell whether one more item of this merchant may wait: no merchant has more waiting items
        than there is room left, so none can take all the room from the others."""
        return len(self._queues.get(brand, ())) < self._waiting_max - self.waiting

    def add(self, brand: str, item: Item) -> None:
        """Add an item behind this merchant's others."""
        assert self.has_room_for(brand)
        queue = self._queues.setdefault(brand, deque())
        queue.append(item)
        self.waiting += 1
        # With its first item it waits for a turn; with more it keeps its place.
        if len(queue) == 1:
            self._ranks[self._active_by_brand[brand]][brand] = None

    def next(self) -> Item | None:
        """Return the next item and give it a slot, until `release`; None while there is no slot, or
        no merchant may have it."""
        if self.waiting:
            # From the fewest active ones on: who has none is served before all who have some.
            for active in range(self._shares[-1 - self.active]):
                if rank := self._ranks[active]:
                    return self._start(next(iter(rank)))
        return None

    def active_brands(self) -> Collection[str]:
        """Return the merchants that hold a slot."""
        return self._active_by_brand.keys()

    def release(self, brand: str) -> None:
        """Give a slot back."""
        assert self._active_by_brand[brand] > 0
        self._move(brand, by=-1)

    def _start(self, brand: str) -> Item:
        queue = self._queues[brand]
        item = queue.popleft()
        self.waiting -= 1
        self._move(brand, by=1)
        # The counter keeps the merchant, so what it has active counts when it comes back.
        if not queue:
            del self._queues[brand]
            del self._ranks[self._active_by_brand[brand]][brand]
        return item

    def _move(self, brand: str, *, by: int) -> None:
        """Move the merchant to the end of another rank."""
        active = self._active_by_brand[brand]
        self._active_by_brand[brand] += by
        self.active += by
        # Merchants without anything must leave nothing behind: there may be many over time.
        if active + by == 0:
            del self._active_by_brand[brand]
        # Only who waits has a rank; the end of it, so that equals take turns.
        if brand in self._queues:
            del self._ranks[active][brand]
            self._ranks[active + by][brand] = None
