"""Writes responses as bytes: head and body in one string, so that one call sends them, or in pieces
(RFC 9112 sections 4 and 7.1)."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

import trio
from attrs import define, field

from mmo_sansio.http.messages import Headers, HttpResponse

CONTINUE_RESPONSE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

# The value of `Cache-Control` in every response (G9).
NO_STORE: Final = b"no-store"

# Responses with these statuses have neither a body nor a length.
BODYLESS_STATUSES: Final = frozenset({204, 304})

LAST_CHUNK: Final = b"0\r\n\r\n"

# Bytes that a client may send while it receives a stream; they are discarded, as no request follows
# a stream.
DISCARDED_BYTES_MAX: Final = 64 * 1024

_FIELD_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\t\x20-\x7e\x80-\xff]*\r\n")
_PHRASES = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}


def response_bytes(
    response: HttpResponse,
    *,
    request_id: str,
    connection: bytes = b"",
    extra: bytes = b"",
    without_body: bool = False,
) -> bytes:
    """Return the whole response with the fields that every response has (G9).

    `connection` is the value of that field, empty for none; `extra` holds whole field lines.
    `without_body` answers HEAD: the length stays, the body goes. Raises ValueError for a header
    field that would break out of its line."""
    # RFC 9110 section 8.6: a 204 must not have the field, and a 304 would speak of another body.
    if response.status in BODYLESS_STATUSES:
        length = b""
    else:
        length = b"Content-Length: %d\r\n" % len(response.body)

    # One string, so that one system call sends the whole response.
    return b"".join(
        (
            _cached_status_line_and_fields(response.status, response.headers),
            b"X-Request-Id: %s\r\n" % request_id.encode("ascii"),
            _date_line(int(time.time())),
            length,
            extra,
            b"Connection: " + connection + b"\r\n" if connection else b"",
            b"\r\n",
            b"" if without_body or not length else response.body,
        )
    )


def head_bytes(status: int, headers: Headers, *, request_id: str, extra: bytes) -> bytes:
    """Return the head of a response that is written in pieces; `extra` holds the field lines of its
    framing.

    Raises ValueError like `response_bytes`."""
    fields = _status_line_and_fields(status, headers)
    parts = (
        fields,
        b"X-Request-Id: %s\r\n" % request_id.encode("ascii"),
        _date_line(int(time.time())),
        extra,
        b"\r\n",
    )
    return b"".join(parts)


def response_fields(response: HttpResponse, *, request_id: str) -> list[tuple[bytes, bytes]]:
    """Return the same fields as a list, with names in lower case, for HTTP/2.

    Raises ValueError like `response_bytes`."""
    # For its check alone: HTTP/2 would take a line end for a part of the value.
    _cached_status_line_and_fields(response.status, response.headers)
    fields = [*response.headers]
    if response.value(b"cache-control") is None:
        fields.append((b"cache-control", NO_STORE))

    fields.append((b"x-request-id", request_id.encode("ascii")))
    fields.append((b"date", _date(int(time.time()))))
    if response.status not in BODYLESS_STATUSES:
        fields.append((b"content-length", b"%d" % len(response.body)))

    return fields


def _status_line_and_fields(status: int, headers: Headers) -> bytes:
    """Return status line and fields; a response that says nothing of caches is not stored."""
    lines = [b"%s: %s\r\n" % (name, value) for name, value in headers]
    # A value with a line end would begin a second field, or a second response.
    if not all(map(_FIELD_LINE.fullmatch, lines)):
        raise ValueError("a header field of an answer holds what a header field cannot hold")
    if not any(name == b"cache-control" for name, _ in headers):
        lines.append(b"Cache-Control: " + NO_STORE + b"\r\n")
    return b"".join((b"HTTP/1.1 %d %s\r\n" % (status, _PHRASES.get(status, b"")), *lines))


# For whole responses, as the API's have few different heads; those in pieces, such as pages and
# files, have many and are rarer.
_cached_status_line_and_fields = lru_cache(maxsize=256)(_status_line_and_fields)


@lru_cache(maxsize=1)
def _date_line(second: int) -> bytes:
    return b"Date: %s\r\n" % _date(second)


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode("ascii")


@define(eq=False)
class PieceWriter:
    """Writes one response to its connection in pieces, as fast as its client reads: with its
    length, or in chunks when the length is not known."""

    _send: Callable[[bytes, bytes, bool], Awaitable[None]]
    """Sends a head or framing and then a piece; the flag says whether the piece has a deadline of
    its own."""
    _receive: Callable[[], Awaitable[bytes | bytearray]]
    _has_ended: Callable[[], bool]
    """Tells whether the client is known to have closed its connection."""
    _request_id: str
    _connection: Callable[[bool], bytes]
    """Returns the value of `Connection`, given whether another request may follow; empty for
    none."""
    _extra: bytes
    """Field lines of every response."""
    _is_head_request: bool
    _is_http_1_0: bool
    status: int | None = field(default=None, init=False)
    """None until the response begins."""
    is_lost: bool = field(default=False, init=False)
    """Whether the client was found gone."""
    _head: bytes = field(default=b"", init=False)
    """The head while it waits for the first piece."""
    _missing_bytes: int | None = field(default=None, init=False)
    """Bytes of the body that are still to be written; None for a stream."""
    _is_stream: trio.Event = field(factory=trio.Event, init=False)

    @property
    def is_complete(self) -> bool:
        """Whether the client can tell where the response ends, so that another one may follow on
        the connection."""
        return self.status is not None and self._missing_bytes == 0 and not self.is_lost

    def is_wanted(self) -> bool:
        """Look whether the client may still read a response that has not begun, and tell so; one
        that nobody reads is noted as lost."""
        self.is_lost = self.is_lost or self._has_ended()
        return not self.is_lost

    async def begin(self, status: int, headers: Headers, *, length: int | None) -> None:
        """Set the head, which is sent with the first piece. `length` is the number of bytes of the
        body; None for a stream, which is sent in chunks and is the last response on its connection.
        Raises ValueError for a header field that would break out of its line."""
        # The framing, in the order of RFC 9112 section 6.3: no body; a length; chunks; until the
        # close, for 1.0.
        if status in BODYLESS_STATUSES:
            framing, self._missing_bytes = b"", 0
        elif length is not None:
            framing = b"Content-Length: %d\r\n" % length
            self._missing_bytes = 0 if self._is_head_request else length
        else:
            framing = b"" if self._is_http_1_0 else b"Transfer-Encoding: chunked\r\n"

        # After a stream nobody could tell the next response from its last bytes.
        connection = self._connection(self._missing_bytes is not None)
        if connection:
            framing += b"Connection: " + connection + b"\r\n"

        self._head = head_bytes(
            status, headers, request_id=self._request_id, extra=framing + self._extra
        )
        self.status = status
        if self._missing_bytes is None:
            self._is_stream.set()

    async def write(self, data: bytes) -> None:
        """Send a piece of the body. Raises BrokenResourceError when the client is gone, and
        ValueError for bytes beyond the length."""
        assert self.status is not None
        if not data or self._is_head_request or self.status in BODYLESS_STATUSES:
            return

        if self._missing_bytes is not None:
            # The client would read the excess as the beginning of the next response.
            if len(data) > self._missing_bytes:
                raise ValueError("the body of a response is longer than its Content-Length")

            self._missing_bytes -= len(data)
            await self._send_piece(b"", data)
        elif self._is_http_1_0:
            await self._send_piece(b"", data)
        else:
            await self._send_piece(b"%x\r\n" % len(data), data + b"\r\n")

    async def finish(self) -> None:
        """End the response. Raises ValueError when it has not begun, or lacks a part of its
        body."""
        if self.status is None or self._missing_bytes:
            raise ValueError("a response ended before it was complete")
        is_chunked = (
            self._missing_bytes is None and not self._is_http_1_0 and not self._is_head_request
        )
        await self._send_piece(LAST_CHUNK if is_chunked else b"", b"")

    async def wait_disconnected(self) -> None:
        """Wait until the client closes its connection while a stream is sent, or wanted only the
        head of one. The end of a client whose response has a length shows when a piece is
        written."""
        await self._is_stream.wait()
        if self._is_head_request:
            await self.finish()
            return

        discarded = 0
        while discarded <= DISCARDED_BYTES_MAX:
            try:
                data = await self._receive()
            except trio.BrokenResourceError:
                break

            if not data:
                break

            discarded += len(data)

        self.is_lost = True

    async def _send_piece(self, framing: bytes, data: bytes) -> None:
        head, self._head = self._head, b""
        if not (head or framing or data):
            return
        try:
            await self._send(head + framing, data, self._is_stream.is_set())
        except trio.BrokenResourceError:
            self.is_lost = True
            raise
