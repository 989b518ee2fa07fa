"""A time zone is found by its name, and nothing else is read by it."""

from __future__ import annotations

import pytest

from mmo_sansio.accounting.calendar_months import CalendarError
from mmo_trio.system.time_zones import find_zone


@pytest.mark.parametrize(
    "name", ["", "Nairobi", "../../etc/passwd", "Africa", "/etc/localtime", "\0", "x" * 300]
)
def test_what_is_no_zone_is_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(CalendarError, match="such as Africa/Nairobi"):
        find_zone(name)


def test_a_zone_is_known_by_its_name() -> None:
    assert str(find_zone("Africa/Nairobi")) == "Africa/Nairobi"
