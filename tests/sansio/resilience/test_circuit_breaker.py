"""The callback breaker, row by row of its table, and what the table leaves unsaid (K5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import define, field

from mmo_sansio.resilience.circuit_breaker import (
    BreakerSettings,
    BreakerSnapshot,
    BreakerState,
    CircuitBreaker,
    OutcomeCounts,
    Permit,
)
from mmo_sansio.values.clock import HOUR, SECOND, MonotonicInstant, Span, later

ROWS = {
    1: "F@0,1,2,3; closed",
    2: "F@0,1,2,3,4; open until 34",
    3: "S@0,1; F@2,3,4; open until 34",
    4: "S@0,1,2; F@3,4; closed",
    5: "S@0,1,2; F@3,4; closed; F@5; open until 35",
    6: "F@0,1,2; S@3,4; closed; F@5; open until 35",
    7: "F@0,1,2,3; S@4; closed",
    8: "S@0; F@1,2,3; closed; F@4; open until 34",
    9: "S@0,.1,.2,.3,.4,.5,.6,.7,.8,.9; F@1,1.1,1.2,1.3,1.4,1.5,1.6,1.7,1.8; closed;F@1.9; open "
    "until 31.9",
    10: "F@0,1,2,3,59.9; open until 89.9",
    11: "F@0,1,2,3,60; closed",
    14: "F@0,12,24,36; closed; F@48; open until 78",
    15: "F@0,15,30,45,60; closed; F@75; closed; F@90; closed",
    17: "F@0,1,2,3,4; refused@33.999; S@34; closed",
    19: "F@0,1,2,3,4; try@34; half-open; refused@34.1,34.2; lateS@40; closed; try@40",
    21: "try@1,1; F@0,1,2,3,4; lateS@5,6; open until 34; refused@33.9; try@34; half-open",
    23: "F@0,1,2,3,4; refused@10,10,10,10,10; S@34; closed; health@34=0",
    28: "F@0,1,2,3,4; try@34; refused@48.999; refused@64; open until 79; try@94; half-open;"
    "try@3600; half-open; refused@3600",
}
"""Rows 29 and 30, about two clocks and two merchants, have tests of their own."""


@define
class Story:
    """A breaker, and those who call, in seconds."""

    breaker: CircuitBreaker = field(factory=CircuitBreaker)
    held: list[Permit] = field(factory=list)

    def tell(self, script: str) -> None:
        """Steps between semicolons: `S`/`F` a call that succeeds/fails; `refused` one that isn't
        let through; `try` one that is and hasn't ended; `lateS`/`lateF` the end of the oldest of
        those; or what the breaker then must be."""
        for step in script.replace("\n", " ").split(";"):
            self._step(step.strip())

    def _step(self, step: str) -> None:
        what, _, times = step.partition("@")
        if step in ("closed", "half-open"):
            assert self.breaker.state == step.replace("-", "_")
        elif step.startswith("open until "):
            snapshot = self.breaker.snapshot()
            assert snapshot.state is BreakerState.OPEN
            assert snapshot.open_until == at(step.removeprefix("open until "))
        elif what == "health":
            moment, _, outcomes = times.partition("=")
            assert self.breaker.outcome_counts(at(moment)).total == int(outcomes)
        else:
            for moment in times.split(","):
                ACTS[what](self, at(moment))

    def admitted(self, now: MonotonicInstant) -> Permit:
        permit = self.breaker.request_permit(now)
        assert permit is not None, f"refused at {now}"
        return permit

    def succeed(self, now: MonotonicInstant) -> None:
        self.breaker.record(self.admitted(now), succeeded=True, now=now)

    def fail(self, now: MonotonicInstant) -> None:
        self.breaker.record(self.admitted(now), succeeded=False, now=now)

    def be_refused(self, now: MonotonicInstant) -> None:
        assert self.breaker.request_permit(now) is None

    def begin(self, now: MonotonicInstant) -> None:
        self.held.append(self.admitted(now))

    def succeed_late(self, now: MonotonicInstant) -> None:
        self.breaker.record(self.held.pop(0), succeeded=True, now=now)

    def fail_late(self, now: MonotonicInstant) -> None:
        self.breaker.record(self.held.pop(0), succeeded=False, now=now)


ACTS: dict[str, Callable[[Story, MonotonicInstant], None]] = {
    "S": Story.succeed,
    "F": Story.fail,
    "refused": Story.be_refused,
    "try": Story.begin,
    "lateS": Story.succeed_late,
    "lateF": Story.fail_late,
}


def at(seconds: str) -> MonotonicInstant:
    return MonotonicInstant(round(float(seconds) * SECOND))


def told(script: str) -> Story:
    story = Story()
    story.tell(script)
    return story


@pytest.mark.spec("K5")
@pytest.mark.parametrize("script", ROWS.values(), ids=map(str, ROWS))
def test_row(script: str) -> None:
    told(script)


@pytest.mark.spec("K5")
@pytest.mark.parametrize("row", [29])
def test_the_wall_clock_has_no_say(row: int) -> None:
    wall, monotonic = 10 * HOUR, MonotonicInstant(0)
    story = told("F@0,1,2,3,4; open until 34")
    wall, monotonic = wall - HOUR, later(monotonic, Span(34 * SECOND))
    assert wall < 10 * HOUR
    assert story.breaker.request_permit(monotonic) is not None


@pytest.mark.spec("K5")
@pytest.mark.parametrize("row", [30])
def test_each_merchant_has_a_breaker_of_its_own(row: int) -> None:
    mine, other = Story(), Story()
    mine.tell("F@0,1,2,3,4; open until 34; refused@5")
    other.tell("closed; S@5; health@5=1")


@pytest.mark.spec("K5")
def test_the_figures_are_the_specification_s() -> None:
    settings = BreakerSettings()
    assert settings.window == 60 * SECOND
    assert settings.minimum_requests == 5
    assert settings.failure_ratio == 0.5
    assert settings.open_for == 30 * SECOND
    assert settings.permit_deadline == 15 * SECOND


@pytest.mark.spec("K5")
def test_a_sub_window_lasts_six_seconds_and_goes_as_a_whole() -> None:
    told("S@0,5.999999; health@59.999999=2; health@60=0")
    told("S@0,6; health@59.999999=2; health@60=1; health@65.999999=1; health@66=0")


@pytest.mark.spec("K5")
def test_a_read_begins_a_sub_window_too() -> None:
    told("health@0=0; S@5; health@59=1; health@60=0")


@pytest.mark.spec("K5")
def test_opening_keeps_the_counts_and_late_outcomes_add_to_them() -> None:
    story = told("try@0,0; F@0,1,2,3,4; lateS@5; lateF@6; open until 34")
    assert story.breaker.outcome_counts(MonotonicInstant(7 * SECOND)) == OutcomeCounts(
        successes=1, failures=6
    )


@pytest.mark.spec("K5")
def test_a_failing_probe_opens_for_another_30_s_from_its_report() -> None:
    told("F@0,1,2,3,4; try@34; lateF@40; open until 70; refused@69.999; try@70; half-open")


@pytest.mark.spec("K5")
def test_a_foreign_outcome_while_half_open_is_ignored() -> None:
    story = Story(CircuitBreaker(BreakerSettings(permit_deadline=None)))
    story.tell("try@0,0; F@0,1,2,3,4; try@34; lateS@35; half-open; lateF@36; half-open; lateS@37")
    story.tell("closed; health@37=0")


@pytest.mark.spec("K5")
def test_a_permit_that_never_reports_has_failed_after_15_s() -> None:
    story = told("try@0,1,2,3,4; closed; health@18.999=4; closed; health@19=5; open until 49")
    story.tell("lateS@20; open until 49; health@20=5")


@pytest.mark.spec("K5")
def test_an_outcome_reported_twice_counts_once() -> None:
    story = Story()
    permit = story.admitted(MonotonicInstant(0))
    for _ in range(5):
        story.breaker.record(permit, succeeded=False, now=MonotonicInstant(0))
    story.tell("closed; health@0=1")


@pytest.mark.spec("K5")
def test_an_abandoned_call_counts_as_neither() -> None:
    story = Story()
    for _ in range(5):
        story.breaker.abandon(story.admitted(MonotonicInstant(0)), now=MonotonicInstant(0))
    story.tell("closed; health@20=0")


@pytest.mark.spec("K5")
def test_an_abandoned_probe_leaves_its_place_to_the_next_call() -> None:
    story = told("F@0,1,2,3,4")
    story.breaker.abandon(
        story.admitted(MonotonicInstant(34 * SECOND)), now=MonotonicInstant(35 * SECOND)
    )
    story.tell("half-open; try@35; refused@35; lateS@36; closed")


@pytest.mark.spec("K5")
def test_a_call_abandoned_too_late_doesn_t_free_another_one_s_place() -> None:
    story = Story(CircuitBreaker(BreakerSettings(permit_deadline=None)))
    early = story.admitted(MonotonicInstant(0))
    story.tell("F@0,1,2,3,4; try@34")
    story.breaker.abandon(early, now=MonotonicInstant(35 * SECOND))
    story.tell("refused@35")


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("F@0,1,2,3", "closed; F@4; open until 34"),
        ("F@0,1,2,3,4", "open until 34; refused@33.9; S@34; closed"),
        ("F@0,1,2,3,4; try@34", "half-open; refused@48.9; health@49=6; open until 79"),
        ("F@0,1,2,3,4; S@34", "closed; F@35,36,37,38; closed; F@39; open until 69"),
    ],
    ids=["closed", "open", "half open", "closed again"],
)
def test_a_successor_goes_on_where_the_breaker_was(before: str, after: str) -> None:
    restored = CircuitBreaker(restored=told(before).breaker.snapshot())
    Story(restored).tell(after)


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("stored", "since", "must_be_stored"),
    [
        ("", "S@0", True),
        ("S@0", "S@1,2,5.9", False),
        ("S@0", "S@1,6", True),
        ("S@0", "F@1", True),
        ("S@0; F@1", "S@2,3", False),
        ("F@0,1,2,3,4", "S@34", True),
        ("F@0,1,2,3,4; try@34", "lateF@35", True),
        ("S@0", "S@61", True),
    ],
)
def test_only_the_successes_of_the_newest_sub_window_need_not_be_stored(
    stored: str, since: str, must_be_stored: bool
) -> None:
    before = told(stored).breaker.snapshot() if stored else BreakerSnapshot()
    after = told(f"{stored}; {since}" if stored else since).breaker.snapshot()
    assert after.must_be_stored_after(before) is must_be_stored
    assert not after.must_be_stored_after(after)


@pytest.mark.spec("K5")
def test_a_successor_with_another_monotonic_clock_shifts_the_times() -> None:
    snapshot = told("F@0,1,2,3,4").breaker.snapshot().shifted(Span(100 * SECOND))
    Story(CircuitBreaker(restored=snapshot)).tell(
        "open until 134; refused@133.9; try@134; half-open"
    )
    failing = told("F@0,1,2,3").breaker.snapshot().shifted(Span(100 * SECOND))
    Story(CircuitBreaker(restored=failing)).tell("closed; F@104; open until 134")
    probing = told("F@0,1,2,3,4; try@34").breaker.snapshot().shifted(Span(100 * SECOND))
    Story(CircuitBreaker(restored=probing)).tell("refused@148.9; refused@149; open until 179")


@pytest.mark.spec("K5")
def test_a_probe_without_a_deadline_is_abandoned_when_its_holder_is_gone() -> None:
    lasting = BreakerSettings(permit_deadline=None)
    snapshot = told("F@0,1,2,3,4; try@34").breaker.snapshot()
    Story(CircuitBreaker(lasting, restored=snapshot)).tell("half-open; try@35; refused@35")


@pytest.mark.spec("K5")
def test_looking_at_a_breaker_changes_nothing() -> None:
    breaker = CircuitBreaker()
    assert breaker.snapshot() == BreakerSnapshot()
    assert breaker.snapshot() == BreakerSnapshot()


@pytest.mark.spec("K5")
def test_outcomes_within_six_seconds_go_together_whenever_the_first_was() -> None:
    told("S@10,10,10,10; F@15,15,15; closed; F@70; closed; F@70.1; closed")


@pytest.mark.spec("K5")
def test_a_call_from_between_two_openings_is_foreign_to_the_second_probe() -> None:
    story = Story(CircuitBreaker(BreakerSettings(permit_deadline=None)))
    story.tell("F@0,1,2,3,4; S@34; closed; try@34.5; F@35,36,37,38,39; try@69; half-open")
    story.tell("lateS@70; half-open; lateS@71; closed")
