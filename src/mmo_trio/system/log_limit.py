"""Limits how often the log repeats itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog
from attrs import Factory, define
from structlog.typing import EventDict, WrappedLogger

MARKS: Final = {"once_a_second": 1.0, "once_a_minute": 1 / 60}
"""An event with one of these keys set is written so many times a second; the others are counted."""


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
    """Processes events: one that is marked, as it repeats while the store fails, passes once in the time that its mark
    names."""

    now: Callable[[], float] = time.monotonic
    _limits: dict[str, LogRateLimit] = Factory(dict)
    """The limits by event and mark; the names of events are few."""

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        """Return the event, with the number of those `suppressed` before it. Raises DropEvent to suppress it."""
        marks = [mark for mark in MARKS if event.pop(mark, False)]
        if not marks:
            return event
        key = f"{event['event']} {marks[0]}"
        if (limit := self._limits.get(key)) is None:
            limit = self._limits[key] = LogRateLimit(per_second=MARKS[marks[0]], burst=1)
        suppressed = limit.acquire(self.now())
        if suppressed is None:
            raise structlog.DropEvent
        if suppressed:
            event["suppressed"] = suppressed
        return event
