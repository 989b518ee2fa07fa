"""An amount in a pay-roll is read in one way, or is a fault of its line."""

from __future__ import annotations

import io

import pytest

from mmo_merchant.payroll.pay_roll import Layout, read_pay_roll
from mmo_sansio.values.money import Money


def layout(currency: str) -> Layout:
    constants = {"currency": currency, "country": "KE", "method": "mpesa_ke"}
    return Layout({}, constants, "https://shop.example/results")


@pytest.mark.parametrize(
    ("amount", "currency"),
    [("15.000", "XOF"), ("1.0", "UGX"), ("15.000", "KES"), ("12.500", "MZN"), ("1.5000", "KWD")],
)
def test_more_decimals_than_the_currency_has_are_a_fault(amount: str, currency: str) -> None:
    text = io.StringIO(f"msisdn,amount\n254712345001,{amount}\n")
    lines, (fault,) = read_pay_roll(text, layout(currency))
    assert lines == []
    assert f"line 2, amount: has more decimals than {currency}, which has" in str(fault)


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [("15000", "XOF", 15_000), ("1500.5", "KES", 150_050), ("15.000", "KWD", 15_000)],
)
def test_decimals_of_the_currency_are_read(amount: str, currency: str, minor: int) -> None:
    text = io.StringIO(f"msisdn,amount\n254712345001,{amount}\n")
    (line,), faults = read_pay_roll(text, layout(currency))
    assert faults == []
    assert line.payment.amount == Money(minor, currency)
