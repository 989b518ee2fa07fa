"""Remembers what could not be done, and when each of it is tried again: after a pause that doubles each time."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

import trio
from attrs import Factory, define, frozen

RETRY_DELAY_S = 1.0
"""Seconds before the first further attempt."""

RETRY_DELAY_MAX_S = 60.0
"""The longest time in seconds before a further attempt."""

KeyT = TypeVar("KeyT", bound=Hashable)


@frozen
class _Postponement:
    until: float
    """Trio's time of the next attempt."""
    delay_s: float


@define(eq=False)
class Postponed(Generic[KeyT]):
    """Knows what has failed, by key. Nothing is forgotten for want of room: else it would hold up what comes after."""

    _by_key: dict[KeyT, _Postponement] = Factory(dict)

    def __len__(self) -> int:
        """Return how much has failed and was not done since."""
        return len(self._by_key)

    def add(self, key: KeyT) -> float:
        """Postpone this, after it has failed, and return for how many seconds."""
        before = self._by_key.get(key)
        delay_s = RETRY_DELAY_S if before is None else min(2 * before.delay_s, RETRY_DELAY_MAX_S)
        self._by_key[key] = _Postponement(trio.current_time() + delay_s, delay_s)
        return delay_s

    def must_wait(self, key: KeyT) -> bool:
        """Tell whether the time of this has not come."""
        found = self._by_key.get(key)
        return found is not None and found.until > trio.current_time()

    def discard(self, key: KeyT) -> None:
        """Forget this, as it is done."""
        self._by_key.pop(key, None)

    def retain(self, keys: Collection[KeyT]) -> None:
        """Forget everything but these."""
        self._by_key = {key: self._by_key[key] for key in keys if key in self._by_key}
