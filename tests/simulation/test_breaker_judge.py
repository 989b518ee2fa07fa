"""The judge of breakers tells what one breaker permits from what it does not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from tests.simulation.breaker_judge import BreakerComparison
from tests.simulation.world.commits import StoredCallback

FAILED = DeliveryOutcome.NON_2XX
TAKEN = DeliveryOutcome.DELIVERED
HELD = DeliveryOutcome.BREAKER_OPEN
OPENED = tuple((at_s, FAILED) for at_s in (10.0, 11.0, 12.0, 13.0, 14.0))
"""Five failures in a window: the breaker is open for thirty seconds."""


def stored(
    at_s: float, outcome: DeliveryOutcome, *, name: str = "payment", duration_ms: int = 0
) -> StoredCallback:
    attempt = DeliveryAttempt(outcome, "https://shop.example", duration_ms=duration_ms)
    return StoredCallback(at_s, name, "shop-0", attempt)


def first_difference(
    outcomes: Sequence[tuple[float, DeliveryOutcome]], *, until_s: float = math.inf
) -> str | None:
    callbacks = [
        stored(at_s, outcome, name=f"payment-{nth}") for nth, (at_s, outcome) in enumerate(outcomes)
    ]
    return BreakerComparison((), until_s).first_difference(callbacks)


@pytest.mark.parametrize(
    "outcomes",
    [
        pytest.param(
            [*OPENED, (20.0, HELD), (43.0, HELD), (60.0, TAKEN), (61.0, TAKEN)],
            id="opens and closes",
        ),
        pytest.param(
            [*OPENED, (60.0, FAILED), (70.0, HELD), (100.0, TAKEN)],
            id="opens again after its probe",
        ),
        pytest.param(
            [*OPENED[:4], (100.0, FAILED), (101.0, TAKEN)], id="forgets what left its window"
        ),
        pytest.param([*OPENED, (15.0, TAKEN)], id="sent about when it opened"),
    ],
)
def test_what_one_breaker_permits_is_right(
    outcomes: Sequence[tuple[float, DeliveryOutcome]],
) -> None:
    assert first_difference(outcomes) is None


def test_a_callback_that_was_held_back_as_the_probe_began_is_right() -> None:
    """The probe's beginning is known from its end and its duration, so only about."""
    callbacks = [
        *itertools.starmap(stored, OPENED),
        stored(60.0, HELD),
        stored(68.0, FAILED, name="probe", duration_ms=7_990),
    ]
    assert BreakerComparison(()).first_difference(callbacks) is None


def test_a_breaker_whose_window_may_have_lost_old_successes_may_hold_a_callback_back() -> None:
    """Outcomes leave the window by tenths. Here a success is 60 s old, two are 58 s old, and two
    fewer: with the last two and three failures the breaker opens. It would not with fewer
    successes, as five outcomes are needed, nor with more."""
    taken = [(at_s, TAKEN) for at_s in (70.674, 72.154, 72.820, 77.146, 81.781)]
    failed = [(at_s, FAILED) for at_s in (116.809, 116.832, 130.564)]
    assert first_difference([*taken, *failed, (130.627, HELD), (138.199, HELD)]) is None


def test_a_callback_that_was_held_back_by_a_probe_that_ended_after_the_records_is_right() -> None:
    """A process is killed, so records end: those of attempts that were in progress come later or
    never."""
    assert first_difference([*OPENED, (60.0, HELD)], until_s=61.0) is None


def test_a_callback_that_was_held_back_by_no_breaker_long_before_the_records_end_is_found() -> None:
    assert first_difference([*OPENED, (60.0, HELD)], until_s=90.0) is not None


@pytest.mark.parametrize(
    ("outcomes", "payment"),
    [
        pytest.param(
            [*OPENED, (30.0, FAILED)], "payment-5 was sent", id="a new breaker in another process"
        ),
        pytest.param(
            [(10.0, TAKEN), (30.0, HELD)], "payment-1 was held back", id="held back while closed"
        ),
        pytest.param(
            [*OPENED, (60.0, TAKEN), (70.0, HELD)],
            "payment-6 was held back",
            id="held back after it closed",
        ),
    ],
)
def test_what_no_breaker_permits_is_found(
    outcomes: Sequence[tuple[float, DeliveryOutcome]], payment: str
) -> None:
    found = first_difference(outcomes)
    assert found is not None
    assert found.startswith(payment)
