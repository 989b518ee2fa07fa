"""Writes responses as bytes: head and body in one string, so that one call sends them (RFC 9112 section 4)."""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from mmo_sansio.http.messages import Headers, HttpResponse

CONTINUE_RESPONSE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

NO_STORE: Final = b"no-store"
"""The value of `Cache-Control` in every response (G9)."""

_FIELD_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\t\x20-\x7e\x80-\xff]*\r\n")
_PHRASES = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}

BODYLESS_STATUSES: Final = frozenset({204, 304})
"""Responses with these statuses have neither a body nor a length."""


def response_bytes(
    response: HttpResponse, *, request_id: str, connection: bytes = b"", extra: bytes = b"", without_body: bool = False
) -> bytes:
    """Return the whole response with the fields that every response has (G9).

    `connection` is the value of that field, empty for none; `extra` holds whole field lines. `without_body` answers
    HEAD: the length stays, the body goes. Raises ValueError for a header field that would break out of its line."""
    length = b"" if response.status in BODYLESS_STATUSES else b"Content-Length: %d\r\n" % len(response.body)
    return b"".join(
        (
            _cached_status_line_and_fields(response.status, response.headers),
            b"X-Request-Id: ",
            request_id.encode("ascii"),
            _date_line(int(time.time())),
            length,
            extra,
            b"Connection: " + connection + b"\r\n" if connection else b"",
            b"\r\n",
            b"" if without_body or not length else response.body,
        )
    )


def head_bytes(status: int, headers: Headers, *, request_id: str, extra: bytes) -> bytes:
    """Return the head of a response that is written in pieces; `extra` holds the field lines of its framing.

    Raises ValueError like `response_bytes`."""
    fields = _status_line_and_fields(status, headers)
    parts = (fields, b"X-Request-Id: ", request_id.encode("ascii"), _date_line(int(time.time())), extra, b"\r\n")
    return b"".join(parts)


def response_fields(response: HttpResponse, *, request_id: str) -> list[tuple[bytes, bytes]]:
    """Return the same fields as a list, with names in lower case, for a server that writes them itself.

    That server adds the date and the connection. Raises ValueError like `response_bytes`."""
    _cached_status_line_and_fields(response.status, response.headers)
    fields = [*response.headers, (b"cache-control", NO_STORE), (b"x-request-id", request_id.encode("ascii"))]
    if response.status not in BODYLESS_STATUSES:
        fields.append((b"content-length", b"%d" % len(response.body)))
    return fields


def _status_line_and_fields(status: int, headers: Headers) -> bytes:
    """Return status line and fields; a response that says nothing of caches is not stored."""
    lines = [b"%s: %s\r\n" % (name, value) for name, value in headers]
    if not all(map(_FIELD_LINE.fullmatch, lines)):
        raise ValueError("a header field of an answer holds what a header field cannot hold")
    if not any(name == b"cache-control" for name, _ in headers):
        lines.append(b"Cache-Control: " + NO_STORE + b"\r\n")
    return b"".join((b"HTTP/1.1 %d %s\r\n" % (status, _PHRASES.get(status, b"")), *lines))


_cached_status_line_and_fields = lru_cache(maxsize=256)(_status_line_and_fields)
"""Caches them for the API, which has few different ones."""


@lru_cache(maxsize=1)
def _date_line(second: int) -> bytes:
    return b"\r\nDate: %s\r\n" % formatdate(second, usegmt=True).encode("ascii")
