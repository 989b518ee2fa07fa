"""Keeps time although the machine's wall clock may be wrong: the gateway's own time, and the wall
time to record (S3).

Two clocks are read. The *boot clock* counts the microseconds since the machine started, also while
it sleeps; nobody sets it. The *wall clock* shows the date, and is set by people and time servers,
sometimes wrongly.

*The gateway's own time* passes with the boot clock. A step of the wall clock, of whatever size and
for whatever time, moves it neither forward nor back, so that no wrong clock ends a payment early or
delays what is due. It equals wall time when a store is new; from then on it is continued from one
process to the next (`continue_from`): exactly, as long as the machine was not restarted in between,
otherwise by the clock that shows how long the gateway was down.

*The wall time to record* follows the wall clock. A step of more than TOLERANCE is trusted once the
clocks have agreed for CONFIRMATION_PERIOD; until then wall time goes on as if there had been no
step. A clock that returns to what was trusted before such a step is trusted at once.

A machine whose clock is wrong from its start is noticed by nothing on the machine, but by the clock
of a store that several machines share. Of two clocks that differ either may be wrong, so the other
machines that use the store decide."""

from __future__ import annotations

from attrs import frozen

from mmo_sansio.values.clock import (
    MILLISECOND,
    SECOND,
    Instant,
    MonotonicInstant,
    Span,
    elapsed,
    later,
)

# How far the clocks may drift apart between two checks: more than any slewing, less than any wrong
# time.
TOLERANCE = Span(5 * SECOND)

# A difference that is ignored: the clocks are read one after the other.
NOISE = Span(50 * MILLISECOND)

# How long the clocks must agree after a step until the wall clock is trusted again.
CONFIRMATION_PERIOD = Span(60 * SECOND)

# A larger difference from the store's clock is logged.
NOTABLE_DIFFERENCE = Span(2 * SECOND)

# A machine whose wall time differs by more takes no payments, unless the store's clock seems to be
# the wrong one.
DIFFERENCE_MAX = Span(30 * SECOND)


@frozen
class ClockRecord:
    """Holds what a store keeps of a process's clocks, from which the next process continues."""

    boot_id: str
    """Names the machine's current start; the boot clock goes on as long as it is the same. Empty
    where the machine does not tell it."""
    monotonic: MonotonicInstant
    """The boot clock at the time of the record."""
    time: Instant
    """The gateway's own time."""
    utc: Instant
    """The wall time that was trusted."""
    served_until: Instant = Instant(0)
    """Records have been served for windows up to this wall time: no later creation may lie below it
    (R7)."""


