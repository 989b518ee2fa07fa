"""What a delivery is recorded as (K2): any 2xx in time is delivered, everything else has failed."""

from __future__ import annotations

import pytest

from mmo_sansio.delivery import Answered, Attempt, DeliveryOutcome, Failure, Unanswered, classify


@pytest.mark.spec("K2", "K4")
@pytest.mark.parametrize("status", range(200, 600))
def test_an_answer_counts_by_its_status_alone(status: int) -> None:
    outcome = DeliveryOutcome.DELIVERED if status < 300 else DeliveryOutcome.NON_2XX
    for complete in (True, False):
        answered = Answered(status, ((b"retry-after", b"1"),), b"body", complete, took=7)
        assert classify(answered) == Attempt(
            outcome, status, f"The receiver answered {status}.", b"body", 7
        )


@pytest.mark.spec("K2", "K7")
@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (Failure.REFUSED, DeliveryOutcome.EGRESS_REFUSED),
        (Failure.TIMEOUT, DeliveryOutcome.TIMEOUT),
        (Failure.TRANSPORT, DeliveryOutcome.TRANSPORT_ERROR),
    ],
)
def test_no_answer_counts_by_its_cause(failure: Failure, outcome: DeliveryOutcome) -> None:
    unanswered = Unanswered(failure, "The network is gone.", sent=True, took=9)
    assert classify(unanswered) == Attempt(outcome, None, "The network is gone.", took=9)


def test_the_outcomes_have_the_names_that_the_sandbox_shows() -> None:
    assert {str(outcome) for outcome in DeliveryOutcome} == {
        "delivered",
        "non_2xx",
        "timeout",
        "transport_error",
        "egress_refused",
        "breaker_open",
    }
