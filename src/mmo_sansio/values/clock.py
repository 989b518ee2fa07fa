"""Time as data: instants, spans and their two written forms (clause G5). Nobody here asks what time it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

Instant: TypeAlias = int
"""Microseconds since 1970-01-01T00:00:00Z."""

Span: TypeAlias = int
"""A length of time in microseconds."""

MICROSECOND: Span = 1
MILLISECOND: Span = 1_000
SECOND: Span = 1_000_000
MINUTE: Span = 60 * SECOND
HOUR: Span = 60 * MINUTE
DAY: Span = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INSTANT: Instant = (
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - EPOCH
) // timedelta(microseconds=1)
FIRST_INSTANT: Instant = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: Instant) -> datetime:
    """The instant as an aware UTC datetime; raises OverflowError outside the years 1 to 9999."""
    return EPOCH + timedelta(microseconds=instant)


def from_datetime(value: datetime) -> Instant:
    """The instant of an aware datetime; digits beyond the microsecond do not exist there."""
    return (value - EPOCH) // timedelta(microseconds=1)


def format_with_microseconds(instant: Instant) -> str:
    """`YYYY-MM-DDThh:mm:ss.ffffffZ`, as transaction objects write it (G5)."""
    second, microseconds = divmod(instant, SECOND)
    return f"{_format_second(second)}.{microseconds:06d}Z"


def format_with_seconds(instant: Instant) -> str:
    """`YYYY-MM-DDThh:mm:ss+00:00`, as create responses write it: cut, not rounded (G5, T2)."""
    return f"{_format_second(instant // SECOND)}+00:00"


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    """`YYYY-MM-DDThh:mm:ss`; remembered, as most instants that are written lie in the same few seconds."""
    return to_datetime(second * SECOND).isoformat()[:19]
