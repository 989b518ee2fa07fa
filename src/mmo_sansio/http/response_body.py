"""Decodes the body of a response from the bytes behind its head, without a socket and without waiting."""

from __future__ import annotations

from collections.abc import Iterator

from mmo_sansio.http.chunked_body import ChunkedBody, ChunkedBodyError
from mmo_sansio.http.response_head import BodyEnd, FinalResponseHead


class ResponseBodyError(Exception):
    """The body broke off, or its framing is broken."""


class PlainBody:
    """Reads a body of known length, or one that lasts until the server closes."""

    def __init__(self, length: int | None, initial_data: bytes) -> None:
        self._remaining = length
        self._unread = initial_data
        self.is_complete = False
        self.has_excess = False
        """Whether more arrived than belongs to the body."""

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
            self.has_excess = len(self._unread) > self._remaining
            self._remaining -= len(piece)
            self.is_complete = self._remaining == 0
        if piece:
            yield piece


class ChunkedResponseBody:
    """Decodes a chunked body; trailer fields are dropped."""

    has_excess = True
    """What arrived after the last chunk is not distinguished."""

    def __init__(self, initial_data: bytes) -> None:
        self._decoder = ChunkedBody(has_trailers=True)
        self._unread = initial_data

    @property
    def is_complete(self) -> bool:
        """Tell whether the last chunk has been read."""
        return self._decoder.is_complete

    def receive(self, data: bytes) -> None:
        """Add bytes that arrived, b"" at the end of the connection; raises ResponseBodyError when the end is too
        early."""
        if not data:
            raise ResponseBodyError
        self._unread = data

    def read_available(self) -> Iterator[bytes]:
        """Yield the bytes that are new; raises ResponseBodyError."""
        try:
            yield from self._decoder.receive(self._unread)
        except ChunkedBodyError as error:
            raise ResponseBodyError from error


def response_body(head: FinalResponseHead) -> PlainBody | ChunkedResponseBody:
    """Return the decoder for the body behind this head."""
    match head.framing:
        case BodyEnd.LAST_CHUNK:
            return ChunkedResponseBody(head.body_start)
        case BodyEnd.CLOSE:
            return PlainBody(None, head.body_start)
        case length:
            return PlainBody(length, head.body_start)
