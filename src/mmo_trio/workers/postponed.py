"""Remembers what could not be done, and when each of it is tried again: after a pause that doubles
each time."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

import trio
from attrs import Factory, define

# Seconds before the first further attempt, and at most before any.
RETRY_DELAY_S = 1.0
RETRY_DELAY_MAX_S = 60.0

KeyT = TypeVar("KeyT", bound=Hashable)


@define(eq=False)
class Postponed(Generic[KeyT]):
    """Knows what has failed, by key. Nothing is forgotten for want of room: else it would hold up
    what comes after."""

    _by_key: dict[KeyT, tuple[float, float]] = Factory(dict)
    """Trio's time of the next attempt, and the pause before it."""

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, key: KeyT) -> float:
        """Postpone this, after it has failed, and return for how many seconds."""
        if key in self._by_key:
            pause_s = min(2 * self._by_key[key][1], RETRY_DELAY_MAX_S)
        else:
            pause_s = RETRY_DELAY_S

        self._by_key[key] = trio.current_time() + pause_s, pause_s
        return pause_s

    def must_wait(self, key: KeyT) -> bool:
        """Tell whether the time of this has not come."""
        return key in self._by_key and self._by_key[key][0] > trio.current_time()

    def discard(self, key: KeyT) -> None:
        """Forget this, as it is done."""
        self._by_key.pop(key, None)

    def retain(self, keys: Collection[KeyT]) -> None:
        """Forget everything but these."""
        self._by_key = {key: self._by_key[key] for key in keys if key in self._by_key}
