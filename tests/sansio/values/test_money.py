"""Amounts are exact decimals, counted in the currency's own minor units (M1, G6)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.values.money import (
    AMOUNT_MAX,
    CURRENCIES,
    AmountError,
    Money,
    check_amount,
    decimals_of,
    parse_number,
    percentage_of,
    sum_by_currency,
    to_money,
    written_money,
)


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("currency", "decimals"),
    [
        ("KES", 2),
        ("EUR", 2),
        ("UGX", 0),
        ("XOF", 0),
        ("JPY", 0),
        ("KWD", 3),
        ("BHD", 3),
        ("CLF", 4),
    ],
)
def test_a_currency_has_the_decimals_of_iso_4217(currency: str, decimals: int) -> None:
    assert decimals_of(currency) == decimals


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("number", "currency", "minor"),
    [
        ("100", "KES", 10_000),
        ("100.0", "KES", 10_000),
        ("100.00", "KES", 10_000),
        ("1e2", "KES", 10_000),
        ("1E+2", "KES", 10_000),
        ("100.500000", "KES", 10_050),
        ("0.01", "KES", 1),
        ("1e-2", "KES", 1),
        ("100.000", "UGX", 100),
        ("0.001", "KWD", 1),
        ("1e15", "UGX", 10**15),
        ("1000000000000000.00", "KES", 10**17),
    ],
)
def test_an_amount_is_counted_by_value(number: str, currency: str, minor: int) -> None:
    assert to_money(check_amount(parse_number(number)), currency) == Money(minor, currency)


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("number", "currency"),
    [("100.5", "UGX"), ("0.001", "KES"), ("1e-3", "KES"), ("10.505", "EUR"), ("1.2345", "KWD")],
)
def test_an_amount_with_more_decimals_is_never_rounded(number: str, currency: str) -> None:
    with pytest.raises(AmountError, match=r"decimals|whole number"):
        to_money(parse_number(number), currency)


@pytest.mark.spec("M1", "G7")
@pytest.mark.parametrize(
    "number",
    [
        "1e400",
        "1e1000000000",
        "1e-100",
        "9" * 41,
        "1." + "0" * 39,
        "",
        "1.",
        "٣",
        "1_0",
        "0x1",
        "NaN",
    ],
)
def test_text_that_is_no_reasonable_number_is_not_converted(number: str) -> None:
    with pytest.raises(AmountError):
        parse_number(number)


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "number", ["0", "-0", "0.00", "0e9", "-1", "1000000000000000.01", "1e16", "1e99"]
)
def test_an_amount_is_above_zero_and_at_most_ten_to_the_fifteenth(number: str) -> None:
    with pytest.raises(AmountError):
        check_amount(parse_number(number))


@pytest.mark.spec("G6", "M1")
@given(st.integers(1, 10**17), st.sampled_from(sorted(CURRENCIES)))
def test_what_is_printed_is_read_as_the_same_amount(minor: int, currency: str) -> None:
    amount = Money(minor, currency)
    printed = amount.text
    whole, _, decimals = printed.partition(".")
    assert whole.isdigit()
    assert len(decimals) == decimals_of(currency)
    assert to_money(parse_number(printed), currency) == amount


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [("150", "KES", 15_000), ("150.5", "KES", 15_050), ("25000", "XOF", 25_000)],
)
def test_an_amount_that_people_write_has_a_point_before_decimals_only(
    text: str, currency: str, minor: int
) -> None:
    assert written_money(text, currency) == Money(minor, currency)


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("25.000", "XOF"),
        ("1.500", "KES"),
        ("1.0", "UGX"),
        ("1.5000", "KWD"),
        ("1e3", "KES"),
        ("-1", "KES"),
        ("0", "KES"),
        ("1,500", "KES"),
    ],
)
def test_a_point_that_may_part_thousands_is_refused(text: str, currency: str) -> None:
    with pytest.raises(AmountError):
        written_money(text, currency)


@pytest.mark.spec("M1")
@given(
    st.decimals(0, AMOUNT_MAX, places=4, allow_nan=False, allow_infinity=False),
    st.sampled_from(["KES", "UGX", "KWD"]),
)
def test_an_amount_is_taken_exactly_or_not_at_all(value: Decimal, currency: str) -> None:
    scaled = value * 10 ** decimals_of(currency)
    if scaled == int(scaled):
        assert to_money(value, currency).minor == scaled
    else:
        with pytest.raises(AmountError):
            to_money(value, currency)


def test_the_sandbox_takes_one_percent_rounded_half_up_and_at_least_one_minor_unit() -> None:
    fees = {1: 1, 49: 1, 149: 1, 150: 2, 10_049: 100, 10_050: 101}
    assert {minor: percentage_of(Money(minor, "KES"), 1).minor for minor in fees} == fees


def test_amounts_are_summed_in_each_currency_and_never_over_currencies() -> None:
    amounts = [Money(5, "UGX"), Money(150_00, "KES"), Money(7, "UGX")]
    assert sum_by_currency(amounts) == (Money(150_00, "KES"), Money(12, "UGX"))
    assert sum_by_currency([]) == ()
