"""Amounts at their very bounds, and what a merchant is told beyond them (clauses G7, M1)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from mmo_sansio.values.money import (
    AmountError,
    Money,
    check_amount,
    parse_number,
    percentage_of,
    to_money,
)


@pytest.mark.spec("G7")
def test_forty_characters_are_the_longest_number() -> None:
    longest = "0." + "0" * 37 + "1"
    assert len(longest) == 40
    assert parse_number(longest) == Decimal(longest)
    with pytest.raises(AmountError, match=r"^must be a number of at most 40 characters$"):
        parse_number(longest + "0")


@pytest.mark.spec("G7")
@pytest.mark.parametrize("text", ["1e99", "1E+99", "1e-99", "-1e99"])
def test_an_exponent_has_two_digits(text: str) -> None:
    assert parse_number(text) == Decimal(text)
    with pytest.raises(AmountError, match=r"^must be a number between 0 and 10\^15$"):
        parse_number(text.replace("99", "100"))


@pytest.mark.spec("G7")
@pytest.mark.parametrize("text", ["", "1.", ".5", "+1", "0x1", "1_0", "NaN", "1e", "١"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(AmountError, match=r"^must be a decimal number such as 150\.00$"):
        parse_number(text)


@pytest.mark.spec("M1")
def test_an_amount_is_above_zero_and_at_most_ten_to_the_fifteenth() -> None:
    smallest, largest = Decimal("1e-99"), Decimal(10) ** 15
    assert check_amount(smallest) == smallest
    assert check_amount(largest) == largest
    for value in (Decimal(0), Decimal("-0.0"), Decimal(-1)):
        with pytest.raises(AmountError, match=r"^must be greater than 0$"):
            check_amount(value)
    with pytest.raises(AmountError, match=r"^must be at most 1000000000000000 \(10\^15\)$"):
        check_amount(largest + Decimal("0.01"))


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("value", "currency", "minor"),
    [
        ("150", "KES", 15_000),
        ("1e2", "KES", 10_000),
        ("100.500", "KES", 10_050),
        ("0.01", "KES", 1),
        ("-0.01", "KES", -1),
        ("100.0", "UGX", 100),
        ("1.234", "KWD", 1_234),
        ("0", "KES", 0),
    ],
)
def test_minor_units(value: str, currency: str, minor: int) -> None:
    assert to_money(Decimal(value), currency) == Money(minor, currency)


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("value", "currency", "told"),
    [
        ("10.505", "KES", "must have at most 2 decimals in KES"),
        ("1.2345", "KWD", "must have at most 3 decimals in KWD"),
        ("100.5", "UGX", "must be a whole number in UGX"),
    ],
)
def test_too_many_decimals(value: str, currency: str, told: str) -> None:
    with pytest.raises(AmountError, match=f"^{told}$"):
        to_money(Decimal(value), currency)


@pytest.mark.spec("G6")
@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Money(15_000, "KES"), "150.00"),
        (Money(5, "KES"), "0.05"),
        (Money(-5, "KES"), "-0.05"),
        (Money(0, "KES"), "0.00"),
        (Money(7, "UGX"), "7"),
        (Money(1, "KWD"), "0.001"),
        (Money(10**17, "KES"), "1" + "0" * 15 + ".00"),
    ],
    ids=str,
)
def test_an_amount_is_written_with_its_currencys_decimals(amount: Money, text: str) -> None:
    assert amount.text == text
    assert str(amount) == f"{text} {amount.currency}"


@pytest.mark.parametrize(
    ("minor", "percent", "share"),
    [(150, 1, 2), (149, 1, 1), (1, 1, 1), (10_000, 1, 100), (250, 3, 8), (10_050, 2, 201)],
)
def test_a_share_is_rounded_half_up_and_at_least_one(minor: int, percent: int, share: int) -> None:
    assert percentage_of(Money(minor, "KES"), percent) == Money(share, "KES")
