"""A number is read in one notation or refused, and never has more decimals than its currency."""

from __future__ import annotations

from decimal import Decimal

import pytest

from mmo_merchant.tables.faults import CellFault
from mmo_merchant.tables.numbers import Notation, NumberFormat, declared_format, find_format


@pytest.mark.parametrize(
    ("texts", "currency", "values"),
    [
        (["1500.00", "1,500.00", "-3"], "KES", ["1500", "1500", "-3"]),
        (["1500,00", "1.500,00", "+3"], "KES", ["1500", "1500", "3"]),
        (
            ["1 500,5", "1\u202f500", "1\u00a0500\u00a0000,25"],
            "KES",
            ["1500.5", "1500", "1500000.25"],
        ),
        (["1'500.00", "1\u2019500"], "KES", ["1500", "1500"]),
        (["1,500", "1,500,000"], "UGX", ["1500", "1500000"]),
        (["1.500.000", "25.000"], "XOF", ["1500000", "25000"]),
        (["0,50"], "KES", ["0.5"]),
        (["1,500"], "KES", ["1500"]),
    ],
)
def test_a_file_is_read_in_the_notation_that_it_proves(
    texts: list[str], currency: str, values: list[str]
) -> None:
    numbers = find_format(texts)
    assert [numbers.read(each, currency) for each in texts] == list(map(Decimal, values))


@pytest.mark.parametrize(
    ("texts", "currency"),
    [
        (["15,00.00"], "KES"),
        (["1_500.00"], "KES"),
        (["1.5E+3"], "KES"),
        (["1,50,000.00"], "KES"),
        (["25.000"], "XOF"),
        (["1.500"], "KES"),
        (["25000,00"], "XOF"),
        (["1,500"], "KWD"),
        (["1 500'000"], "XOF"),
        (["0,500"], "KES"),
        (["1.500,00", "1,500.00"], "KES"),
        (["(1500.00)"], "KES"),
        (["1500.00-"], "KES"),
        (["KES 1500.00"], "KES"),
        (["NaN"], "KES"),
        (["\u0661\u0662"], "KES"),
        (["1" * 41], "KES"),
        (["1500."], "KES"),
        ([".50"], "KES"),
    ],
)
def test_a_number_that_has_two_readings_or_none_is_refused(texts: list[str], currency: str) -> None:
    numbers = find_format(texts)
    with pytest.raises(CellFault):
        [numbers.read(each, currency) for each in texts]


def test_a_declared_notation_decides() -> None:
    comma, point = declared_format(","), declared_format(".")
    assert comma is not None
    assert point is not None
    assert comma.read("25.000", "XOF") == 25_000
    assert comma.read("1,500", "KWD") == Decimal("1.5")
    assert point.read("1,500", "KWD") == 1_500
    with pytest.raises(CellFault, match="has more decimals than KES"):
        comma.read("1,500", "KES")
    assert declared_format(None) is None


def test_a_number_of_a_sheet_has_no_notation() -> None:
    numbers = NumberFormat(Notation.COMMA)
    assert numbers.read(Decimal("1500.5"), "KES") == Decimal("1500.5")
    with pytest.raises(CellFault, match="has more decimals than UGX"):
        numbers.read(Decimal("1500.5"), "UGX")
