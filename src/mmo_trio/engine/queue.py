"""The queue into the engine, and the choice of inputs that may be decided during another batch: pure.

Inputs with a common key are decided in the order of their arrival. While one of them is in a batch, the later ones
wait, and none overtakes another with which it shares a key. No input waits longer than for the active batches: once
they have ended, the first in the queue is taken first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from attrs import Factory, define

from mmo_sansio.messages.inputs import CallbackConcluded, Input
from mmo_sansio.payments.ledger import Reads

SCAN_MAX = 512
"""Waiting inputs that are scanned for a second batch: when many wait for an active key, a longer scan would cost more
than it finds."""

_BREAKERS_KEY = frozenset(("breakers",))


def conflict_keys(input_: Input, reads: Reads) -> frozenset[Hashable]:
    """Return the keys of an input, which order it among others; an intent's key is that of its payment. Merchants'
    breakers are one key: an outcome brings the breaker as it is afterwards, the later one counts, and its merchant
    isn't known before the payment is loaded."""
    keys: frozenset[Hashable] = reads.transactions.union(reads.references, reads.deposits, reads.claims)
    if isinstance(input_, CallbackConcluded) and input_.breaker is not None:
        return keys | _BREAKERS_KEY
    return keys


class HasConflictKeys(Protocol):
    """An item of the queue has keys."""

    @property
    def keys(self) -> frozenset[Hashable]:
        """Return the item's keys."""
        ...


ItemT = TypeVar("ItemT", bound=HasConflictKeys)


@define(eq=False)
class InputQueue(Generic[ItemT]):
    """Holds waiting items, in the order of their arrival, and the keys of active ones."""

    _queued: deque[ItemT] = Factory(deque)
    _active_keys: set[Hashable] = Factory(set)
    """The keys of active items; no two of these share one."""

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._queued)

    def add(self, item: ItemT) -> None:
        """Add an item behind all others."""
        self._queued.append(item)

    def take_batch(self, limit: int) -> Sequence[ItemT]:
        """Take the first items that share no key with an active or an earlier waiting one, at most so many; they are
        active from now on."""
        if not self._active_keys:
            taken = [self._queued.popleft() for _ in range(min(limit, len(self._queued)))]
        else:
            taken = self._take_concurrent(limit)
        self._active_keys.update(*(each.keys for each in taken))
        return taken

    def _take_concurrent(self, limit: int) -> list[ItemT]:
        taken: list[ItemT] = []
        passed: list[ItemT] = []
        closed = set(self._active_keys)
        while self._queued and len(taken) < limit and len(taken) + len(passed) < SCAN_MAX:
            each = self._queued.popleft()
            if closed.isdisjoint(each.keys):
                taken.append(each)
            else:
                passed.append(each)
                closed |= each.keys
        self._queued.extendleft(reversed(passed))
        return taken

    def finish(self, items: Iterable[ItemT]) -> None:
        """Mark these items as no longer active."""
        self._active_keys.difference_update(*(each.keys for each in items))

    def drain(self) -> Sequence[ItemT]:
        """Remove and return all waiting items."""
        every = list(self._queued)
        self._queued.clear()
        return every
