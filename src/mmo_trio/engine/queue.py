"""What waits for the engine, and what of it may be decided beside a batch that is under way: pure.

Inputs that touch the same are decided in the order in which they came. So while one is under way, the later ones wait,
each behind those before it, and nothing overtakes what it shares a key with. Nobody waits longer than for what is under
way: as soon as that has ended, who came first is taken first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from attrs import Factory, define

from mmo_sansio.messages.inputs import CallbackConcluded, Input
from mmo_sansio.payments.ledger import Reads

SCAN_MAX = 512
"""How many waiting inputs are looked at for a batch beside another: with many behind one that is under way, looking
would cost more than it finds."""

_BREAKERS_KEY = frozenset(("breakers",))


def conflict_keys(input_: Input, reads: Reads) -> frozenset[Hashable]:
    """What this input touches; nobody touches an intent who doesn't touch its payment. Merchants' breakers are one key:
    an outcome brings the breaker as it is after it, the later one counts, and whose it is isn't known before
    the payment is loaded."""
    keys: frozenset[Hashable] = reads.transactions | reads.references | reads.deposits
    if isinstance(input_, CallbackConcluded) and input_.breaker is not None:
        return keys | _BREAKERS_KEY
    return keys


class HasConflictKeys(Protocol):
    """What waits."""

    @property
    def keys(self) -> frozenset[Hashable]:
        """What it touches."""
        ...


ItemT = TypeVar("ItemT", bound=HasConflictKeys)


@define(eq=False)
class InputQueue(Generic[ItemT]):
    """What waits, in the order of its arrival, and what is under way."""

    _queued: deque[ItemT] = Factory(deque)
    _active_keys: set[Hashable] = Factory(set)
    """What is touched by that which is under way; no two of them touch the same."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._queued)

    def add(self, item: ItemT) -> None:
        """Behind all others."""
        self._queued.append(item)

    def take_batch(self, limit: int) -> Sequence[ItemT]:
        """The first so many that touch nothing that is under way, nor what an earlier one waits for; they are under
        way from now on."""
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
        """These are no longer under way."""
        self._active_keys.difference_update(*(each.keys for each in items))

    def drain(self) -> Sequence[ItemT]:
        """Everything that waits, when nothing is to be decided any more."""
        every = list(self._queued)
        self._queued.clear()
        return every
