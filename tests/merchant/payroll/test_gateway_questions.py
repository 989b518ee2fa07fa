"""A dry run knows what a gateway tells of methods: limits, decimals, and what changes by itself."""

from __future__ import annotations

import pytest

from mmo_merchant.api.extension_objects import BrandMethods, CurrencyLimits, MethodObject
from mmo_merchant.payroll.gateway_questions import judge_lines
from mmo_merchant.payroll.pay_roll import Layout, PayLine, read_pay_roll
from mmo_merchant.tables.faults import describe_faults
from mmo_sansio.values.money import Money

LAYOUT = Layout(
    {}, {"currency": "KES", "country": "KE", "method": "mpesa_ke"}, "https://my.shop/results", "x"
)


def lines_of(*amounts: str) -> list[PayLine]:
    """Lines that pay these amounts to as many people."""
    text = [f"25471234500{nth},{amount}\n" for nth, amount in enumerate(amounts)]
    lines, faults = read_pay_roll(["msisdn,amount\n", *text], LAYOUT)
    assert not faults
    return lines


def brand_with(state: str) -> BrandMethods:
    limits = CurrencyLimits(
        decimals=0,
        minimum=Money(1000, "KES"),
        maximum=Money(15_000_000, "KES"),
        daily={"payout": Money(500_000, "KES")},
    )
    method = MethodObject(
        method="mpesa_ke",
        country="KE",
        title="M-Pesa",
        currencies={"KES": limits},
        operations={"direct/payout": state},
    )
    return BrandMethods("acme", (method,))


def test_an_amount_with_more_decimals_than_the_operator_takes_is_a_fault() -> None:
    answers = judge_lines(lines_of("20.00", "20.50"), brand_with("open"))
    (told,) = describe_faults(answers.faults)
    assert told.startswith("line 3, amount: has more decimals than mpesa_ke takes, which is 0.")
    assert not answers.remarks


@pytest.mark.parametrize(
    ("state", "words"),
    [("held", "pay-outs wait until the operator works"), ("closed", "pay-outs would fail")],
)
def test_a_method_that_is_not_open_is_told_and_no_fault(state: str, words: str) -> None:
    answers = judge_lines(lines_of("20"), brand_with(state))
    (remark,) = answers.remarks
    assert f"mpesa_ke is {state} now" in remark
    assert words in remark
    assert not answers.faults


def test_a_file_with_more_than_a_day_allows_is_told() -> None:
    answers = judge_lines(lines_of("3000", "2001"), brand_with("open"))
    assert list(answers.remarks) == [
        "mpesa_ke pays at most KES 5,000.00 a day, and the file has KES 5,001.00."
    ]
