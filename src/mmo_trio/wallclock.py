"""The gateway's clock: wall time that never repeats a stamp, monotonic time, and the sandbox's way to move both."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from mmo_sansio.clock import Instant, Span


class WallClock:
    """Reads the machine's clocks and adds an offset, which only a sandbox ever moves."""

    def __init__(self, *, offset: Span = 0) -> None:
        self._offset = offset
        self._last: Instant = 0

    @property
    def offset(self) -> Span:
        """How far this clock is ahead of the machine's."""
        return self._offset

    def now(self) -> Instant:
        """Wall time."""
        return time.time_ns() // 1_000 + self._offset

    def monotonic(self) -> Span:
        """Time that only goes forward, whatever happens to the wall clock; its zero means nothing."""
        return time.monotonic_ns() // 1_000 + self._offset

    def never_below(self, stamp: Instant) -> None:
        """Give no stamp at or below this one: what is stored already lies in the past."""
        self._last = max(self._last, stamp)

    def stamps(self, count: int) -> Sequence[Instant]:
        """That many stamps, strictly increasing, now and across calls (law 6)."""
        first = max(self.now(), self._last + 1)
        self._last = first + count - 1
        return range(first, first + count)

    def advance(self, span: Span) -> None:
        """Move wall and monotonic time forward; raises ValueError for a step back."""
        if span < 0:
            raise ValueError("the clock moves forward only")
        self._offset += span


def read_offset(path: Path) -> Span:
    """The offset that a sandbox has kept; 0 when it never moved its clock."""
    try:
        return int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def write_offset(path: Path, offset: Span) -> None:
    """Keep the offset, whole or not at all."""
    draft = path.with_suffix(".new")
    draft.write_text(str(offset), encoding="ascii")
    os.replace(draft, path)
