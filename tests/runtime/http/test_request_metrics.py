"""The log of rejections: enough to find each, no text of the client, and a limit for floods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict
from trio.testing import MockClock

from mmo_sansio.values.problems import (
    DUPLICATE_REFERENCE,
    INTERNAL,
    UNAVAILABLE,
    FieldError,
    validation_problem,
)
from mmo_trio.http.handler import RequestContext
from mmo_trio.http.request_metrics import LINES_BURST, HttpMetrics

PRIVATE = "Ada-254700000007"


def a_context() -> RequestContext:
    return RequestContext("abc-01", "127.0.0.1", False, route="direct/payin", brand="acme")


@pytest.fixture
def lines() -> Iterator[list[EventDict]]:
    """The lines of the log, as they are written."""
    with capture_logs() as captured:
        yield captured


async def test_a_rejection_is_logged_without_the_clients_text(lines: list[EventDict]) -> None:
    metrics = HttpMetrics()
    faults = [
        FieldError("payer.msisdn", f"'payer.msisdn' {PRIVATE}."),
        FieldError(f"labels.{PRIVATE}", f"'labels.{PRIVATE}' must be a string."),
    ]
    metrics.count_problem(a_context(), validation_problem(faults))
    metrics.count_problem(
        a_context(), DUPLICATE_REFERENCE.problem(f"The merchantReference {PRIVATE}.")
    )
    metrics.count_problem(a_context(), UNAVAILABLE.problem("Later."))
    first, second, _ = lines
    assert [line["log_level"] for line in lines] == ["info", "info", "warning"]
    assert {line["event"] for line in lines} == {"request_rejected"}
    assert (first["request_id"], first["route"], first["brand"]) == (
        "abc-01",
        "direct/payin",
        "acme",
    )
    assert (first["status"], first["problem"]) == (400, "validation_failed")
    assert first["fields"] == ["payer.msisdn", "labels"]
    assert second["problem"] == "merchant_transactionid_duplicate"
    assert PRIVATE not in str(lines)
    assert dict(metrics.problems) == {
        "validation_failed": 1,
        "merchant_transactionid_duplicate": 1,
        "service_unavailable": 1,
    }


async def test_a_flood_of_rejections_is_counted_and_not_logged_one_by_one(
    lines: list[EventDict], mock_clock: MockClock
) -> None:
    metrics = HttpMetrics()
    refusal = DUPLICATE_REFERENCE.problem("The merchantReference is known.")
    for _ in range(LINES_BURST + 50):
        metrics.count_problem(a_context(), refusal)
    assert len(lines) == LINES_BURST
    assert metrics.problems["merchant_transactionid_duplicate"] == LINES_BURST + 50
    metrics.count_problem(a_context(), INTERNAL.problem("Sorry."), "builtins.ValueError")
    assert lines[-1]["fault"] == "builtins.ValueError", "faults have room of their own"
    mock_clock.jump(1)
    metrics.count_problem(a_context(), refusal)
    assert lines[-1]["suppressed"] == 50


async def test_while_the_store_fails_one_line_a_second_tells_of_the_rejections(
    lines: list[EventDict], mock_clock: MockClock
) -> None:
    metrics = HttpMetrics()
    for second in range(1, 4):
        for _ in range(1_000):
            metrics.count_problem(a_context(), UNAVAILABLE.problem("Later."))
        assert len(lines) == second
        mock_clock.jump(1)
    assert lines[-1]["suppressed"] == 999


async def test_without_rejections_faults_are_still_logged(lines: list[EventDict]) -> None:
    quiet = HttpMetrics(log_rejections=False)
    quiet.count_problem(a_context(), UNAVAILABLE.problem("Later."))
    assert not lines
    quiet.count_problem(a_context(), INTERNAL.problem("Sorry."), "builtins.ValueError")
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("request_failed", "error")
    assert line["request_id"] == "abc-01"
