"""Finds the days that a request names, in the forms in which operators want times: calendar dates,
and seconds, milliseconds or microseconds since 1970, also within Base64.

A check of adapters finds by it a request that is dated by the gateway's own time in place of wall
time: a day that is named without being meant does no harm, and one that is missed hides a fault."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import (
    DAY,
    MICROSECOND,
    MILLISECOND,
    SECOND,
    Instant,
    parse_timestamp,
)

# With or without separators, the year first or last. A date that begins with its year may go on
# with a time of day, `20261129224500`.
_DATE: Final = re.compile(rb"(?<![0-9])(20[0-9]{2})[-/.]?([0-9]{2})[-/.]?([0-9]{2})")
_DAY_FIRST: Final = re.compile(rb"(?<![0-9])([0-9]{2})[-/.]([0-9]{2})[-/.](20[0-9]{2})(?![0-9])")
_SINCE_1970: Final = re.compile(rb"(?<![0-9])(?:[0-9]{16}|[0-9]{13}|[0-9]{10})(?![0-9])")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")

# The unit of a number since 1970, by its digits.
_UNITS: Final = {10: SECOND, 13: MILLISECOND, 16: MICROSECOND}


def named_days(request: HttpRequest) -> Iterator[int]:
    """Yield the days since 1970 that target, headers and body of a request may name; each number
    of a fitting length is taken for a time."""
    for text in (request.target, *(value for _, value in request.headers), request.body):
        yield from _days_in(text)
        # Some operators want the time within a password, in Base64.
        for found in _BASE64.findall(text):
            try:
                yield from _days_in(base64.b64decode(found))
            except binascii.Error:
                continue


def _days_in(text: bytes) -> Iterator[int]:
    dates = [(year, month, day) for year, month, day in _DATE.findall(text)]
    dates += [(year, month, day) for day, month, year in _DAY_FIRST.findall(text)]
    for date in dates:
        # Eight digits need not be a day: an account or an amount has as many.
        try:
            yield parse_timestamp(b"-".join(date).decode()) // DAY
        except ValueError:
            continue
    for number in _SINCE_1970.findall(text):
        yield Instant(int(number) * _UNITS[len(number)]) // DAY
