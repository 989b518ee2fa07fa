"""The gateway's clocks: wall time that never repeats a stamp, monotonic time, and the sandbox's way to move both; and
what Trio's deadlines count in: time that goes on while the machine sleeps."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import trio

from mmo_sansio.values.clock import Instant, MonotonicInstant, Span


def boot_time() -> MonotonicInstant:
    """Microseconds since the machine started, those that it or this process slept through included."""
    return MonotonicInstant(time.clock_gettime_ns(_BOOT_CLOCK_ID) // 1_000)


_BOOT_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class BootClock(trio.abc.Clock):
    """For `trio.run` of whatever sends what must not be sent too late: by Trio's own clock a deadline would stand still
    while the machine is suspended, and a submission could leave hours after it was given up (S6)."""

    def start_clock(self) -> None:
        """Nothing is to be done."""

    def current_time(self) -> float:
        """Seconds since the machine started."""
        return time.clock_gettime(_BOOT_CLOCK_ID)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Seconds until then."""
        return deadline - self.current_time()


class WallClock:
    """Reads the machine's clocks and adds an offset, which only a sandbox ever moves."""

    def __init__(self, *, offset: Span = Span(0)) -> None:
        self._offset = offset
        self._last_stamp = Instant(0)

    @property
    def offset(self) -> Span:
        """How far this clock is ahead of the machine's."""
        return self._offset

    def now(self) -> Instant:
        """Wall time."""
        return Instant(time.time_ns() // 1_000 + self._offset)

    def monotonic(self) -> MonotonicInstant:
        """Time that only goes forward, whatever happens to the wall clock; its zero means nothing."""
        return MonotonicInstant(time.monotonic_ns() // 1_000 + self._offset)

    def ensure_after(self, stamp: Instant) -> None:
        """Give no stamp at or below this one: what is stored already lies in the past."""
        self._last_stamp = max(self._last_stamp, stamp)

    def next_stamps(self, count: int) -> Sequence[Instant]:
        """That many stamps, strictly increasing, now and across calls (law 6)."""
        first = Instant(max(self.now(), self._last_stamp + 1))
        self._last_stamp = Instant(first + count - 1)
        return [Instant(stamp) for stamp in range(first, first + count)]

    def advance(self, span: Span) -> None:
        """Move wall and monotonic time forward; raises ValueError for a step back."""
        if span < 0:
            raise ValueError("the clock moves forward only")
        self._offset = Span(self._offset + span)


def read_offset(path: Path) -> Span:
    """The offset that a sandbox has kept; 0 when it never moved its clock."""
    try:
        return Span(int(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        return Span(0)


def write_offset(path: Path, offset: Span) -> None:
    """Keep the offset, whole or not at all."""
    draft = path.with_suffix(".new")
    draft.write_text(str(offset), encoding="ascii")
    os.replace(draft, path)
