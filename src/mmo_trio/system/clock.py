"""Provides the gateway's clocks: wall time with unique stamps, monotonic time, an offset that a sandbox moves, and the
clock of Trio's deadlines, which runs on while the machine sleeps."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import trio

from mmo_sansio.values.clock import Instant, MonotonicInstant, Span


def boot_time() -> MonotonicInstant:
    """Return the microseconds since the machine started, including the time that it was suspended."""
    return MonotonicInstant(time.clock_gettime_ns(_BOOT_CLOCK_ID) // 1_000)


_BOOT_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class BootClock(trio.abc.Clock):
    """A Trio clock that runs on while the machine is suspended. With Trio's own clock, a submission could be sent hours
    after its deadline (S6)."""

    def start_clock(self) -> None:
        """Do nothing; Trio calls this once."""

    def current_time(self) -> float:
        """Return the seconds since the machine started."""
        return time.clock_gettime(_BOOT_CLOCK_ID)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds until the deadline."""
        return deadline - self.current_time()


class WallClock:
    """Reads the machine's clocks and adds an offset, which only a sandbox changes."""

    def __init__(self, *, offset: Span = Span(0)) -> None:
        self._offset = offset
        self._last_stamp = Instant(0)

    @property
    def offset(self) -> Span:
        """Return how far this clock is ahead of the machine's."""
        return self._offset

    def now(self) -> Instant:
        """Return wall time."""
        return Instant(time.time_ns() // 1_000 + self._offset)

    def monotonic(self) -> MonotonicInstant:
        """Return monotonic time; its zero has no meaning."""
        return MonotonicInstant(time.monotonic_ns() // 1_000 + self._offset)

    def ensure_after(self, stamp: Instant) -> None:
        """Issue only stamps above this one, which is stored already."""
        self._last_stamp = max(self._last_stamp, stamp)

    def next_stamps(self, count: int) -> Sequence[Instant]:
        """Return this many stamps, strictly increasing within and across calls (law 6)."""
        first = Instant(max(self.now(), self._last_stamp + 1))
        self._last_stamp = Instant(first + count - 1)
        return [Instant(stamp) for stamp in range(first, first + count)]

    def advance(self, span: Span) -> None:
        """Move wall and monotonic time forward. Raises ValueError for a negative span."""
        if span < 0:
            raise ValueError("the clock moves forward only")
        self._offset = Span(self._offset + span)


def read_offset(path: Path) -> Span:
    """Return the stored offset of a sandbox; 0 when its clock was never moved."""
    try:
        return Span(int(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        return Span(0)


def write_offset(path: Path, offset: Span) -> None:
    """Store the offset atomically."""
    draft = path.with_suffix(".new")
    draft.write_text(str(offset), encoding="ascii")
    os.replace(draft, path)