class ClockGuard:
    """Holds how far the gateway's own time and the trusted wall time are ahead of the boot
    clock."""

    def __init__(self, *, wall: Instant, monotonic: MonotonicInstant) -> None:
        """Trust the wall clock as it is; the gateway's own time begins with it."""

        # How far the gateway's own time is ahead of the boot clock.
        self.time_ahead = Span(wall - monotonic)

        # How far the trusted wall time is ahead of the boot clock.
        self.utc_ahead = self.time_ahead
        self._stepped: _Step | None = None
        self._trusted_before: Span | None = None

    @property
    def utc_offset(self) -> Span:
        """Return how far the trusted wall time is ahead of the gateway's own time."""
        return Span(self.utc_ahead - self.time_ahead)

    @property
    def is_trusted(self) -> bool:
        """Tell whether the wall clock was trusted at the last check."""
        return self._stepped is None

    def continue_from(
        self,
        record: ClockRecord,
        *,
        boot_id: str,
        monotonic: MonotonicInstant,
        down_for: Span | None = None,
    ) -> None:
        """Continue the gateway's own time from an earlier process.

        While the machine is the same and was not restarted, its boot clock measures the time in
        between. Otherwise `down_for` does, which a store that has a clock of its own gives, or else
        the wall clock. Time never goes back.

        The wall clock is trusted as it is, as somebody may have set it right before this start; it
        is trusted at once as well when it returns to what the earlier process trusted."""
        is_same_boot = record.boot_id == boot_id and monotonic >= record.monotonic
        if is_same_boot:
            # Exact: the machine has counted all the time.
            passed = elapsed(record.monotonic, monotonic)
            self._trusted_before = Span(record.utc - record.monotonic)
        elif down_for is not None:
            passed = down_for
        else:
            # All that is left: where the wall clock is wrong now, payments end earlier or later by
            # as much.
            passed = elapsed(record.utc, later(Instant(monotonic), self.utc_ahead))

        # Never back, as what has expired must stay so.
        self.time_ahead = Span(record.time + max(passed, 0) - monotonic)

    def observe(self, *, wall: Instant, monotonic: MonotonicInstant) -> Span | None:
        """Compare the clocks; return by how much the wall clock has stepped since the last check,
        or None."""
        # 1. The clocks agree: wall time follows, so that slewing by a time server adds up to no
        # step.
        ahead = Span(wall - monotonic)
        if abs(ahead - self.utc_ahead) <= TOLERANCE:
            step = None
            if self._stepped is not None:
                step = Span(ahead - self._stepped.ahead)

            self._stepped = None
            if abs(ahead - self.utc_ahead) > NOISE:
                self.utc_ahead = ahead

            return step

        last_ahead = self.utc_ahead
        if self._stepped is not None:
            last_ahead = self._stepped.ahead

        # 2. It has returned to what was trusted before: the step between was the wrong one.
        if self._trusted_before is not None and abs(ahead - self._trusted_before) <= TOLERANCE:
            step = Span(ahead - last_ahead)
            self.utc_ahead, self._trusted_before, self._stepped = ahead, None, None
            return step

        # 3. A new step: wall time goes on as before, until this one has proved right.
        if self._stepped is None or abs(ahead - self._stepped.ahead) > TOLERANCE:
            step = Span(ahead - last_ahead)
            self._stepped = _Step(ahead, monotonic)
            return step

        # 4. It has stayed so for a minute: somebody has set the clock right.
        if monotonic - self._stepped.at >= CONFIRMATION_PERIOD:
            self.utc_ahead, self._trusted_before, self._stepped = ahead, self.utc_ahead, None
        else:
            self._stepped = _Step(ahead, self._stepped.at)

        return None


@frozen
class _Step:
    """Holds a step of the wall clock that is not trusted yet."""

    ahead: Span
    """How far the wall clock is ahead of the boot clock since then."""
    at: MonotonicInstant
    """When it was noticed."""


@frozen
class StoreClock:
    """Holds what a shared store tells of its clock."""

    now: Instant
    """The store's time."""
    agreeing: int = 0
    """How many other machines have lately recorded a wall time within DIFFERENCE_MAX of the
    store's."""
    differing: int = 0
    """How many other machines have lately recorded another."""


@frozen
class ClockComparison:
    """Says how a machine's wall time compares with the store's clock."""

    ahead: Span
    """By how much the machine is ahead at least; negative when it is behind."""
    agreeing: int
    differing: int

    @property
    def is_notable(self) -> bool:
        return abs(self.ahead) > NOTABLE_DIFFERENCE

    @property
    def forbids_start(self) -> bool:
        """Tell whether a process must not begin to serve: its clock is wrong as far as is known."""
        # Where others differ from the store too, and none agrees, the store's clock is the wrong
        # one.
        return abs(self.ahead) > DIFFERENCE_MAX and (self.agreeing > 0 or not self.differing)

    @property
    def forbids_service(self) -> bool:
        """Tell whether a process that serves should get no more requests: other machines, whose
        clocks are right, can serve."""
        # Only where somebody else can serve: else a wrong clock of the store would stop all.
        return abs(self.ahead) > DIFFERENCE_MAX and self.agreeing > 0


def compare_clocks(store: StoreClock, *, before: Instant, after: Instant) -> ClockComparison:
    """Compare with the machine's wall time before and after the store was asked; what it took to
    ask is no difference."""
    # Somewhere between the two the store has read its clock: only what lies outside is a
    # difference.
    if before > store.now:
        ahead = before - store.now
    else:
        ahead = min(after - store.now, 0)
    return ClockComparison(Span(ahead), store.agreeing, store.differing)
