"""Numbers as people write them, with and without the country."""

from __future__ import annotations

import pytest

from mmo_sansio.values.dialling_codes import possible_msisdns

KENYAN = "254700000180"


@pytest.mark.parametrize("written", ["0700000180", "700000180", KENYAN])
def test_a_national_number_stands_for_one_of_the_countries_in_use(written: str) -> None:
    assert KENYAN in possible_msisdns(written, ["KE", "UG", "KE"])


def test_a_long_number_stands_for_itself_only() -> None:
    assert possible_msisdns(KENYAN, ["KE", "UG"]) == [KENYAN]
    assert possible_msisdns("0700000180", ["XX"]) == ["0700000180"]
