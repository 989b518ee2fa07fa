"""The gateway's own time, and the wall time to record: the tables of the clock guard."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.resilience.clock_guard import TOLERANCE, ClockGuard, ClockRecord
from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, later

S = clock.SECOND
BOOTED = MonotonicInstant(17 * S)

# Each look: seconds since the one before by the wall clock, by the boot clock, how far the recorded
# wall time is ahead of the gateway's own time then, and whether the wall clock is trusted.
TABLE = {
    "agreeing": [(1, 1, 0, True), (3_600, 3_600, 0, True)],
    "noise": [(1.04, 1, 0, True), (0.96, 1, 0, True)],
    "slewing within the tolerance": [(6, 1, 5, True), (6, 1, 10, True), (1, 6, 5, True)],
    "a jump of four days": [(345_600, 1, 0, False), (1, 1, 0, False)],
    "a step back of an hour": [(-3_600, 1, 0, False)],
    "just above the tolerance": [(7, 1, 0, False)],
    "accepted after 60 s": [(9, 1, 0, False), (59, 59, 0, False), (1, 1, 8, True)],
    "back before it was accepted": [(100, 1, 0, False), (59, 59, 0, False), (-98, 1, 0, True)],
    "back after it was accepted": [(100, 1, 0, False), (60, 60, 99, True), (-98, 1, 0, True)],
    "another step begins anew": [
        (100, 1, 0, False),
        (59, 59, 0, False),
        (100, 1, 0, False),
        (60, 60, 198, True),
    ],
    "back to what was trusted two steps ago": [
        (101, 1, 0, False),
        (60, 60, 100, True),
        (101, 1, 100, False),
        (60, 60, 200, True),
        (-199, 1, 200, False),
        (60, 60, 0, True),
    ],
    "a sandbox's advance moves both": [(259_200, 259_200, 0, True)],
    "a machine that slept": [(30_000, 30_000, 0, True)],
}


@pytest.mark.spec("S3")
@pytest.mark.parametrize("looks", TABLE.values(), ids=TABLE.keys())
def test_wall_time_follows_the_wall_clock_and_own_time_the_boot_clock(
    looks: list[tuple[float, int, int, bool]],
) -> None:
    wall, monotonic = START, BOOTED
    guard = ClockGuard(wall=wall, monotonic=monotonic)
    for wall_s, monotonic_s, offset_s, trusted in looks:
        wall, monotonic = (
            later(wall, Span(round(wall_s * S))),
            later(monotonic, Span(monotonic_s * S)),
        )
        guard.observe(wall=wall, monotonic=monotonic)
        assert guard.time_ahead == START - BOOTED
        assert abs(guard.utc_offset - offset_s * S) <= 0.05 * S
        assert guard.is_trusted is trusted


def test_each_step_is_reported_once() -> None:
    guard = ClockGuard(wall=START, monotonic=BOOTED)
    reported = [
        guard.observe(
            wall=later(START, Span((second + ahead) * S)), monotonic=later(BOOTED, Span(second * S))
        )
        for second, ahead in [(0, 0), (1, 99), (2, 99), (61, 99), (62, 99), (63, 0), (64, 0)]
    ]
    assert reported == [None, 99 * S, None, None, None, -99 * S, None]


def test_a_step_that_is_taken_back_before_it_was_accepted_is_reported() -> None:
    guard = ClockGuard(wall=START, monotonic=BOOTED)
    assert guard.observe(wall=later(START, clock.HOUR), monotonic=BOOTED) == clock.HOUR
    assert guard.observe(wall=START, monotonic=BOOTED) == -clock.HOUR
    assert guard.observe(wall=START, monotonic=BOOTED) is None


ENDED = ClockRecord(
    "boot-1", MonotonicInstant(500 * S), later(START, Span(7 * S)), later(START, Span(100 * S))
)

# By how many seconds the gateway's own time has passed since the record: boot id, boot clock and
# wall clock at the start of the next process in seconds (the wall clock since the record), and what
# the store's clock measured.
STARTS = {
    "the same machine, whatever its wall clock shows": ("boot-1", 560, 345_600, None, 60),
    "the same machine, and the store's clock says otherwise": ("boot-1", 560, 60, 9, 60),
    "a restarted machine": ("boot-2", 20, 3_600, None, 3_600),
    "a restarted machine with a clock that is behind": ("boot-2", 20, -3_600, None, 0),
    "another machine on a store with a clock": ("boot-2", 20, 345_600, 30, 30),
    "a store whose clock was set back": ("boot-2", 20, 60, -30, 0),
    "a machine without a name that was restarted": ("boot-1", 20, 3_600, None, 3_600),
}


@pytest.mark.spec("S3")
@pytest.mark.parametrize(
    ("boot_id", "boot_s", "wall_s", "age_s", "passed_s"), STARTS.values(), ids=STARTS.keys()
)
def test_the_next_process_continues_own_time(
    boot_id: str, boot_s: int, wall_s: int, age_s: int | None, passed_s: int
) -> None:
    wall, monotonic = later(ENDED.utc, Span(wall_s * S)), MonotonicInstant(boot_s * S)
    guard = ClockGuard(wall=wall, monotonic=monotonic)
    guard.continue_from(
        ENDED,
        boot_id=boot_id,
        monotonic=monotonic,
        down_for=None if age_s is None else Span(age_s * S),
    )
    assert monotonic + guard.time_ahead == ENDED.time + passed_s * S
    assert monotonic + guard.utc_ahead == wall


def test_a_clock_that_returns_to_what_the_earlier_process_trusted_is_trusted_at_once() -> None:
    passed = Span(560 * S - ENDED.monotonic)
    behind, monotonic = later(ENDED.utc, Span(passed - clock.HOUR)), later(ENDED.monotonic, passed)
    guard = ClockGuard(wall=behind, monotonic=monotonic)
    guard.continue_from(ENDED, boot_id="boot-1", monotonic=monotonic)
    assert guard.observe(wall=later(ENDED.utc, passed), monotonic=monotonic) == clock.HOUR
    assert monotonic + guard.utc_ahead == ENDED.utc + passed


@pytest.mark.spec("S3")
@given(
    st.lists(
        st.tuples(
            st.integers(1, 4 * clock.DAY),
            st.one_of(st.just(0), st.integers(-9 * clock.DAY, 9 * clock.DAY)),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_own_time_passes_as_true_time_does_through_any_steps_and_restarts(
    history: list[tuple[int, int, bool]],
) -> None:
    """Each entry: microseconds that pass, how the wall clock steps then, and whether the process is
    restarted."""
    monotonic, wall = BOOTED, START
    guard = ClockGuard(wall=wall, monotonic=monotonic)
    times = [Instant(monotonic + guard.time_ahead)]
    for passes, step, restarts in history:
        monotonic, wall = later(monotonic, Span(passes)), later(wall, Span(passes + step))
        if restarts:
            utc = Instant(monotonic + guard.utc_ahead)
            record = ClockRecord("boot", monotonic, Instant(monotonic + guard.time_ahead), utc)
            guard = ClockGuard(wall=wall, monotonic=monotonic)
            guard.continue_from(record, boot_id="boot", monotonic=monotonic)
        guard.observe(wall=wall, monotonic=monotonic)
        times.append(Instant(monotonic + guard.time_ahead))
    assert [after - before for before, after in pairwise(times)] == [
        passes for passes, _, _ in history
    ]


@pytest.mark.spec("S3")
@given(st.integers(-9 * clock.DAY, 9 * clock.DAY), st.integers(61, 9_999))
def test_wall_time_is_true_within_the_tolerance_as_soon_as_the_wall_clock_is(
    error: int, wrong_for_s: int
) -> None:
    guard = ClockGuard(wall=START, monotonic=BOOTED)
    for second in range(1, wrong_for_s, 30):
        guard.observe(
            wall=later(START, Span(second * S + error)), monotonic=later(BOOTED, Span(second * S))
        )
    passed = Span(wrong_for_s * S)
    guard.observe(wall=later(START, passed), monotonic=later(BOOTED, passed))
    assert abs(BOOTED + guard.utc_ahead - START) <= TOLERANCE
