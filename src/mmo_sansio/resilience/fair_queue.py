"""Who is next: deliveries of many merchants that wait for a place, each merchant in its own order
(K6).

A place goes to the merchant that has the fewest deliveries under way, and among equals to the one
whose turn came longest ago; a merchant that has its fair share under way waits, however many places
are free. So merchants take turns, and one whose receiver hangs is out of everybody's way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from typing import Generic, TypeVar

Item = TypeVar("Item")

DELIVERY_SLOTS = 2048
"""Deliveries under way at one time, of all merchants together (K6)."""
DELIVERY_SLOTS_PER_BRAND = 16
"""Deliveries under way at one time of one merchant, while there is plenty of room (K6)."""


def fair_share(
    free: int, *, slots: int = DELIVERY_SLOTS, slots_per_brand: int = DELIVERY_SLOTS_PER_BRAND
) -> int:
    """How many deliveries one merchant may have under way while `free` of all `places` are free.

    All `per_merchant` while nearly all are free, and fewer and fewer as they fill up: with the
    fourth power, so that with the usual figures the last half of the places goes only to merchants
    that have none under way. More than a thousand merchants whose receivers hang, with whatever
    backlogs and in whatever order they come, therefore leave a place to a newcomer; with a fixed
    share, 128 of them would have taken all. At least 1 while any place is free, and 0 when none is.
    """
    return -(-slots_per_brand * free**4 // slots**4)


class FairQueue(Generic[Item]):
    """What waits and how much is under way; each method takes time that doesn't grow with either."""

    def __init__(
        self,
        *,
        waiting_max: int,
        slots: int = DELIVERY_SLOTS,
        slots_per_brand: int = DELIVERY_SLOTS_PER_BRAND,
    ) -> None:
        """`waiting_most`: items that may wait, of all merchants together."""
        self._waiting_max = waiting_max
        self._slots = slots
        self._slots_per_brand = slots_per_brand
        self._queues: dict[str, deque[Item]] = {}
        self._active_by_brand: Counter[str] = Counter()
        self._ranks: list[dict[str, None]] = [{} for _ in range(slots_per_brand + 1)]
        """Merchants with something waiting, by the number they have under way; within a rank the
        next one comes first."""
        self.waiting = 0
        self.active = 0

    def has_room_for(self, brand: str) -> bool:
        """Whether one more item of this merchant may wait: no merchant waits with more items than
        there is room left, so none can fill the room up for the others."""
        return len(self._queues.get(brand, ())) < self._waiting_max - self.waiting

    def add(self, brand: str, item: Item) -> None:
        """Let an item wait behind this merchant's others."""
        assert self.has_room_for(brand)
        queue = self._queues.setdefault(brand, deque())
        queue.append(item)
        self.waiting += 1
        if len(queue) == 1:
            self._ranks[self._active_by_brand[brand]][brand] = None

    def next(self) -> Item | None:
        """Give the next item a place; None while there is no place, or nobody may have it. The
        place is the merchant's until it calls `leave`."""
        share = fair_share(
            self._slots - self.active, slots=self._slots, slots_per_brand=self._slots_per_brand
        )
        for under_way in range(share):
            if rank := self._ranks[under_way]:
                return self._start(next(iter(rank)))
        return None

    def active_brands(self) -> Collection[str]:
        """Those that hold a place."""
        return self._active_by_brand.keys()

    def release(self, brand: str) -> None:
        """Give a place back."""
        assert self._active_by_brand[brand] > 0
        self._move(brand, by=-1)

    def _start(self, brand: str) -> Item:
        queue = self._queues[brand]
        item = queue.popleft()
        self.waiting -= 1
        self._move(brand, by=1)
        if not queue:
            del self._queues[brand]
            del self._ranks[self._active_by_brand[brand]][brand]
        return item

    def _move(self, brand: str, *, by: int) -> None:
        """To another rank, and there behind all others."""
        was = self._active_by_brand[brand]
        self._active_by_brand[brand] += by
        self.active += by
        if was + by == 0:
            del self._active_by_brand[brand]
        if brand in self._queues:
            del self._ranks[was][brand]
            self._ranks[was + by][brand] = None
