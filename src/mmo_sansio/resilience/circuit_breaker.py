"""Holds the circuit breaker of one merchant's callbacks: it stops calls to a receiver that fails
(K5).

    CLOSED ──a failure reaches the ratio──▶ OPEN ──a request 30 s later──▶ HALF_OPEN
       ▲                                      ▲                                │
       │                                      └────────the probe fails─────────┤
       └───────────────────────────────────────────────the probe succeeds──────┘

Outcomes are counted in ten sub-windows of six seconds each. A sub-window begins at the first
outcome or read that finds none, or finds the newest six seconds old; it is dropped, with all its
counts, sixty seconds after its beginning. So an outcome counts for 54 to 60 seconds. The ratio is
checked only when a failure is counted while closed: a success never opens the breaker, and neither
does the passing of time.

A caller requests a permit before each call, and then reports or abandons it. Every change of state
begins a new generation, and a permit carries its own: this distinguishes the report of the probe
from that of an earlier slow call. The latter counts while open or closed, and is ignored while
half-open.

Time is an argument: microseconds of a monotonic clock, which never decrease.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from attrs import evolve, frozen

from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, later

# The number of sub-windows of the window.
SUB_WINDOWS = 10


class BreakerState(StrEnum):
    """Says whether calls are permitted."""

    CLOSED = "closed"
    """All calls are permitted."""
    OPEN = "open"
    """No call is permitted until `open_until`."""
    HALF_OPEN = "half_open"
    """One call is permitted, the probe."""


@frozen
class BreakerSettings:
    """Holds the figures that decide when a breaker opens, and for how long."""

    window: Span = Span(60 * SECOND)
    """How long outcomes count."""
    # The figures of clause K5: no single failure of a quiet merchant stops its callbacks.
    minimum_requests: int = 5
    """The breaker never opens with fewer outcomes in the window."""
    failure_ratio: float = 0.5
    """The breaker opens from this share of failures among the outcomes."""
    open_for: Span = Span(30 * SECOND)
    permit_deadline: Span | None = Span(15 * SECOND)
    """When a permit without a report counts as failed. None: its holder guarantees to report or
    abandon it."""


@frozen
class Permit:
    """A permit allows one call."""

    number: int
    generation: int
    granted_at: MonotonicInstant


@frozen
class SubWindow:
    """Counts the outcomes of a tenth of the window."""

    began_at: MonotonicInstant
    successes: int = 0
    failures: int = 0


@frozen
class OutcomeCounts:
    """Counts the outcomes within the window."""

    successes: int
    failures: int

    @property
    def total(self) -> int:
        return self.successes + self.failures


@frozen
class BreakerSnapshot:
    """Holds the whole state of a breaker, in times of its own clock."""

    state: BreakerState = BreakerState.CLOSED
    open_until: MonotonicInstant | None = None
    """The time from which a call may be the probe; None unless open."""
    probe: Permit | None = None
    """The probe, while it has no report."""
    generation: int = 0
    sub_windows: tuple[SubWindow, ...] = ()
    """The oldest first."""

    def shifted(self, by: Span) -> BreakerSnapshot:
        """Return the same state for a clock that is ahead by so much: every process has its own
        monotonic clock."""
        open_until, probe = self.open_until, self.probe
        if open_until is not None:
            open_until = later(open_until, by)

        if probe is not None:
            probe = evolve(probe, granted_at=later(probe.granted_at, by))

        return evolve(
            self,
            open_until=open_until,
            probe=probe,
            sub_windows=tuple(
                evolve(sub_window, began_at=later(sub_window.began_at, by))
                for sub_window in self.sub_windows
            ),
        )

    def clamped(self, settings: BreakerSettings, *, now: MonotonicInstant) -> BreakerSnapshot:
        """Return the same state without times that are impossible at `now`: after a clock was set
        back, a breaker must not stay open for longer than `open_for`."""
        open_until = self.open_until
        if open_until is not None:
            open_until = min(open_until, later(now, settings.open_for))

        return evolve(
            self,
            open_until=open_until,
            sub_windows=tuple(
                evolve(sub_window, began_at=min(sub_window.began_at, now))
                for sub_window in self.sub_windows
            ),
        )

    def must_be_stored_after(self, stored: BreakerSnapshot) -> bool:
        """Tell whether a successor must continue from this state rather than from the one that is
        `stored`: it must, unless only successes have been added since to the newest sub-window, of
        which one outcome is stored. So a store is not written for each success, and who dies takes
        at most the successes of six seconds with it, never a failure or a change of state."""
        return self._without_newest_successes() != stored._without_newest_successes()

    def _without_newest_successes(self) -> tuple[object, ...]:
        """Return all of the state but the successes of the newest sub-window; this is compared for
        each callback."""
        earlier, newest = self.sub_windows[:-1], self.sub_windows[-1:]
        failures = [(began.began_at, began.failures) for began in newest]
        return self.state, self.open_until, self.probe, self.generation, earlier, failures


# The figures of the specification.
DEFAULT_BREAKER_SETTINGS = BreakerSettings()

# The state of a breaker that never had a call.
INITIAL_SNAPSHOT = BreakerSnapshot()


class CircuitBreaker:
    """Holds one merchant's breaker, independent of every other merchant's."""

    def __init__(
        self,
        settings: BreakerSettings = DEFAULT_BREAKER_SETTINGS,
        *,
        restored: BreakerSnapshot = INITIAL_SNAPSHOT,
    ) -> None:
        """Continue from the state `restored`. The holders of its permits are gone and will not
        report, so its probe fails at its deadline or, where permits have none, counts as
        abandoned."""
        self._settings = settings
        self._state = restored.state
        self._open_until = restored.open_until
        self._generation = restored.generation
        self._sub_windows = deque(restored.sub_windows)
        # By number, in the order of their grants: the first one is overdue first.
        self._unreported: dict[int, Permit] = {}
        self._last_number = 0
        self._probe: Permit | None = None
        # Without a deadline a probe whose holder is gone would keep the breaker half-open for ever.
        if settings.permit_deadline is not None and restored.probe is not None:
            self._probe = restored.probe
            self._unreported[self._probe.number] = self._probe

    @property
    def state(self) -> BreakerState:
        """Return the state after the last call: an open breaker stays open until the first request
        after its end."""
        return self._state

    def request_permit(self, now: MonotonicInstant) -> Permit | None:
        """Return a permit for one call, or None while open and while the probe has no report. A
        rejected request is not counted."""
        self._fail_overdue(now)
        if self._state is BreakerState.OPEN:
            assert self._open_until is not None
            if now < self._open_until:
                return None

            self._change_state(BreakerState.HALF_OPEN)

        # One probe at a time: a receiver that is down gets no second call.
        if self._state is BreakerState.HALF_OPEN and self._probe is not None:
            return None

        self._last_number += 1
        permit = Permit(self._last_number, self._generation, now)
        self._unreported[permit.number] = permit
        if self._state is BreakerState.HALF_OPEN:
            self._probe = permit

        return permit

    def record(self, permit: Permit, *, succeeded: bool, now: MonotonicInstant) -> None:
        """Report the outcome of a call. After the permit's deadline, and the second time, this does
        nothing."""
        self._fail_overdue(now)
        # Once reported, or overdue, a permit counts no second time.
        if self._unreported.pop(permit.number, None) is not None:
            self._count(permit, succeeded, now)

    def abandon(self, permit: Permit, *, now: MonotonicInstant) -> None:
        """Give back a permit without an outcome: it counts as neither, and the next call may be the
        probe in its place."""
        self._fail_overdue(now)
        # The probe made no call, so nothing is known of the receiver: the next call finds out.
        if self._unreported.pop(permit.number, None) is not None and permit == self._probe:
            self._probe = None

    def outcome_counts(self, now: MonotonicInstant) -> OutcomeCounts:
        """Return the outcomes within the window; a read begins a sub-window as an outcome does."""
        self._fail_overdue(now)
        self._roll_window(now)
        return self._count_outcomes()

    def snapshot(self) -> BreakerSnapshot:
        """Return the state from which a successor continues; this changes nothing."""
        return BreakerSnapshot(
            self._state, self._open_until, self._probe, self._generation, tuple(self._sub_windows)
        )

    def _fail_overdue(self, now: MonotonicInstant) -> None:
        """Count permits past their deadline as failed at that deadline. The permits are in the
        order of their grants, which is that of their deadlines."""
        deadline = self._settings.permit_deadline
        while deadline is not None and self._unreported:
            permit = next(iter(self._unreported.values()))
            if now < permit.granted_at + deadline:
                break
            del self._unreported[permit.number]
            self._count(permit, succeeded=False, now=later(permit.granted_at, deadline))

    def _count(self, permit: Permit, succeeded: bool, now: MonotonicInstant) -> None:
        # A slow call from before the opening says nothing of the receiver as it is now.
        if self._state is BreakerState.HALF_OPEN and permit.generation != self._generation:
            return

        self._roll_window(now)
        # Records are frozen, as a snapshot may hold this one: it is replaced.
        newest = self._sub_windows.pop()
        successes, failures = newest.successes + succeeded, newest.failures + (not succeeded)
        self._sub_windows.append(SubWindow(newest.began_at, successes, failures))
        match self._state:
            # Only a failure is a reason to look: so a success never opens it (K5).
            case BreakerState.CLOSED if not succeeded and self._is_failing():
                self._open(now)
            case BreakerState.HALF_OPEN if succeeded:
                self._change_state(BreakerState.CLOSED)
                # The failures that opened it would open it again at the next one.
                self._sub_windows.clear()
            case BreakerState.HALF_OPEN:
                self._open(now)
            case _:
                pass

    def _roll_window(self, now: MonotonicInstant) -> None:
        """Drop old sub-windows, and ensure that there is one for now."""
        windows, window = self._sub_windows, self._settings.window
        # A sub-window goes as a whole, so an outcome counts for 54 to 60 seconds.
        while windows and now - windows[0].began_at >= window:
            windows.popleft()
        if not windows or now - windows[-1].began_at >= window // SUB_WINDOWS:
            windows.append(SubWindow(now))

    def _count_outcomes(self) -> OutcomeCounts:
        return OutcomeCounts(
            sum(sub_window.successes for sub_window in self._sub_windows),
            sum(sub_window.failures for sub_window in self._sub_windows),
        )

    def _is_failing(self) -> bool:
        health = self._count_outcomes()
        return (
            # Few outcomes are chance: one of two failing would be half.
            health.total >= self._settings.minimum_requests
            and health.failures / health.total >= self._settings.failure_ratio
        )

    def _open(self, now: MonotonicInstant) -> None:
        self._change_state(BreakerState.OPEN)
        self._open_until = later(now, self._settings.open_for)

    def _change_state(self, state: BreakerState) -> None:
        self._state = state
        # Reports of permits from before are told by it.
        self._generation += 1
        self._probe = None
        self._open_until = None
