"""Finds when a month or a day begins and ends in a time zone."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from attrs import frozen

from mmo_sansio.values.clock import Instant, from_datetime

# ASCII digits only: `\d` takes those of every script.
_MONTH: Final = re.compile(r"(\d{4})-(\d\d)", re.ASCII)


class CalendarError(ValueError):
    """Raised for text that names no month or time zone; the message is a sentence that says what to
    write."""


@frozen
class Month:
    """Is a month in a time zone."""

    begin: Instant
    end: Instant
    """The first moment after it."""
    zone: tzinfo


def calendar_month(text: str, zone: tzinfo) -> Month:
    """Return when a month, such as `2026-11`, begins and ends. Raises CalendarError."""
    match = _MONTH.fullmatch(text)
    year = 0
    month = 0
    if match is not None:
        year, month = int(match[1]), int(match[2])

    # The month after the last one of 9999 has no beginning.
    if not (1 <= year <= 9998 and 1 <= month <= 12):
        raise CalendarError(f"{text!r} is no month. Write year and month, such as 2026-11.")
    first = date(year, month, 1)
    # December is followed by January of the next year: 12 // 12 is 1, and 12 % 12 is 0.
    next_first = date(year + month // 12, month % 12 + 1, 1)
    return Month(_midnight(first, zone), _midnight(next_first, zone), zone)


def day_bounds(day: date, zone: tzinfo) -> tuple[Instant, Instant]:
    """Return when a day begins and ends: after 23 or 25 hours where the clocks change."""
    return _midnight(day, zone), _midnight(day + timedelta(days=1), zone)


def _midnight(day: date, zone: tzinfo) -> Instant:
    """Return the first moment of a day. Where the clocks go forward at midnight it is that moment,
    as a time that is skipped has the offset from before (PEP 495)."""
    return from_datetime(datetime(day.year, day.month, day.day, tzinfo=zone))
