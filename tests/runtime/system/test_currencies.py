"""The core's table of currencies is the published one."""

from __future__ import annotations

import pytest
from iso4217 import Currency

from mmo_sansio.values.money import CURRENCIES


@pytest.mark.spec("M1")
def test_the_table_is_that_of_iso_4217() -> None:
    published = {
        each.code: (each.exponent, each.number) for each in Currency if each.exponent is not None
    }
    assert dict(CURRENCIES) == published
