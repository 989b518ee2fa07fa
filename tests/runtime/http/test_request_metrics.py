"""What a door tells of a refusal: enough to find it, never what is the client's; and of a flood only so much."""

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
from mmo_trio.http.request_metrics import LINES_BURST, HttpMetrics, LogRateLimit

PRIVATE = "Ada-254700000007"


def a_context() -> RequestContext:
    return RequestContext("abc-01", "127.0.0.1", False, route="direct/payin", brand="acme")


@pytest.fixture
def lines() -> Iterator[list[EventDict]]:
    """The lines of the log, as they are written."""
    with capture_logs() as captured:
        yield captured


async def test_a_refusal_is_told_without_what_is_the_clients(lines: list[EventDict]) -> None:
    traffic = HttpMetrics()
    faults = [
        FieldError("payer.msisdn", f"'payer.msisdn' {PRIVATE}."),
        FieldError(f"labels.{PRIVATE}", f"'labels.{PRIVATE}' must be a string."),
    ]
    traffic.count_problem(a_context(), validation_problem(faults))
    traffic.count_problem(
        a_context(), DUPLICATE_REFERENCE.problem(f"The merchantReference {PRIVATE}.")
    )
    traffic.count_problem(a_context(), UNAVAILABLE.problem("Later."))
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
    assert dict(traffic.problems) == {
        "validation_failed": 1,
        "merchant_transactionid_duplicate": 1,
        "service_unavailable": 1,
    }


async def test_a_flood_of_refusals_is_counted_and_not_told_one_by_one(
    lines: list[EventDict], mock_clock: MockClock
) -> None:
    traffic = HttpMetrics()
    refusal = UNAVAILABLE.problem("Later.")
    for _ in range(LINES_BURST + 50):
        traffic.count_problem(a_context(), refusal)
    assert len(lines) == LINES_BURST
    assert traffic.problems["service_unavailable"] == LINES_BURST + 50
    traffic.count_problem(a_context(), INTERNAL.problem("Sorry."), "builtins.ValueError")
    assert lines[-1]["fault"] == "builtins.ValueError", "faults have room of their own"
    mock_clock.jump(1)
    traffic.count_problem(a_context(), refusal)
    assert lines[-1]["suppressed"] == 50


def test_a_budget_fills_up_again_and_no_further() -> None:
    budget = LogRateLimit(per_second=2, burst=2, tokens=2)
    assert [budget.acquire(0), budget.acquire(0), budget.acquire(0)] == [0, 0, None]
    assert [budget.acquire(0.5), budget.acquire(0.5)] == [1, None]
    assert [budget.acquire(100), budget.acquire(100), budget.acquire(100)] == [1, 0, None]


async def test_who_tells_no_refusals_tells_faults(lines: list[EventDict]) -> None:
    quiet = HttpMetrics(log_rejections=False)
    quiet.count_problem(a_context(), UNAVAILABLE.problem("Later."))
    assert not lines
    quiet.count_problem(a_context(), INTERNAL.problem("Sorry."), "builtins.ValueError")
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("request_failed", "error")
    assert line["request_id"] == "abc-01"
