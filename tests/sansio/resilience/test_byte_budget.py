"""Tokens of many sizes: the bytes that each merchant may have stored."""

from __future__ import annotations

from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, MonotonicInstant, Span, later

START = MonotonicInstant(-5)


def hourly_budget(size_bytes: int) -> TokenBucket:
    return TokenBucket(size_bytes * SECOND / HOUR, burst=size_bytes)


def test_a_brand_has_its_bytes_at_once_and_again_within_an_hour() -> None:
    budget = hourly_budget(6_000)
    assert [budget.take(START, 2_000) for _ in range(4)] == [0, 0, 0, 20 * MINUTE]
    ten_minutes = later(START, Span(10 * MINUTE))
    assert budget.take(ten_minutes, 1_000) == 0
    assert budget.take(ten_minutes, 1) > 0
    assert budget.take(later(ten_minutes, HOUR), 6_000) == 0


def test_what_was_refused_costs_nothing() -> None:
    budget = hourly_budget(1_000)
    assert budget.take(START, 1_001) > 0
    assert budget.take(START, 1_000) == 0


def test_no_bytes_are_saved_up_beyond_an_hour() -> None:
    budget = hourly_budget(1_000)
    assert budget.take(START, 1_000) == 0
    much_later = later(START, Span(100 * HOUR))
    assert budget.take(much_later, 1_000) == 0
    assert budget.take(much_later, 1) > 0
