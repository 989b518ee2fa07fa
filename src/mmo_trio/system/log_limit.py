"""Limits how often the log repeats itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog
from attrs import Factory, define
from structlog.typing import EventDict, WrappedLogger

MARK: Final = "once_a_second"
"""An event with this key set is written once a second; the others of that second are counted."""


@define(eq=False)
class LogRateLimit:
    """Limits the lines per second, and counts those that it suppresses."""

    per_second: float
    burst: int
    tokens: float = Factory(lambda self: float(self.burst), takes_self=True)
    _updated_at: float = 0.0
    _suppressed: int = 0

    def acquire(self, now: float) -> int | None:
        """Return how many lines were suppressed before this one; None to suppress it as well.

        `now` is a monotonic time in seconds."""
        self.tokens = min(self.burst, self.tokens + (now - self._updated_at) * self.per_second)
        self._updated_at = now
        if self.tokens < 1:
            self._suppressed += 1
            return None
        self.tokens -= 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


@define(eq=False)
class RepetitionLimit:
    """Processes events: one that is marked, as it repeats while the store fails, passes once a second."""

    now: Callable[[], float] = time.monotonic
    _limits: dict[str, LogRateLimit] = Factory(dict)
    """The limits by event; the names of events are few."""

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        """Return the event, with the number of those `suppressed` before it. Raises DropEvent to suppress it."""
        if not event.pop(MARK, False):
            return event
        limit = self._limits.setdefault(event["event"], LogRateLimit(per_second=1, burst=1))
        suppressed = limit.acquire(self.now())
        if suppressed is None:
            raise structlog.DropEvent
        if suppressed:
            event["suppressed"] = suppressed
        return event
