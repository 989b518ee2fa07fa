"""Finds time zones by their names."""

from __future__ import annotations

from datetime import tzinfo
from zoneinfo import ZoneInfo

from mmo_sansio.accounting.calendar_months import CalendarError


def find_zone(name: str) -> tzinfo:
    """Return the time zone of this name of IANA's database. Raises CalendarError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CalendarError(
            f"There is no time zone {name!r} on this machine. Write a name such as Africa/Nairobi; "
            "where even that is not known, install the package tzdata."
        ) from None
