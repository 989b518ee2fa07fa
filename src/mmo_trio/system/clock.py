"""Provides the gateway's clocks: its own time and wall time, an offset that a sandbox moves, and
the clock of Trio's deadlines, which runs on while the machine sleeps."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import trio
from attrs import frozen

from mmo_sansio.resilience.clock_guard import ClockGuard, ClockRecord
from mmo_sansio.values.clock import SECOND, Instant, Moment, MonotonicInstant, Span, earlier, later
from mmo_trio.system.damaged_file import DamagedFile

# The process counts as suspended once it has not run for so long; nothing of its own takes a tenth
# of this.
SUSPENDED_AFTER = Span(10 * SECOND)

# How long after a suspension requests are read that may have waited through it.
RESUMING = Span(2 * SECOND)


def boot_time() -> MonotonicInstant:
    """Return the microseconds since the machine started, including the time that it was
    suspended."""
    return MonotonicInstant(time.clock_gettime_ns(_BOOT_CLOCK_ID) // 1_000)


_BOOT_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class BootClock(trio.abc.Clock):
    """A Trio clock that runs on while the machine is suspended. With Trio's own clock, a submission
    could be sent hours after its deadline (S6)."""

    def start_clock(self) -> None:
        """Do nothing; Trio calls this once."""

    def current_time(self) -> float:
        """Return the seconds since the machine started."""
        return time.clock_gettime(_BOOT_CLOCK_ID)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds until the deadline."""
        return deadline - self.current_time()


@frozen
class Suspension:
    """A time in which the process did not run: it was stopped, or its machine slept."""

    ended_at: MonotonicInstant
    """When it was noticed, as the time since the machine started."""
    lasted: Span


