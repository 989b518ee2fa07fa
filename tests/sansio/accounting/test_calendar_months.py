"""A month begins with the first moment of its first day, also where the clocks change then."""

from __future__ import annotations

from datetime import date
from zoneinfo import ZoneInfo

import pytest

from mmo_sansio.accounting.calendar_months import CalendarError, calendar_month, day_bounds
from mmo_sansio.values.clock import HOUR, format_with_seconds


@pytest.mark.parametrize(
    ("month", "zone", "begin", "end"),
    [
        ("2026-11", "UTC", "2026-11-01T00:00:00", "2026-12-01T00:00:00"),
        ("2026-11", "Africa/Nairobi", "2026-10-31T21:00:00", "2026-11-30T21:00:00"),
        ("2026-12", "Africa/Lagos", "2026-11-30T23:00:00", "2026-12-31T23:00:00"),
        # The clocks change within the month.
        ("2026-03", "Europe/Paris", "2026-02-28T23:00:00", "2026-03-31T22:00:00"),
        ("2028-02", "Asia/Kathmandu", "2028-01-31T18:15:00", "2028-02-29T18:15:00"),
        # They go forward at the month's first midnight, which is skipped.
        ("2017-10", "America/Asuncion", "2017-10-01T04:00:00", "2017-11-01T03:00:00"),
    ],
)
def test_a_month_has_the_bounds_of_its_zone(month: str, zone: str, begin: str, end: str) -> None:
    period = calendar_month(month, ZoneInfo(zone))
    assert format_with_seconds(period.begin) == f"{begin}+00:00"
    assert format_with_seconds(period.end) == f"{end}+00:00"


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        (date(2026, 4, 23), 24),
        (date(2026, 4, 24), 23),  # Cairo's clocks go forward at midnight, which is skipped.
        (date(2026, 10, 29), 25),  # They go back from midnight to eleven of the same day.
        (date(2026, 10, 30), 24),
    ],
)
def test_a_day_is_as_long_as_its_clocks_say(day: date, hours: int) -> None:
    begin, end = day_bounds(day, ZoneInfo("Africa/Cairo"))
    assert end - begin == hours * HOUR


@pytest.mark.parametrize("month", ["2026-00", "2026-13", "26-11", "2026-1", "0000-01", "9999-12"])
def test_what_is_no_month_is_refused_with_what_to_write(month: str) -> None:
    with pytest.raises(CalendarError, match="such as 2026-11"):
        calendar_month(month, ZoneInfo("UTC"))
