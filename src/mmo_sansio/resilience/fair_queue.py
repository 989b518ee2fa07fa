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

PLACES = 2048
"""Deliveries under way at one time, of all merchants together (K6)."""
PLACES_PER_MERCHANT = 16
"""Deliveries under way at one time of one merchant, while there is plenty of room (K6)."""


def fair_share(free: int, *, places: int = PLACES, per_merchant: int = PLACES_PER_MERCHANT) -> int:
    """How many deliveries one merchant may have under way while `free` of all `places` are free.

    All `per_merchant` while nearly all are free, and fewer and fewer as they fill up: with the
    fourth power, so that with the usual figures the last half of the places goes only to merchants
    that have none under way. More than a thousand merchants whose receivers hang, with whatever
    backlogs and in whatever order they come, therefore leave a place to a newcomer; with a fixed
    share, 128 of them would have taken all. At least 1 while any place is free, and 0 when none is.
    """
    return -(-per_merchant * free**4 // places**4)


class Turns(Generic[Item]):
    """What waits and how much is under way; each method takes time that doesn't grow with either."""

    def __init__(
        self,
        *,
        waiting_most: int,
        places: int = PLACES,
        per_merchant: int = PLACES_PER_MERCHANT,
    ) -> None:
        """`waiting_most`: items that may wait, of all merchants together."""
        self._waiting_most = waiting_most
        self._places = places
        self._per_merchant = per_merchant
        self._queues: dict[str, deque[Item]] = {}
        self._under_way: Counter[str] = Counter()
        self._ranks: list[dict[str, None]] = [{} for _ in range(per_merchant + 1)]
        """Merchants with something waiting, by the number they have under way; within a rank the
        next one comes first."""
        self.waiting = 0
        self.under_way = 0

    def has_room_for(self, merchant: str) -> bool:
        """Whether one more item of this merchant may wait: no merchant waits with more items than
        there is room left, so none can fill the room up for the others."""
        return len(self._queues.get(merchant, ())) < self._waiting_most - self.waiting

    def add(self, merchant: str, item: Item) -> None:
        """Let an item wait behind this merchant's others."""
        assert self.has_room_for(merchant)
        queue = self._queues.setdefault(merchant, deque())
        queue.append(item)
        self.waiting += 1
        if len(queue) == 1:
            self._ranks[self._under_way[merchant]][merchant] = None

    def next(self) -> Item | None:
        """Give the next item a place; None while there is no place, or nobody may have it. The
        place is the merchant's until it calls `leave`."""
        share = fair_share(
            self._places - self.under_way, places=self._places, per_merchant=self._per_merchant
        )
        for under_way in range(share):
            if rank := self._ranks[under_way]:
                return self._start(next(iter(rank)))
        return None

    def merchants_under_way(self) -> Collection[str]:
        """Those that hold a place."""
        return self._under_way.keys()

    def leave(self, merchant: str) -> None:
        """Give a place back."""
        assert self._under_way[merchant] > 0
        self._move(merchant, by=-1)

    def _start(self, merchant: str) -> Item:
        queue = self._queues[merchant]
        item = queue.popleft()
        self.waiting -= 1
        self._move(merchant, by=1)
        if not queue:
            del self._queues[merchant]
            del self._ranks[self._under_way[merchant]][merchant]
        return item

    def _move(self, merchant: str, *, by: int) -> None:
        """To another rank, and there behind all others."""
        was = self._under_way[merchant]
        self._under_way[merchant] += by
        self.under_way += by
        if was + by == 0:
            del self._under_way[merchant]
        if merchant in self._queues:
            del self._ranks[was][merchant]
            self._ranks[was + by][merchant] = None
