"""Reads what fields of a received message say of it: how its body is coded, and when to come again."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import Final

from mmo_sansio.http.messages import Headers, HttpResponse
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span, elapsed, from_datetime

RETRY_AFTER_MAX: Final = HOUR
"""The longest wait that is obeyed: whoever asks for more is tried again meanwhile, as it may be a mistake."""

_DATE_FORMATS: Final = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
"""The three forms of a date that a recipient has to read (RFC 9110 section 5.6.7)."""
_GZIP_FORMAT: Final = 31
"""Tells zlib to expect the header and the checksum of gzip (RFC 1952)."""


def retry_after(response: HttpResponse, *, now: Instant) -> Span:
    """Return how long the sender asks to wait before the next request (RFC 9110 section 10.2.3); 0 when it does not."""
    text = (response.value(b"retry-after") or b"").decode("latin-1")
    if text.isascii() and text.isdigit():
        wait = int(text) * SECOND if len(text) < 10 else RETRY_AFTER_MAX
    else:
        at = _parse_date(text)
        wait = 0 if at is None else elapsed(now, at)
    return Span(min(max(wait, 0), RETRY_AFTER_MAX))


def _parse_date(text: str) -> Instant | None:
    for each in _DATE_FORMATS:
        try:
            return from_datetime(datetime.strptime(text, each).replace(tzinfo=UTC))
        except ValueError:
            continue
    return None


def unpack_body(headers: Headers, body: bytes, *, bytes_max: int) -> bytes:
    """Return the body without the coding gzip that its fields name (RFC 9110 section 8.4). A body of any other coding,
    a damaged one, and one of more than `bytes_max` bytes when unpacked is returned as it came: it is no JSON then."""
    named = [
        each.strip(b" \t").lower()
        for name, value in headers
        if name == b"content-encoding"
        for each in value.split(b",")
    ]
    codings = [each for each in named if each not in (b"", b"identity")]
    if codings not in ([b"gzip"], [b"x-gzip"]):
        return body
    inflater = zlib.decompressobj(_GZIP_FORMAT)
    try:
        unpacked = inflater.decompress(body, bytes_max + 1)
    except zlib.error:
        return body
    is_whole = inflater.eof and not inflater.unused_data and len(unpacked) <= bytes_max
    return unpacked if is_whole else body
