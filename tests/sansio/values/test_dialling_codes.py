"""Numbers as people write them, with and without the country."""

from __future__ import annotations

import pytest

from mmo_sansio.values.dialling_codes import DIALLING_CODES, is_msisdn_of, possible_msisdns

KENYAN = "254700000180"


@pytest.mark.parametrize("written", ["0700000180", "700000180", KENYAN])
def test_a_national_number_stands_for_one_of_the_countries_in_use(written: str) -> None:
    assert KENYAN in possible_msisdns(written, ["KE", "UG", "KE"])


@pytest.mark.parametrize(
    ("written", "country", "msisdn"),
    [
        ("0708123456", "CI", "2250708123456"),
        ("002250708123456", "CI", "2250708123456"),
        ("0197123456", "BJ", "2290197123456"),
        ("061234567", "CG", "242061234567"),
        ("06031234", "GA", "24106031234"),
        ("08021234567", "NG", "2348021234567"),
        ("01001234567", "EG", "201001234567"),
        ("01812345678", "BD", "8801812345678"),
        ("03012345678", "PK", "923012345678"),
        ("09123456789", "IN", "919123456789"),
        ("09051234567", "PH", "639051234567"),
        ("0700000180", "KE", "254700000180"),
    ],
)
def test_a_national_number_is_found_whether_or_not_its_zero_belongs_to_it(
    written: str, country: str, msisdn: str
) -> None:
    assert msisdn in possible_msisdns(written, [country, "UG"])


@pytest.mark.parametrize("country", DIALLING_CODES)
def test_a_number_is_found_in_each_notation_wherever_there_is_mobile_money(country: str) -> None:
    code = DIALLING_CODES[country]
    nationals = [
        first + "1234567890123"[: length - len(first)]
        for length in range(6, 14)
        for first in ("7", "07")
        if is_msisdn_of(country, code + "7" * length)
    ]
    assert nationals
    for national in nationals:
        # A zero in front is dialled at home, unless the number itself begins with one.
        at_home = national if national.startswith("0") else f"0{national}"
        for written in (f"00{code}{national}", code + national, national, at_home):
            assert code + national in possible_msisdns(written, [country, "KE"])


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