class GatewayClock:
    """Keeps the gateway's clocks, guarded against a wrong wall clock. Each has a name of its own,
    also where it is passed on:

    - `own_time` judges what is due; no step of the wall clock moves it.
    - `wall_time` is the trusted time of day, which people read.
    - `raw_wall_time` is what the machine's wall clock shows, right or wrong.
    - `monotonic` measures spans within one start of the machine.
    - `moment` is own time and wall time at once.

    A sandbox moves all of these by its offset, which is 0 elsewhere. `since_boot` it doesn't move:
    leases and the patience of clients pass in true time.

    A step of the machine's wall clock shows only after `observe`, which a worker calls every
    second."""

    def __init__(self, *, offset: Span = Span(0)) -> None:
        # How far this clock is ahead of the machine's.
        self.offset = offset
        self._guard: ClockGuard | None = None
        self._last_time = Instant(0)

        # The wall time below which nothing is created any more (R7); the first instant when there
        # is none.
        self.served_until = Instant(0)
        self._ran_at: MonotonicInstant | None = None

        # When this process was last suspended, as far as it knows.
        self.last_suspension: Suspension | None = None

    @property
    def guard(self) -> ClockGuard:
        """Return the guard; it first reads the clocks when it is first needed."""
        if self._guard is None:
            self._guard = ClockGuard(wall=self.raw_wall_time(), monotonic=self.monotonic())
        return self._guard

    def wall_time(self) -> Instant:
        """Return the trusted wall time, for people to read."""
        # Without the property, as every request asks.
        guard = self._guard or self.guard
        return Instant(self.monotonic() + guard.utc_ahead)

    def own_time(self) -> Instant:
        """Return the gateway's own time, by which it is judged what is due."""
        return Instant(self.monotonic() + self.guard.time_ahead)

    def moment(self) -> Moment:
        """Return both times at once."""
        monotonic, guard = self.monotonic(), self.guard
        return Moment(
            time=Instant(monotonic + guard.time_ahead), utc=Instant(monotonic + guard.utc_ahead)
        )

    def raw_wall_time(self) -> Instant:
        """Return what the machine's wall clock shows, right or wrong."""
        return Instant(time.time_ns() // 1_000 + self.offset)

    def monotonic(self) -> MonotonicInstant:
        """Return the time since the machine started, as moved by a sandbox."""
        # As `boot_time` and `later`, without their calls: every request reads it several times.
        return MonotonicInstant(time.clock_gettime_ns(_BOOT_CLOCK_ID) // 1_000 + self.offset)

    def since_boot(self) -> MonotonicInstant:
        """Return the time since the machine started, which a sandbox does not move."""
        return earlier(self.monotonic(), self.offset)

    def boot_id(self) -> str:
        """Return the name of the machine's current start."""
        return boot_id()

    def observe(self) -> Span | None:
        """Compare the clocks; return by how much the wall clock has stepped since the last time, or
        None."""
        self._note_running()
        if self._ran_at is None:
            self._ran_at = self.since_boot()
        return self.guard.observe(wall=self.raw_wall_time(), monotonic=self.monotonic())

    def requests_count_since(self) -> MonotonicInstant:
        """Return the time, as `since_boot` shows it, since which a request that is read has
        certainly not waited through a suspension of this process. The sender of an earlier one may
        have given it up."""
        self._note_running()
        suspension = self.last_suspension
        if suspension is None:
            return MonotonicInstant(0)
        return later(suspension.ended_at, RESUMING)

    def _note_running(self) -> None:
        """Notice whether the process has run lately. Before the first `observe`, which a worker
        repeats, a long pause means nothing."""
        if self._ran_at is None:
            return
        now = self.since_boot()
        # The boot clock runs on while the process, or its machine, is stopped: so a stop shows as a
        # pause.
        pause, self._ran_at = Span(now - self._ran_at), now
        if pause > SUSPENDED_AFTER:
            self.last_suspension = Suspension(now, pause)

    def record(self) -> ClockRecord:
        """Return what a later process needs to continue the gateway's own time."""
        monotonic, guard = self.monotonic(), self.guard
        return ClockRecord(
            boot_id=self.boot_id(),
            monotonic=monotonic,
            time=Instant(monotonic + guard.time_ahead),
            utc=Instant(monotonic + guard.utc_ahead),
            served_until=self.served_until,
        )

    def continue_from(self, record: ClockRecord, *, down_for: Span | None = None) -> None:
        """Continue the own time of an earlier process. `down_for` is how long ago it made the
        record, if the store's own clock knows; see :meth:`ClockGuard.continue_from`."""
        self.guard.continue_from(
            record, boot_id=self.boot_id(), monotonic=self.monotonic(), down_for=down_for
        )
        self.served_until = max(self.served_until, record.served_until)

    def mark_served(self, end: Instant) -> None:
        """Create nothing below this wall time from now on, as records up to there are being served
        (R7). A window that ends in the future promises nothing."""
        if self.served_until < end <= self.wall_time():
            self.served_until = end

    def next_moments(self, count: int, *, after: Instant) -> Sequence[tuple[Instant, Instant]]:
        """Return this many moments as `now` and `utc` of `decide`, strictly increasing by both
        clocks within a call and in the gateway's own time also across calls (law 6). None is at or
        below the wall time `after`, nor in a window that was served."""
        now = self.moment()

        # Two inputs of one microsecond still have an order.
        time = max(now.time, self._last_time + 1)
        # Never in a window of records that a merchant has read to its end (R7).
        utc = max(time + (now.utc - now.time), after + 1, self.served_until)
        self._last_time = Instant(time + count - 1)
        # A pair costs 0.1 us, and an object with names would cost 0.8 us, for each input.
        return [(Instant(time + nth), Instant(utc + nth)) for nth in range(count)]

    def advance(self, span: Span) -> None:
        """Move all clocks forward. Raises ValueError for a negative span."""
        if span < 0:
            raise ValueError("the clock moves forward only")
        self.offset = Span(self.offset + span)


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return the name of the machine's current start; empty where the system does not tell it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_offset(path: Path) -> Span:
    """Return the stored offset of a sandbox; 0 when its clock was never moved. Raises
    DamagedFile."""
    try:
        return Span(int(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        return Span(0)
    except ValueError:
        raise DamagedFile(
            f"{path} holds no offset of a clock: remove it to use the machine's time."
        ) from None


def write_offset(path: Path, offset: Span) -> None:
    """Store the offset atomically."""
    draft = path.with_suffix(".new")
    draft.write_text(str(offset), encoding="ascii")
    os.replace(draft, path)
