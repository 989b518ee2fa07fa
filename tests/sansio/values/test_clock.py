"""Time as data and its two written forms (clause G5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.values import clock
from mmo_sansio.values.clock import (
    DAY,
    FIRST_INSTANT,
    HOUR,
    LAST_INSTANT,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    Instant,
    Span,
    format_with_microseconds,
    format_with_seconds,
    from_datetime,
    later,
    to_datetime,
)

MOMENT = later(Instant(1_790_000_000 * SECOND), Span(123_456))


def test_spans_are_counted_in_microseconds() -> None:
    assert (MICROSECOND, MILLISECOND, SECOND) == (1, 1_000, 1_000_000)
    assert (MINUTE, HOUR, DAY) == (60 * SECOND, 3600 * SECOND, 86_400 * SECOND)


@pytest.mark.spec("G5", "T2")
def test_the_two_written_forms() -> None:
    assert format_with_microseconds(MOMENT) == "2026-09-21T14:13:20.123456Z"
    assert format_with_seconds(MOMENT) == "2026-09-21T14:13:20+00:00"


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    ("instant", "microseconds", "seconds"),
    [
        (0, "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00+00:00"),
        (SECOND - 1, "1970-01-01T00:00:00.999999Z", "1970-01-01T00:00:00+00:00"),
        (-1, "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59+00:00"),
        (FIRST_INSTANT, "0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00+00:00"),
        (LAST_INSTANT, "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59+00:00"),
    ],
    ids=["epoch", "cut, not rounded", "before the epoch", "first", "last"],
)
def test_every_instant_can_be_written(instant: Instant, microseconds: str, seconds: str) -> None:
    assert (format_with_microseconds(instant), format_with_seconds(instant)) == (
        microseconds,
        seconds,
    )


@pytest.mark.parametrize("instant", [FIRST_INSTANT - 1, LAST_INSTANT + 1])
def test_beyond_the_calendar_it_overflows(instant: Instant) -> None:
    with pytest.raises(OverflowError):
        to_datetime(instant)


@given(st.integers(FIRST_INSTANT, LAST_INSTANT))
def test_there_and_back(instant: Instant) -> None:
    assert from_datetime(to_datetime(instant)) == instant
    assert datetime.fromisoformat(format_with_microseconds(instant)) == to_datetime(instant)


def test_an_offset_is_taken_into_account() -> None:
    nairobi = timezone(timedelta(hours=3))
    assert from_datetime(datetime(1970, 1, 1, 3, tzinfo=nairobi)) == 0
    assert to_datetime(Instant(0)).tzinfo is UTC
    assert to_datetime(Instant(0)) == clock.EPOCH
