"""The judge of breakers tells what one breaker permits from what it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_trio.testing.world_commits import StoredCallback
from tests.simulation.breaker_judge import WINDOW_S, BreakerComparison

FAILED = DeliveryOutcome.NON_2XX
TAKEN = DeliveryOutcome.DELIVERED
HELD = DeliveryOutcome.BREAKER_OPEN
OPENED = tuple((at_s, FAILED) for at_s in (10.0, 11.0, 12.0, 13.0, 14.0))
"""Five failures in a window: the breaker is open for thirty seconds."""


def first_difference(outcomes: Sequence[tuple[float, DeliveryOutcome]]) -> str | None:
    stored = [
        StoredCallback(at_s, f"payment-{nth}", "shop-0", DeliveryAttempt(outcome, "https://shop.example"))
        for nth, (at_s, outcome) in enumerate(outcomes)
    ]
    return BreakerComparison((), WINDOW_S).first_difference(stored)


@pytest.mark.parametrize(
    "outcomes",
    [
        pytest.param([*OPENED, (20.0, HELD), (43.0, HELD), (60.0, TAKEN), (61.0, TAKEN)], id="opens and closes"),
        pytest.param([*OPENED, (60.0, FAILED), (70.0, HELD), (100.0, TAKEN)], id="opens again after its probe"),
        pytest.param([*OPENED[:4], (100.0, FAILED), (101.0, TAKEN)], id="forgets what left its window"),
        pytest.param([*OPENED, (15.0, TAKEN)], id="sent about when it opened"),
    ],
)
def test_what_one_breaker_permits_is_right(outcomes: Sequence[tuple[float, DeliveryOutcome]]) -> None:
    assert first_difference(outcomes) is None


def test_a_callback_that_was_held_back_as_the_probe_began_is_right() -> None:
    """The probe's beginning is known from its end and its duration, so only about."""
    opened = [
        StoredCallback(at_s, "payment", "shop-0", DeliveryAttempt(outcome, "https://shop.example"))
        for at_s, outcome in OPENED
    ]
    held = StoredCallback(60.0, "held", "shop-0", DeliveryAttempt(HELD, "https://shop.example"))
    probe = StoredCallback(68.0, "probe", "shop-0", DeliveryAttempt(FAILED, "https://shop.example", None, 7_990))
    assert BreakerComparison((), WINDOW_S).first_difference([*opened, held, probe]) is None


@pytest.mark.parametrize(
    ("outcomes", "payment"),
    [
        pytest.param([*OPENED, (30.0, FAILED)], "payment-5 was sent", id="a new breaker in another process"),
        pytest.param([(10.0, TAKEN), (30.0, HELD)], "payment-1 was held back", id="held back while closed"),
        pytest.param([*OPENED, (60.0, TAKEN), (70.0, HELD)], "payment-6 was held back", id="held back after it closed"),
    ],
)
def test_what_no_breaker_permits_is_found(outcomes: Sequence[tuple[float, DeliveryOutcome]], payment: str) -> None:
    found = first_difference(outcomes)
    assert found is not None
    assert found.startswith(payment)
