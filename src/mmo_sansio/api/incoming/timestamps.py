"""Parses ISO 8601 as merchants write it in a query string (R1). It is narrower than `datetime.fromisoformat`, which
takes week dates and overflows at the years 1 and 9999."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from mmo_sansio.values.clock import FIRST_INSTANT, HOUR, LAST_INSTANT, MINUTE, Instant, from_datetime

TIMESTAMP_MAX: Final = 64
"""Characters of the longest timestamp that is parsed."""

_TIMESTAMP: Final = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)"
    r"(?:[Tt](\d\d)(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?"
    r"(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
_SPACE_FOR_PLUS: Final = re.compile(r" (?=\d\d(?::?\d\d)?\Z)", re.ASCII)


def restore_plus(text: str) -> str:
    """Return the text with the `+` of its offset, which arrives as a space when it was not encoded (R1)."""
    return _SPACE_FOR_PLUS.sub("+", text)


def parse_timestamp(text: str) -> Instant:
    """Return the instant of a calendar date or date-time, extended or basic, with an offset, `Z` or neither, which
    means UTC.

    Digits beyond the microsecond are cut. Instants beyond the years 1 to 9999 become the first or last one there is.
    Raises ValueError for all else."""
    return parse_exact_timestamp(text)[0]


def parse_exact_timestamp(text: str) -> tuple[Instant, str]:
    """Return the same, and the digits beyond the microsecond without zeros at the end: such pairs are ordered as the
    times are. Raises ValueError."""
    if len(text) > TIMESTAMP_MAX:
        raise ValueError("too long")
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("not ISO 8601")
    year, _, month, day, hour, _, minute, second, fraction, sign, hours, minutes = match.groups()
    date = (int(year), int(month), int(day))
    time = (int(hour or 0), int(minute or 0), int(second or 0))
    moment = datetime(*date, *time, int((fraction or "0")[:6].ljust(6, "0")), tzinfo=UTC)
    offset = _parse_offset(hours or "0", minutes or "0")
    instant = from_datetime(moment) + (offset if sign == "-" else -offset)
    return Instant(max(FIRST_INSTANT, min(LAST_INSTANT, instant))), (fraction or "")[6:].rstrip("0")


def _parse_offset(hours: str, minutes: str) -> int:
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError("no offset from UTC")
    return int(hours) * HOUR + int(minutes) * MINUTE
