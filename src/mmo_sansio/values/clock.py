"""Defines time as data: moments, spans, the two written forms of a moment (clause G5), and the
forms that merchants may write (R1). Nothing here reads a clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NewType, overload

from attrs import frozen

Instant = NewType("Instant", int)
"""A moment of wall time: microseconds since 1970-01-01T00:00:00Z."""

MonotonicInstant = NewType("MonotonicInstant", int)
"""A moment of a clock that only moves forward: microseconds since an arbitrary zero."""

Span = NewType("Span", int)
"""A length of time in microseconds."""


@frozen
class Moment:
    """When an input is decided, by two clocks that agree unless the machine's wall clock was
    wrong."""

    time: Instant
    """The gateway's own time, by which it is judged what is due, has expired or lies within a
    window. It passes as fast as true time does, whatever happens to the wall clock
    (:mod:`mmo_sansio.resilience.clock_guard`)."""
    utc: Instant
    """The wall time that the clock guard trusts, which is recorded for people to read: `createdAt`,
    `completedAt`, the journal."""

    @classmethod
    def at(cls, now: Moment | Instant) -> Moment:
        """Return the moment at which both clocks show this time, for who has one clock; a moment
        is returned as it is."""
        if isinstance(now, Moment):
            return now
        return cls(now, now)


MICROSECOND = Span(1)
MILLISECOND = Span(1_000)
SECOND = Span(1_000_000)
MINUTE = Span(60 * SECOND)
HOUR = Span(60 * MINUTE)
DAY = Span(24 * HOUR)


@overload
def later(moment: Instant, by: Span) -> Instant: ...
@overload
def later(moment: MonotonicInstant, by: Span) -> MonotonicInstant: ...
def later(moment: int, by: int) -> int:
    """Return the moment of the same clock that comes `by` after this one: `later(start, Span(2 *
    SECOND))`. Type checkers want an Instant or a MonotonicInstant, and a Span."""
    return moment + by


@overload
def earlier(moment: Instant, by: Span) -> Instant: ...
@overload
def earlier(moment: MonotonicInstant, by: Span) -> MonotonicInstant: ...
def earlier(moment: int, by: int) -> int:
    """Return the moment of the same clock that comes `by` before this one."""
    return moment - by


@overload
def elapsed(since: Instant, until: Instant) -> Span: ...
@overload
def elapsed(since: MonotonicInstant, until: MonotonicInstant) -> Span: ...
def elapsed(since: int, until: int) -> int:
    """Return the span between two moments of one clock; negative when `until` comes first."""
    return until - since


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(instant: Instant) -> datetime:
    """Return the instant as an aware UTC datetime; raises OverflowError outside the years 1 to
    9999."""
    # Not `fromtimestamp`, which computes with floats and loses microseconds.
    return EPOCH + timedelta(microseconds=instant)


def from_datetime(value: datetime) -> Instant:
    """Return the instant of an aware datetime, which has no digits beyond the microsecond."""
    return Instant((value - EPOCH) // timedelta(microseconds=1))


FIRST_INSTANT = from_datetime(datetime(1, 1, 1, tzinfo=UTC))
LAST_INSTANT = from_datetime(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))


def format_with_microseconds(instant: Instant) -> str:
    """Write `YYYY-MM-DDThh:mm:ss.ffffffZ`, the form of transaction objects (G5)."""
    second, microseconds = divmod(instant, SECOND)
    return f"{_format_second(second)}.{microseconds:06d}Z"


def format_with_seconds(instant: Instant) -> str:
    """Write `YYYY-MM-DDThh:mm:ss+00:00`, the form of create responses: cut, not rounded (G5,
    T2)."""
    return f"{_format_second(instant // SECOND)}+00:00"


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    """Write `YYYY-MM-DDThh:mm:ss`, with a cache: most instants that are written lie in the same few
    seconds."""
    return to_datetime(Instant(second * SECOND)).isoformat()[:19]


# Characters of the longest timestamp that is parsed.
TIMESTAMP_MAX: Final = 64

# Date and time each in one form throughout, extended or basic: the groups 2 and 6 say which.
_TIMESTAMP: Final = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)"
    r"(?:[Tt](\d\d)(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?"
    r"(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)

# The form in which instants are written, which `datetime` reads faster.
_AS_WRITTEN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def parse_timestamp(text: str) -> Instant:
    """Return the instant of a calendar date or date-time of ISO 8601, extended or basic, with an
    offset, `Z` or neither, which means UTC. It is narrower than `datetime.fromisoformat`, which
    takes week dates and overflows at the years 1 and 9999.

    Digits beyond the microsecond are cut. Instants beyond the years 1 to 9999 become the first or
    last one there is. Raises ValueError for all else."""
    return parse_exact_timestamp(text)[0]


def parse_exact_timestamp(text: str) -> tuple[Instant, str]:
    """Return the same, and the digits beyond the microsecond without zeros at the end: such pairs
    are ordered as the times are. Raises ValueError."""
    # Most of what is read was written here.
    if _AS_WRITTEN.fullmatch(text) is not None:
        return from_datetime(datetime.fromisoformat(text)), ""
    if len(text) > TIMESTAMP_MAX:
        raise ValueError("too long")

    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("not ISO 8601")

    year, _, month, day, hour, _, minute, second, fraction, sign, hours, minutes = match.groups()
    date = (int(year), int(month), int(day))
    time = (int(hour or 0), int(minute or 0), int(second or 0))
    # `datetime` itself checks that there is such a day and time.
    moment = datetime(*date, *time, int((fraction or "0")[:6].ljust(6, "0")), tzinfo=UTC)
    offset = _parse_offset(hours or "0", minutes or "0")
    # Who is ahead of UTC writes a later time for the same moment.
    instant = from_datetime(moment) + (offset if sign == "-" else -offset)
    # A window "until the year 9999" in an offset would overflow: it means "until the end".
    return Instant(max(FIRST_INSTANT, min(LAST_INSTANT, instant))), (fraction or "")[6:].rstrip("0")


def _parse_offset(hours: str, minutes: str) -> int:
    # ISO 8601 has no more; real offsets end at 14 hours.
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError("no offset from UTC")
    return int(hours) * HOUR + int(minutes) * MINUTE
