"""What a door tells of a refusal: enough to find it, never what is the client's; and of a flood only so much."""

from __future__ import annotations

import logging

import pytest
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


async def test_a_refusal_is_told_without_what_is_the_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
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
    first, second, third = caplog.records
    assert [each.levelname for each in caplog.records] == ["INFO", "INFO", "WARNING"]
    told = vars(first)
    assert (told["request_id"], told["route"], told["brand"]) == ("abc-01", "direct/payin", "acme")
    assert (told["status"], told["problem"]) == (400, "validation_failed")
    assert told["fields"] == ["payer.msisdn", "labels"]
    assert vars(second)["problem"] == "merchant_transactionid_duplicate"
    assert PRIVATE not in "".join(str(vars(each)) for each in (first, second, third))
    assert dict(traffic.problems) == {
        "validation_failed": 1,
        "merchant_transactionid_duplicate": 1,
        "service_unavailable": 1,
    }


async def test_a_flood_of_refusals_is_counted_and_not_told_one_by_one(
    caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    traffic = HttpMetrics()
    refusal = UNAVAILABLE.problem("Later.")
    for _ in range(LINES_BURST + 50):
        traffic.count_problem(a_context(), refusal)
    assert len(caplog.records) == LINES_BURST
    assert traffic.problems["service_unavailable"] == LINES_BURST + 50
    traffic.count_problem(a_context(), INTERNAL.problem("Sorry."), "builtins.ValueError")
    assert "builtins.ValueError" in caplog.records[-1].message, "faults have room of their own"
    mock_clock.jump(1)
    traffic.count_problem(a_context(), refusal)
    assert vars(caplog.records[-1])["untold"] == 50


def test_a_budget_fills_up_again_and_no_further() -> None:
    budget = LogRateLimit(per_second=2, burst=2, tokens=2)
    assert [budget.acquire(0), budget.acquire(0), budget.acquire(0)] == [0, 0, None]
    assert [budget.acquire(0.5), budget.acquire(0.5)] == [1, None]
    assert [budget.acquire(100), budget.acquire(100), budget.acquire(100)] == [1, 0, None]


async def test_who_tells_no_refusals_tells_faults(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    quiet = HttpMetrics(log_refusals=False)
    quiet.count_problem(a_context(), UNAVAILABLE.problem("Later."))
    assert not caplog.records
    quiet.count_problem(a_context(), INTERNAL.problem("Sorry."), "builtins.ValueError")
    (line,) = caplog.records
    assert (line.levelname, "abc-01" in line.message) == ("ERROR", True)
