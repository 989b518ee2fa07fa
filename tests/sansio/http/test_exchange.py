"""What a delivery is recorded as (K2): any 2xx in time is delivered, everything else has failed."""

from __future__ import annotations

import pytest

from mmo_sansio.http.exchange import (
    DeliveryAttempt,
    DeliveryOutcome,
    ExchangeFailure,
    NoResponseReceived,
    ResponseReceived,
    breaker_open_attempt,
    to_attempt,
)
from mmo_sansio.http.response_reader import FinalResponseHead

URL = "https://merchant.example/cb"


@pytest.mark.spec("K2", "K4")
@pytest.mark.parametrize("status", range(200, 600))
def test_an_answer_counts_by_its_status_alone(status: int) -> None:
    outcome = DeliveryOutcome.DELIVERED if status < 300 else DeliveryOutcome.NON_2XX
    for complete in (True, False):
        head = FinalResponseHead(
            status, b"HTTP/1.1 %d Any\r\nRetry-After: 1\r\n\r\n" % status, b"", 4
        )
        answered = ResponseReceived(head, b"body", complete, duration_ms=7)
        assert (answered.status, answered.headers) == (status, ((b"retry-after", b"1"),))
        assert to_attempt(answered, url=URL) == DeliveryAttempt(
            outcome, URL, status, 7, f"The receiver answered {status}.", b"body"
        )


@pytest.mark.spec("K2", "K7")
@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (ExchangeFailure.FORBIDDEN, DeliveryOutcome.EGRESS_REFUSED),
        (ExchangeFailure.TIMEOUT, DeliveryOutcome.TIMEOUT),
        (ExchangeFailure.TRANSPORT, DeliveryOutcome.TRANSPORT_ERROR),
    ],
)
def test_no_answer_counts_by_its_cause(failure: ExchangeFailure, outcome: DeliveryOutcome) -> None:
    unanswered = NoResponseReceived(
        failure, "The network is gone.", may_have_arrived=True, duration_ms=9
    )
    assert to_attempt(unanswered, url=URL) == DeliveryAttempt(
        outcome, URL, None, 9, "The network is gone."
    )


@pytest.mark.spec("K5")
def test_what_the_breaker_stops_is_recorded_as_such() -> None:
    attempt = breaker_open_attempt(URL)
    assert (attempt.outcome, attempt.url) == (DeliveryOutcome.BREAKER_OPEN, URL)
    assert (attempt.status, attempt.duration_ms, attempt.body) == (None, 0, b"")
