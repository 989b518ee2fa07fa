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

LOOK_MAX = 512
"""How many waiting inputs are looked at for a batch beside another: with many behind one that is under way, looking
would cost more than it finds."""

_BREAKERS = frozenset(("breakers",))


def keys_of(given: Input, needed: Reads) -> frozenset[Hashable]:
    """What this input touches; nobody touches an intent who doesn't touch its payment. Merchants' breakers are one key:
    an outcome brings the breaker as it is after it, the later one counts, and whose it is isn't known before
    the payment is loaded."""
    keys: frozenset[Hashable] = needed.transactions | needed.references | needed.deposits
    if isinstance(given, CallbackConcluded) and given.breaker is not None:
        return keys | _BREAKERS
    return keys


class Keyed(Protocol):
    """What waits."""

    @property
    def keys(self) -> frozenset[Hashable]:
        """What it touches."""
        ...


Each = TypeVar("Each", bound=Keyed)


@define(eq=False)
class Waiting(Generic[Each]):
    """What waits, in the order of its arrival, and what is under way."""

    _waiting: deque[Each] = Factory(deque)
    _busy: set[Hashable] = Factory(set)
    """What is touched by that which is under way; no two of them touch the same."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def add(self, each: Each) -> None:
        """Behind all others."""
        self._waiting.append(each)

    def take(self, most: int) -> Sequence[Each]:
        """The first so many that touch nothing that is under way, nor what an earlier one waits for; they are under
        way from now on."""
        if not self._busy:
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        else:
            taken = self._take_beside(most)
        self._busy.update(*(each.keys for each in taken))
        return taken

    def _take_beside(self, most: int) -> list[Each]:
        taken: list[Each] = []
        passed: list[Each] = []
        closed = set(self._busy)
        while self._waiting and len(taken) < most and len(taken) + len(passed) < LOOK_MAX:
            each = self._waiting.popleft()
            if closed.isdisjoint(each.keys):
                taken.append(each)
            else:
                passed.append(each)
                closed |= each.keys
        self._waiting.extendleft(reversed(passed))
        return taken

    def end(self, taken: Iterable[Each]) -> None:
        """These are no longer under way."""
        self._busy.difference_update(*(each.keys for each in taken))

    def take_all(self) -> Sequence[Each]:
        """Everything that waits, when nothing is to be decided any more."""
        every = list(self._waiting)
        self._waiting.clear()
        return every
