"""How much time of a simulated world passes at once."""

from __future__ import annotations

import math

import pytest

from tests.simulation.world.schedule import REST_STEP_MAX_S, WAIT_STEP_S, WorldSchedule
from tests.simulation.world.trace import SimulationTrace


def rest_of(
    now: float,
    *,
    work_at: float = math.inf,
    has_traffic: bool = False,
    expected: float | None = None,
) -> float:
    """Return the length of a step that begins now, where something has happened last at 100 and a
    timer ends soon."""
    trace = SimulationTrace()
    trace.last_at = 100.0
    schedule = WorldSchedule(trace, lambda: has_traffic, lambda: work_at, rest_step_s=600.0)
    if expected is not None:
        schedule.expect(expected)
    return schedule.rest_until(now, now + 0.3) - now


@pytest.mark.parametrize(
    ("now", "work_at", "step_s"),
    [
        (100.5, math.inf, WAIT_STEP_S),
        (102.0, 0.0, WAIT_STEP_S),
        (105.0, 0.0, 5.0),
        (140.0, 0.0, 40.0),
        (10_000.0, 0.0, 600.0),
        (102.0, 3_000.0, 2_898.0),
        (102.0, math.inf, REST_STEP_MAX_S),
    ],
    ids=[
        "just_after_an_event",
        "after_a_short_rest",
        "open_work",
        "longer",
        "at_most_what_the_plan_says",
        "until_a_wake",
        "no_work",
    ],
)
def test_steps_grow_while_work_is_open_and_else_last_until_there_is_some(
    now: float, work_at: float, step_s: float
) -> None:
    assert rest_of(now, work_at=work_at) == pytest.approx(step_s)


def test_an_expected_moment_is_not_passed_over() -> None:
    assert rest_of(102.0, expected=150.0) == pytest.approx(48.0)


def test_an_open_connection_keeps_steps_short() -> None:
    assert rest_of(1_000.0, has_traffic=True) == pytest.approx(WAIT_STEP_S)
