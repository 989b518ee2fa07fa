"""What one connection has received, taken apart into heads and bodies: no socket, no waiting.

Give it bytes with `receive`, ask `next_head`, then `next_body`; None means that more bytes are
needed. The raw head is judged first (`mmo_sansio.http.request_head`), then h11 parses it and undoes the
framing of a chunked body."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, cast

import h11
from attrs import frozen

from mmo_sansio.http.messages import Headers, RequestHead, header_values
from mmo_sansio.http.request_head import (
    END_OF_HEAD,
    HeadLimits,
    check_head,
    check_partial_head,
    to_origin_form,
)
from mmo_sansio.values.problems import MALFORMED, ProblemError
from mmo_trio.http.rejections import body_too_large

CHUNKS_MAX: Final = 2048
"""Chunks of one body: 64 KiB in chunks of 32 bytes fit; chunks of one byte would only burn our
time."""

HEADS_CACHED: Final = 512
CACHED_HEAD_BYTES_MAX: Final = 2048
"""Bytes of the largest head that is remembered; larger ones are read anew."""


@frozen
class ParsedHead:
    """A request head and what it says about its connection."""

    head: RequestHead
    version: bytes
    """`1.0` or `1.1`."""
    keep_alive: bool
    """Whether the client lets the connection live on after the answer (RFC 9112 section 9.3)."""
    expects_continue: bool
    """Whether the client holds its body back until it is told to go on (RFC 9110 section
    10.1.1)."""
    body_length: int | None
    """Bytes of the body that follows; None for a chunked one, which tells its length itself."""


class RequestReader:
    """The bytes that came in on one connection and were not used yet."""

    def __init__(self, limits: HeadLimits) -> None:
        self._limits = limits
        self._buffer = b""
        self._scanned_bytes = 0
        self._pending_body: int | _ChunkedRequestBody = (
            0  # the body that belongs to the last head: its length, or its chunks
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was received that is not used yet."""
        return not self._buffer

    def receive(self, data: bytes | bytearray) -> None:
        """Take in what the connection brought."""
        self._buffer += data

    def next_head(self) -> ParsedHead | None:
        """The next request's head once it is complete; raises RefusedError for one that may not be
        read."""
        while self._buffer.startswith(
            b"\r\n"
        ):  # after a body, by old clients: RFC 9112 section 2.2
            self._buffer = self._buffer[2:]
        end = self._buffer.find(END_OF_HEAD, max(0, self._scanned_bytes - len(END_OF_HEAD)))
        if end < 0:
            fault = check_partial_head(
                self._buffer, self._limits, checked_bytes=self._scanned_bytes
            )
            self._scanned_bytes = len(self._buffer)
            if fault is not None:
                raise ProblemError(fault)
            return None
        end += len(END_OF_HEAD)
        head, self._buffer, self._scanned_bytes = self._buffer[:end], self._buffer[end:], 0
        read = _parse_head_cached if len(head) <= CACHED_HEAD_BYTES_MAX else _parse_head
        opening = read(head, self._limits)
        self._pending_body = (
            _ChunkedRequestBody(head) if opening.body_length is None else opening.body_length
        )
        return opening

    def next_body(self, limit: int) -> bytes | None:
        """The body once it is complete; raises RefusedError for one larger than `limit` bytes, as
        soon as that shows, or with broken framing."""
        if isinstance(self._pending_body, _ChunkedRequestBody):
            chunked = self._pending_body.receive(self._buffer, limit)
            self._buffer = b"" if chunked is None else self._pending_body.trailing_data
            return chunked
        if self._pending_body > limit:
            raise body_too_large(limit)
        if self._pending_body > len(self._buffer):
            return None
        body, self._buffer = self._buffer[: self._pending_body], self._buffer[self._pending_body :]
        return body

    def skip_body(self) -> bool:
        """Throw the body away when all of it is here; False when some is yet to come, so that
        nobody can tell where the next request begins unless it is read after all."""
        if isinstance(self._pending_body, _ChunkedRequestBody) or self._pending_body > len(
            self._buffer
        ):
            return False
        self._buffer = self._buffer[self._pending_body :]
        return True


def _parse_head(head: bytes, limits: HeadLimits) -> ParsedHead:
    """What a whole head says; raises RefusedError for one that may not be read."""
    fault = check_head(head, limits)
    if fault is not None:
        raise ProblemError(fault)
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(head)
    request = cast(h11.Request, _next_event(parser))  # a complete head is nothing else
    headers = tuple(request.headers)
    fields = dict(headers)
    is_chunked = b"transfer-encoding" in fields
    length = None if is_chunked else int(fields.get(b"content-length", b"0"))
    return ParsedHead(
        RequestHead(request.method.decode("ascii"), to_origin_form(request.target), headers),
        request.http_version,
        _keeps_alive(headers, request.http_version),
        fields.get(b"expect", b"").lower() == b"100-continue"
        and request.http_version == b"1.1"
        and length != 0,
        length,
    )


_parse_head_cached = lru_cache(maxsize=HEADS_CACHED)(_parse_head)
"""A client sends the same head again and again, but for the length of its body."""


class _ChunkedRequestBody:
    """A chunked body on its way in (RFC 9112 section 7.1)."""

    def __init__(self, head: bytes) -> None:
        self._parser = h11.Connection(h11.SERVER)
        self._parser.receive_data(head)
        _next_event(self._parser)  # the head, which was read before
        self._body = bytearray()
        self._chunk_count = 0
        self._last_bytes = b""

    @property
    def trailing_data(self) -> bytes:
        """What came after the complete body: the next request's."""
        return self._parser.trailing_data[0]

    def receive(self, data: bytes, limit: int) -> bytes | None:
        """Take in what came, none of it if it is empty; the whole body once it is complete."""
        if not data:
            return None
        self._parser.receive_data(data)
        while isinstance(event := _next_event(self._parser), h11.Data):
            self._body += event.data
            self._chunk_count += event.chunk_start
            if len(self._body) > limit:
                raise body_too_large(limit)
            if self._chunk_count > CHUNKS_MAX:
                raise ProblemError(MALFORMED.problem("The body comes in too many chunks."))
        received = self._last_bytes + data
        self._last_bytes = received[-len(END_OF_HEAD) :]
        if not isinstance(event, h11.EndOfMessage):
            return None
        # h11 takes a bare LF for the end of the trailers, and reads trailers that nobody would see.
        if event.headers or not received.removesuffix(self.trailing_data).endswith(END_OF_HEAD):
            raise ProblemError(MALFORMED.problem("An empty line must follow the last chunk."))
        return bytes(self._body)


def _next_event(parser: h11.Connection) -> object:
    """h11's next event. It only sees heads that passed `check_head`, so its refusals are about
    chunks, or doubts that we did not think of: either way the message can't be trusted."""
    try:
        return parser.next_event()
    except h11.RemoteProtocolError as error:
        raise ProblemError(MALFORMED.problem("The framing of the request is malformed.")) from error


def _keeps_alive(headers: Headers, version: bytes) -> bool:
    options = b",".join(header_values(headers, b"connection")).lower()
    if not options:
        return version == b"1.1"
    named = {option.strip() for option in options.split(b",")}
    return b"close" not in named and (version == b"1.1" or b"keep-alive" in named)
