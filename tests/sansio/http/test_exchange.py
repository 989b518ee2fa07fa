"""What a delivery is recorded as (K2): any 2xx in time is delivered, everything else has failed."""

from __future__ import annotations

import pytest

from mmo_sansio.http.exchange import (
    Answered,
    Attempt,
    DeliveryOutcome,
    Failure,
    Unanswered,
    classify,
    stopped_by_breaker,
)

URL = "https://merchant.example/cb"


@pytest.mark.spec("K2", "K4")
@pytest.mark.parametrize("status", range(200, 600))
def test_an_answer_counts_by_its_status_alone(status: int) -> None:
    outcome = DeliveryOutcome.DELIVERED if status < 300 else DeliveryOutcome.NON_2XX
    for complete in (True, False):
        answered = Answered(status, ((b"retry-after", b"1"),), b"body", complete, duration_ms=7)
        assert classify(answered, url=URL) == Attempt(
            outcome, URL, status, 7, f"The receiver answered {status}.", b"body"
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
    unanswered = Unanswered(failure, "The network is gone.", may_have_arrived=True, duration_ms=9)
    assert classify(unanswered, url=URL) == Attempt(outcome, URL, None, 9, "The network is gone.")


@pytest.mark.spec("K5")
def test_what_the_breaker_stops_is_recorded_as_such() -> None:
    attempt = stopped_by_breaker(URL)
    assert (attempt.outcome, attempt.url) == (DeliveryOutcome.BREAKER_OPEN, URL)
    assert (attempt.status, attempt.duration_ms, attempt.body) == (None, 0, b"")
