"""Remembers what could not be done, and when each of it is tried again: after a pause that doubles
each time."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

import trio
from attrs import Factory, define, frozen

# Seconds before the first further attempt, and at most before any.
RETRY_DELAY_S = 1.0
RETRY_DELAY_MAX_S = 60.0

KeyT = TypeVar("KeyT", bound=Hashable)


@frozen
class _Pause:
    ends_at: float
    """Trio's time of the next attempt."""
    length_s: float


@define(eq=False)
class Postponed(Generic[KeyT]):
    """Knows what has failed, by key. It has no limit: what it forgot would be tried again at once,
    before all that comes after it."""

    _pauses: dict[KeyT, _Pause] = Factory(dict)

    def __len__(self) -> int:
        return len(self._pauses)

    def add(self, key: KeyT) -> float:
        """Postpone this, after it has failed, and return for how many seconds."""
        length_s = RETRY_DELAY_S
        if key in self._pauses:
            length_s = min(2 * self._pauses[key].length_s, RETRY_DELAY_MAX_S)

        self._pauses[key] = _Pause(trio.current_time() + length_s, length_s)
        return length_s

    def must_wait(self, key: KeyT) -> bool:
        """Tell whether the time of this has not come."""
        return key in self._pauses and self._pauses[key].ends_at > trio.current_time()

    def discard(self, key: KeyT) -> None:
        """Forget this, as it is done."""
        self._pauses.pop(key, None)

    def retain(self, keys: Collection[KeyT]) -> None:
        """Forget everything but these."""
        self._pauses = {key: self._pauses[key] for key in keys if key in self._pauses}
