"""The bytes that each merchant may have stored."""

from __future__ import annotations

import pytest

from mmo_sansio.resilience.byte_budget import ByteBudget
from mmo_sansio.values.clock import HOUR, MINUTE, MonotonicInstant, Span, later

START = MonotonicInstant(-5)

pytestmark = pytest.mark.finding("security-12")


def test_a_brand_has_its_bytes_at_once_and_again_within_an_hour() -> None:
    budget = ByteBudget(6_000)
    assert [budget.take("acme", 2_000, START) for _ in range(4)] == [True, True, True, False]
    assert budget.take("globex", 6_000, START), "each has its own"
    ten_minutes = later(START, Span(10 * MINUTE))
    assert budget.take("acme", 1_000, ten_minutes)
    assert not budget.take("acme", 1, ten_minutes)
    assert budget.take("acme", 6_000, later(ten_minutes, HOUR))


def test_what_was_refused_costs_nothing() -> None:
    budget = ByteBudget(1_000)
    assert not budget.take("acme", 1_001, START)
    assert budget.take("acme", 1_000, START)


def test_no_bytes_are_saved_up_beyond_an_hour() -> None:
    budget = ByteBudget(1_000)
    assert budget.take("acme", 1_000, START)
    much_later = later(START, Span(100 * HOUR))
    assert budget.take("acme", 1_000, much_later)
    assert not budget.take("acme", 1, much_later)
