"""How a float is forecast from its last balances, and when it is low."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.providers.common.balances import (
    AccountBalance,
    FloatForecast,
    FloatWatch,
    forecast_floats,
    parse_balance,
)
from mmo_sansio.testing import START
from mmo_sansio.values.clock import HOUR, MINUTE, Span, later
from mmo_sansio.values.money import Money

MINIMUM = FloatWatch(minimums=(Money(100_00, "KES"),), hours=0)


def balances(
    *units: int, minutes: int = 60, account: str = "disbursement", is_float: bool = True
) -> list[AccountBalance]:
    """One after the other, so many minutes apart."""
    return [
        AccountBalance(
            "mtn",
            account,
            Money(each * 100, "KES"),
            later(START, Span(number * minutes * MINUTE)),
            is_float,
        )
        for number, each in enumerate(units)
    ]


def forecast(*units: int, minutes: int = 60) -> FloatForecast:
    [found] = forecast_floats(balances(*units, minutes=minutes))
    return found


@pytest.mark.parametrize(
    ("units", "hours_left"),
    [
        ((1000, 900, 800), 8.0),
        ((1000, 900, 5900), 118.0),  # What was put in is no rate.
        ((800, 900, 1000), None),
        ((500,), None),
        ((100, 0), 0.0),
        ((100, -50), 0.0),
    ],
)
def test_a_float_lasts_at_the_rate_of_what_was_spent(
    units: tuple[int, ...], hours_left: float | None
) -> None:
    assert forecast(*units).hours_left == hours_left


def test_one_pay_out_just_after_the_first_balance_is_no_rate() -> None:
    assert forecast(1000, 900, minutes=1).hours_left == 4.5


def test_each_account_has_a_forecast_of_its_own() -> None:
    history = [*balances(100, 50, account="a"), *balances(7, 7, account="b")]
    assert [(each.latest.account, each.hours_left) for each in forecast_floats(history)] == [
        ("a", 1.0),
        ("b", None),
    ]


@pytest.mark.parametrize(("units", "low"), [(100, False), (99, True)])
def test_less_than_the_minimum_of_its_currency_is_low(units: int, low: bool) -> None:
    assert forecast(units).is_low(MINIMUM, was_low=False) is low
    assert not forecast(units).is_low(
        FloatWatch(minimums=(Money(10**9, "UGX"),), hours=0), was_low=False
    )


@pytest.mark.parametrize(("hours", "low"), [(8, False), (9, True), (0, False)])
def test_one_that_lasts_for_too_few_hours_is_low(hours: int, low: bool) -> None:
    assert forecast(1000, 900, 800).is_low(FloatWatch(hours=hours), was_low=False) is low


@pytest.mark.parametrize(("units", "low"), [(101, True), (124, True), (125, False)])
def test_a_low_float_must_be_well_above_its_threshold_again(units: int, low: bool) -> None:
    assert forecast(units).is_low(MINIMUM, was_low=True) is low


def test_an_account_that_pays_nothing_out_is_never_low() -> None:
    [found] = forecast_floats(balances(2, 1, is_float=False))
    assert not found.is_low(FloatWatch(minimums=(Money(100_00, "KES"),)), was_low=True)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20), st.integers(1, 90))
def test_no_history_has_a_negative_forecast(units: list[int], minutes: int) -> None:
    left = forecast(*units, minutes=minutes).hours_left
    assert left is None or left >= 0


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("1,234,567.89", "KES", 123_456_789),
        ("2000", "UGX", 2000),
        ("2000.75", "UGX", 2000),
        ("-3.10", "KES", -310),
    ],
)
def test_a_balance_is_read_as_operators_write_it(text: str, currency: str, minor: int) -> None:
    assert parse_balance(text, currency) == Money(minor, currency)


@pytest.mark.parametrize(
    ("value", "currency"),
    [
        (None, "KES"),
        ("1", None),
        ("1", "XYZ"),
        ("", "KES"),
        ("1e20", "KES"),
        ("1500,00", "KES"),
        ("1.500,00", "KES"),
        ("15,00.00", "KES"),
        (7, "KES"),
        ("NaN", "KES"),
        ("1", []),
    ],
)
def test_what_is_no_balance_is_refused(value: object, currency: object) -> None:
    with pytest.raises(ValueError):
        parse_balance(value, currency)


def test_a_window_is_hours_long() -> None:
    assert forecast(*range(1000, 994, -1), minutes=10).hours_left == 995 / (
        5 / (50 * MINUTE / HOUR)
    )
