"""Amounts are written for people in one way, and no digit is lost on the way (G6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.values.money import CURRENCIES, Money
from mmo_sansio.values.number_format import (
    ENGLISH_NUMBERS,
    NumberFormat,
    format_amount,
    format_amounts_in,
    format_count,
)

ARABIC_DIGITS = NumberFormat("٬", "٫", is_currency_first=False, digits="٠١٢٣٤٥٦٧٨٩")


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        (Money(245_000, "KES"), "KES 2,450.00"),
        (Money(5, "KES"), "KES 0.05"),
        (Money(0, "KES"), "KES 0.00"),
        (Money(5_000_000, "UGX"), "UGX 5,000,000"),
        (Money(1_234_567, "KWD"), "KWD 1,234.567"),
        (Money(-12_345, "KES"), "KES -123.45"),
        (Money(-5, "KES"), "KES -0.05"),
    ],
)
def test_an_amount_has_its_currency_first_and_thousands_apart(amount: Money, written: str) -> None:
    assert format_amount(amount) == written


@pytest.mark.spec("G6")
@given(minor=st.integers(-(10**17), 10**17), currency=st.sampled_from(sorted(CURRENCIES)))
def test_no_digit_is_lost(minor: int, currency: str) -> None:
    amount = Money(minor, currency)
    for numbers in (ENGLISH_NUMBERS, ARABIC_DIGITS):
        written = format_amount(amount, numbers)
        digits = "".join(
            str(numbers.digits.index(each)) for each in written if each in numbers.digits
        )
        assert digits == amount.text.replace(".", "").removeprefix("-")
        assert ("-" in written) == (minor < 0)


@given(minor=st.integers(-(10**17), 10**17), currency=st.sampled_from(sorted(CURRENCIES)))
def test_an_amount_in_a_sentence_is_written_the_same(minor: int, currency: str) -> None:
    amount = Money(minor, currency)
    assert (
        format_amounts_in(f"It paid {amount}, and ended.")
        == f"It paid {format_amount(amount)}, and ended."
    )


@pytest.mark.parametrize(
    "text",
    [
        "order 4711 KES",
        "12.5 KES",
        "1.500.00 KES",
        "a1500.00 KES",
        "1,500.00 KES",
        "1500.00 KESX",
        "7.00 ABC",
    ],
)
def test_what_is_no_amount_stays(text: str) -> None:
    assert format_amounts_in(text) == text


def test_counts_are_grouped() -> None:
    assert [format_count(each) for each in (7, 4081, 1_000_000)] == ["7", "4,081", "1,000,000"]
    assert format_count(4081, ARABIC_DIGITS) == "٤٬٠٨١"
