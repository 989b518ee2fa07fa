"""Represents HTTP messages as values (RFC 9110), writes requests, and reads what a received message
says of itself: the text of its target, how its body is coded, and when to come again."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from typing import Final, TypeAlias

from attrs import field, frozen

from mmo_sansio.http.egress_rules import UrlTarget
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span, elapsed, from_datetime

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Field lines in the order of the message; names in lower case."""

# The longest wait that is obeyed: whoever asks for more is tried again meanwhile, as it may be a
# mistake.
RETRY_AFTER_MAX: Final = HOUR

# The three forms of a date that a recipient has to read (RFC 9110 section 5.6.7).
_DATE_FORMATS: Final = (
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %d %H:%M:%S %Y",
)

# Tells zlib to expect the header and the checksum of gzip (RFC 1952).
_GZIP_FORMAT: Final = 31

_REQUEST_LINE: Final = re.compile(rb"[A-Z]++ [\x21-\x7e]++ HTTP/1\.1")
_FIELD_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++: [\t\x20-\x7e\x80-\xff]*+")

_HEX_DIGITS: Final = "0123456789ABCDEFabcdef"

# Every octet by its two hexadecimal digits.
_OCTETS: Final = {
    (high + low).encode(): bytes.fromhex(high + low) for high in _HEX_DIGITS for low in _HEX_DIGITS
}


def header_value(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of the field with this lower-case name, or None."""
    for field_name, value in headers:
        if field_name == name:
            return value
    return None


@frozen
class RequestHead:
    """Is a request before its body: enough to route and to authenticate it."""

    method: str
    """The method, as sent: methods are case-sensitive (RFC 9110 section 9.1)."""
    target: bytes
    """The raw request target, still percent-encoded (RFC 9112 section 3.2): in origin-form from a
    listener, in absolute-form (`https://host/path`) for a client."""
    headers: Headers = ()
    _values: dict[bytes, tuple[bytes, ...]] | None = field(
        default=None, init=False, eq=False, repr=False
    )
    """The values of each field once one was asked for, as several parts of the gateway ask for
    some."""

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Return every value of the field with this lower-case name, in order."""
        # Filled at the first question; the value is the same for everybody, so `frozen` still
        # holds.
        found = self._values
        if found is None:
            found = {}
            for field_name, value in self.headers:
                found[field_name] = (*found.get(field_name, ()), value)
            object.__setattr__(self, "_values", found)
        return found.get(name, ())

    def value(self, name: bytes) -> bytes | None:
        """Return the first value of the field with this lower-case name, or None."""
        values = self.values(name)
        if values:
            return values[0]
        return None

    def with_target(self, target: bytes) -> RequestHead:
        """Return the head of the same request for another resource; what was found in its fields is
        kept."""
        other = RequestHead(self.method, target, self.headers)
        object.__setattr__(other, "_values", self._values)
        return other


@frozen
class HttpRequest(RequestHead):
    """Is a whole request."""

    body: bytes = b""


@frozen
class HttpResponse:
    """Is a whole response. The listener adds Content-Length, Date and Connection."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def value(self, name: bytes) -> bytes | None:
        """Return the first value of the field with this lower-case name, or None."""
        return header_value(self.headers, name)


class InvalidRequest(Exception):
    """The request cannot be written: a reader would misunderstand a line of its head."""


def request_bytes(request: HttpRequest, target: UrlTarget, *, user_agent: bytes) -> bytes:
    """Return the request's bytes with the fields that every request has. Raises InvalidRequest."""
    request_line = f"{request.method} {target.path_and_query} HTTP/1.1".encode("ascii")
    fields = [
        b"Host: " + target.authority.encode("ascii"),
        b"User-Agent: " + user_agent,
        b"Accept-Encoding: identity",
    ]

    # A POST without a body says so, or a server waits for one (RFC 9110 section 8.6).
    if request.body or request.method not in ("GET", "DELETE"):
        fields.append(b"Content-Length: %d" % len(request.body))

    fields += [_field_name(name) + b": " + value for name, value in request.headers]

    # A key or a header of an operator's account could hold a line end, which would begin a second
    # field.
    if not (_REQUEST_LINE.fullmatch(request_line) and all(map(_FIELD_LINE.fullmatch, fields))):
        raise InvalidRequest("a line of its head holds what none may hold")

    return b"\r\n".join([request_line, *fields, b"", request.body])


def _field_name(name: bytes) -> bytes:
    """Return the field name as people write it, `X-API-KEY` as the specification does (Events, rule
    2). The case means nothing (RFC 9110 section 5.1), but simple receivers may compare it."""
    if name == b"x-api-key":
        return b"X-API-KEY"
    return name.title()


def retry_after(response: HttpResponse, *, now: Instant) -> Span:
    """Return how long the sender asks to wait before the next request (RFC 9110 section 10.2.3); 0
    when it does not."""
    text = (response.value(b"retry-after") or b"").decode("latin-1")

    # Seconds, or a date.
    if text.isascii() and text.isdigit():
        # More digits are above the maximum anyway, and a conversion of thousands would be slow.
        if len(text) < 10:
            wait = int(text) * SECOND
        else:
            wait = RETRY_AFTER_MAX
    else:
        at = _parse_date(text)
        if at is None:
            wait = 0
        else:
            wait = elapsed(now, at)

    return Span(min(max(wait, 0), RETRY_AFTER_MAX))


def _parse_date(text: str) -> Instant | None:
    for date_format in _DATE_FORMATS:
        try:
            return from_datetime(datetime.strptime(text, date_format).replace(tzinfo=UTC))
        except ValueError:
            continue
    return None


def percent_decode(text: bytes) -> str:
    """Return the text of a part of the target that was percent-encoded once (RFC 3986 section 2.1).

    Raises ValueError for a stray `%` and for bytes that are not UTF-8 (L3)."""
    # `urllib.parse.unquote_to_bytes` would let a stray `%` pass.
    if b"%" in text:
        start, *escaped = text.split(b"%")
        try:
            text = start + b"".join([_OCTETS[part[:2]] + part[2:] for part in escaped])
        except KeyError:
            raise ValueError("a '%' is not followed by two hexadecimal digits") from None
    return text.decode()


def unpack_body(headers: Headers, body: bytes, *, bytes_max: int) -> bytes:
    """Return the body without the coding gzip that its fields name (RFC 9110 section 8.4). A body
    of any other coding, a damaged one, and one of more than `bytes_max` bytes when unpacked is
    returned as it came: it is no JSON then."""
    named = [
        member.strip(b" \t").lower()
        for name, value in headers
        if name == b"content-encoding"
        for member in value.split(b",")
    ]
    codings = [coding for coding in named if coding not in (b"", b"identity")]
    if codings not in ([b"gzip"], [b"x-gzip"]):
        return body

    # One byte more than allowed tells a large body from one that just fits, and bounds what a small
    # one can become.
    inflater = zlib.decompressobj(_GZIP_FORMAT)
    try:
        unpacked = inflater.decompress(body, bytes_max + 1)
    except zlib.error:
        return body

    is_whole = inflater.eof and not inflater.unused_data and len(unpacked) <= bytes_max
    if is_whole:
        return unpacked

    return body
