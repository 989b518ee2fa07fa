"""The callback breaker against a naive oracle that keeps lists and counts them anew (K5)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.resilience.circuit_breaker import BreakerState, CircuitBreaker, Permit
from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, later

What: TypeAlias = Literal["ask", "succeed", "fail", "abandon", "read"]
Step: TypeAlias = tuple[Span, What, int]
"""After so long, this is done, to that one of the calls that are under way."""

TENTH = SECOND // 10
MARKS = [0, 1, TENTH, SECOND]
for _edge in (6, 15, 30, 45, 54, 60, 75):
    MARKS += [_edge * SECOND - 1, _edge * SECOND, _edge * SECOND + 1]
WAITS = st.sampled_from(MARKS)
WHATS = st.sampled_from(["ask", "ask", "ask", "succeed", "fail", "fail", "fail", "abandon", "read"])
STEPS = st.lists(st.tuples(WAITS, WHATS, st.integers(0, 40)), max_size=80)
BUSY = st.lists(
    st.tuples(st.sampled_from([0, TENTH, SECOND]), WHATS, st.integers(0, 40)), max_size=80
)


@define(eq=False)
class Call:
    """A call that was let through."""

    granted_at: MonotonicInstant
    era: int
    over: bool = False


@define
class Oracle:
    """Section by section what the rules say, with lists, and no thought of speed."""

    state: str = "closed"
    until: MonotonicInstant = MonotonicInstant(0)
    era: int = 0
    calls: list[Call] = field(factory=list)
    touches: list[tuple[MonotonicInstant, str]] = field(factory=list)
    """Outcomes and reads since the last reset."""

    def ask(self, now: MonotonicInstant) -> Call | None:
        self.let_deadlines_pass(now)
        if self.state == "open" and now >= self.until:
            self.state, self.era = "half_open", self.era + 1
        if self.state == "open" or (self.state == "half_open" and self.probes()):
            return None
        self.calls.append(Call(now, self.era))
        return self.calls[-1]

    def probes(self) -> list[Call]:
        return [call for call in self.calls if not call.over and call.era == self.era]

    def end(self, call: Call, outcome: str, now: MonotonicInstant) -> None:
        self.let_deadlines_pass(now)
        self.end_in_time(call, outcome, now)

    def end_in_time(self, call: Call, outcome: str, now: MonotonicInstant) -> None:
        if call.over:
            return
        call.over = True
        if outcome == "abandon" or (self.state == "half_open" and call.era != self.era):
            return
        self.touches.append((now, outcome))
        if self.state == "half_open" and outcome == "succeed":
            self.state, self.era, self.touches = "closed", self.era + 1, []
        elif outcome == "fail" and (self.state == "half_open" or self.must_open(now)):
            self.state, self.era, self.until = "open", self.era + 1, later(now, Span(30 * SECOND))

    def must_open(self, now: MonotonicInstant) -> bool:
        outcomes = self.remembered(now)
        failures = outcomes.count("fail")
        return self.state == "closed" and len(outcomes) >= 5 and 2 * failures >= len(outcomes)

    def remembered(self, now: MonotonicInstant) -> list[str]:
        """Every touch belongs to the sub-window that was the newest then, or began one."""
        remembered, began_at = [], None
        for moment, touch in self.touches:
            if began_at is None or moment >= began_at + 6 * SECOND:
                began_at = moment
            if began_at > now - 60 * SECOND and touch != "read":
                remembered.append(touch)
        return remembered

    def let_deadlines_pass(self, now: MonotonicInstant) -> None:
        for call in [each for each in self.calls if each.granted_at + 15 * SECOND <= now]:
            self.end_in_time(call, "fail", later(call.granted_at, Span(15 * SECOND)))

    def read(self, now: MonotonicInstant) -> tuple[int, int]:
        self.let_deadlines_pass(now)
        self.touches.append((now, "read"))
        outcomes = self.remembered(now)
        return outcomes.count("succeed"), outcomes.count("fail")


@define
class Drive:
    """The same done to the breaker and to its oracle; what they say must be the same."""

    breaker: CircuitBreaker = field(factory=CircuitBreaker)
    oracle: Oracle = field(factory=Oracle)
    under_way: list[tuple[Permit, Call]] = field(factory=list)
    now: MonotonicInstant = MonotonicInstant(0)
    granted: int = 0
    refused: int = 0

    def take(self, step: Step) -> None:
        wait, what, which = step
        self.now = later(self.now, Span(wait))
        if what == "ask":
            self._ask()
        elif what == "read":
            health = self.breaker.outcome_counts(self.now)
            assert (health.successes, health.failures) == self.oracle.read(self.now)
        elif self.under_way:
            self._end(what, *self.under_way.pop(which % len(self.under_way)))
        assert self.breaker.state == self.oracle.state
        if self.breaker.state is BreakerState.OPEN:
            assert self.breaker.snapshot().open_until == self.oracle.until

    def _ask(self) -> None:
        permit, call = (self.breaker.request_permit(self.now), self.oracle.ask(self.now))
        assert (permit is None) == (call is None)
        if permit is not None and call is not None:
            self.under_way.append((permit, call))
            self.granted += 1
        else:
            self.refused += 1

    def _end(self, what: What, permit: Permit, call: Call) -> None:
        if what == "abandon":
            self.breaker.abandon(permit, now=self.now)
        else:
            self.breaker.record(permit, succeeded=what == "succeed", now=self.now)
        self.oracle.end(call, what, self.now)


@pytest.mark.spec("K5")
@given(STEPS | BUSY)
def test_it_does_what_the_oracle_does(steps: list[Step]) -> None:
    drive = Drive()
    for step in steps:
        drive.take(step)
    assert drive.granted + drive.refused == sum(1 for _, what, _ in steps if what == "ask")


@pytest.mark.spec("K5")
@given(STEPS | BUSY)
def test_half_open_has_at_most_one_unreported_permit(steps: list[Step]) -> None:
    drive = Drive()
    for step in steps:
        drive.take(step)
        if drive.breaker.state is BreakerState.HALF_OPEN:
            generation = drive.breaker.snapshot().generation
            probes = [permit for permit, _ in drive.under_way if permit.generation == generation]
            assert len(probes) <= 1


@pytest.mark.spec("K5")
@given(STEPS | BUSY)
def test_nobody_is_let_through_between_opening_and_its_end(steps: list[Step]) -> None:
    drive = Drive()
    for step in steps:
        drive.take(step)
        until = drive.breaker.snapshot().open_until
        if until is not None and drive.now < until:
            assert drive.breaker.request_permit(MonotonicInstant(drive.now)) is None
            assert drive.oracle.ask(drive.now) is None


@pytest.mark.spec("K5")
@given(st.lists(st.booleans(), max_size=4), st.integers(34 * SECOND, 200 * SECOND))
def test_after_closing_fewer_than_five_outcomes_never_open(
    outcomes: list[bool], probed_at: MonotonicInstant
) -> None:
    breaker = CircuitBreaker()
    for now in [0, 1, 2, 3, 4]:
        _call(breaker, succeeded=False, now=MonotonicInstant(now * SECOND))
    _call(breaker, succeeded=True, now=probed_at)
    for succeeded in outcomes:
        _call(breaker, succeeded=succeeded, now=probed_at)
    assert breaker.state is BreakerState.CLOSED


@pytest.mark.spec("K5")
@given(STEPS | BUSY, STEPS | BUSY)
def test_a_successor_decides_as_the_breaker_would_have(
    before: list[Step], after: list[Step]
) -> None:
    first = Drive()
    for step in before:
        first.take(step)
    for permit, call in first.under_way:
        if permit != first.breaker.snapshot().probe:
            first.breaker.abandon(permit, now=MonotonicInstant(first.now))
            first.oracle.end(call, "abandon", first.now)
    successor = Drive(
        CircuitBreaker(restored=first.breaker.snapshot()), oracle=first.oracle, now=first.now
    )
    for step in after:
        successor.take(step)


def _call(breaker: CircuitBreaker, *, succeeded: bool, now: MonotonicInstant) -> None:
    permit = breaker.request_permit(MonotonicInstant(now))
    assert permit is not None
    breaker.record(permit, succeeded=succeeded, now=MonotonicInstant(now))
