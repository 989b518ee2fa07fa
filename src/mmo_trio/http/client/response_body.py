"""Decodes the body of a response from the bytes behind its head, without a socket and without waiting. h11 decodes a
chunked body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import h11

from mmo_sansio.http.response_head import BodyEnd, FinalResponseHead


class ResponseBodyError(Exception):
    """The body broke off, or its framing is broken."""


class PlainBody:
    """Reads a body of known length, or one that lasts until the server closes."""

    def __init__(self, length: int | None, initial_data: bytes) -> None:
        self._remaining = length
        self._unread = initial_data
        self.is_complete = False

    def receive(self, data: bytes) -> None:
        """Add bytes that arrived, b"" at the end of the connection; raises ResponseBodyError when the end is too
        early."""
        if not data:
            if self._remaining is not None:
                raise ResponseBodyError
            self.is_complete = True
        self._unread = data

    def read_available(self) -> Iterator[bytes]:
        """Yield the bytes that are new."""
        piece = self._unread[: self._remaining]
        if self._remaining is not None:
            self._remaining -= len(piece)
            self.is_complete = self._remaining == 0
        if piece:
            yield piece


class ChunkedBody:
    """Decodes a chunked body (RFC 9112 section 7.1)."""

    def __init__(self, head: FinalResponseHead) -> None:
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=LINE_BYTES_MAX)
        self._parser.send(_PLACEHOLDER_REQUEST)
        self._parser.send(h11.EndOfMessage())
        self._parser.receive_data(head.raw + head.body_start)
        self._parser.next_event()  # the head, which was read before
        self.is_complete = False

    def receive(self, data: bytes) -> None:
        """Add bytes that arrived, b"" at the end of the connection."""
        self._parser.receive_data(data)

    def read_available(self) -> Iterator[bytes]:
        """Yield the bytes that are new; raises ResponseBodyError."""
        try:
            while isinstance(event := self._parser.next_event(), h11.Data):
                yield bytes(event.data)
        except h11.RemoteProtocolError as error:
            raise ResponseBodyError from error
        self.is_complete = isinstance(event, h11.EndOfMessage)


LINE_BYTES_MAX: Final = 32 * 1024
"""Bytes of the line before a chunk, and of the trailers."""

_PLACEHOLDER_REQUEST: Final = h11.Request(method="GET", target="/", headers=[("Host", "any")])
"""The parser needs a request; only HEAD and CONNECT would change the result."""


def response_body(head: FinalResponseHead) -> PlainBody | ChunkedBody:
    """Return the decoder for the body behind this head."""
    match head.framing:
        case BodyEnd.LAST_CHUNK:
            return ChunkedBody(head)
        case BodyEnd.CLOSE:
            return PlainBody(None, head.body_start)
        case length:
            return PlainBody(length, head.body_start)
