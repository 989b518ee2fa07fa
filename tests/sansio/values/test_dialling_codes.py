"""Numbers as people write them, with and without the country."""

from __future__ import annotations

import pytest

from mmo_sansio.values.dialling_codes import (
    DIALLING_CODES,
    is_msisdn_of,
    possible_msisdns,
)

KENYAN = "254700000180"


@pytest.mark.parametrize("written", ["0700000180", "700000180", KENYAN])
def test_a_national_number_stands_for_one_of_the_countries_in_use(written: str) -> None:
    assert KENYAN in possible_msisdns(written, ["KE", "UG", "KE"])


def test_a_long_number_stands_for_itself_only() -> None:
    assert possible_msisdns(KENYAN, ["KE", "UG"]) == [KENYAN]
    assert possible_msisdns("0700000180", ["XX"]) == ["0700000180"]


def test_every_country_of_the_table_is_known() -> None:
    assert (DIALLING_CODES["KH"], DIALLING_CODES["NA"]) == ("855", "264")


@pytest.mark.parametrize(
    ("country", "msisdn", "is_possible"),
    [
        ("KE", "254712345001", True),
        ("KE", "+254712345001", True),
        ("KE", "25471234500", False),
        ("KE", "2547123450012", False),
        ("KE", "256712345001", False),
        ("KE", "712345001", False),
        ("CI", "2250712345001", True),
        ("GM", "2207123456", True),
        ("XX", "1", True),
    ],
)
def test_a_mobile_number_has_the_code_and_the_length_of_its_country(
    country: str, msisdn: str, is_possible: bool
) -> None:
    assert is_msisdn_of(country, msisdn) is is_possible
