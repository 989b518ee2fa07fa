"""Parses the bytes of one connection into heads and bodies, without a socket and without waiting.

Give it bytes with `receive`, call `next_head`, then `next_body`; None means that more bytes are needed. The raw head is
checked first (`mmo_sansio.http.request_head`), then h11 parses it and decodes a chunked body."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, cast

import h11
from attrs import frozen

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.http.request_head import END_OF_HEAD, HeadLimits, check_head, check_partial_head, to_origin_form
from mmo_sansio.values.problems import MALFORMED, ProblemError
from mmo_trio.http.rejections import body_too_large

CHUNKS_MAX: Final = 2048
"""Chunks of one body: 64 KiB in chunks of 32 bytes fit; chunks of one byte would only waste time."""

_EMPTY_LINES: Final = re.compile(rb"(?:\r\n)++")

HEADS_CACHED: Final = 512
CACHED_HEAD_BYTES_MAX: Final = 2048
"""Bytes of the largest head that is cached; larger ones are parsed each time."""


@frozen
class ParsedHead:
    """A request head and what it says about its connection."""

    head: RequestHead
    version: bytes
    """`1.0` or `1.1`."""
    keep_alive: bool
    """Whether the client lets the connection live on after the response (RFC 9112 section 9.3)."""
    expects_continue: bool
    """Whether the client sends its body only after a 100 response (RFC 9110 section 10.1.1)."""
    body_length: int | None
    """Bytes of the body that follows; None for a chunked one, which has its length in itself."""


class RequestReader:
    """Holds the bytes that arrived on one connection and are not used yet."""

    def __init__(self, limits: HeadLimits) -> None:
        self._limits = limits
        self._buffer = b""
        self._scanned_bytes = 0
        # The body that belongs to the last head: its length, or its chunks.
        self._pending_body: int | _ChunkedRequestBody = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether every byte that arrived is used."""
        return not self._buffer

    def receive(self, data: bytes | bytearray) -> None:
        """Add bytes that arrived."""
        self._buffer += data

    def next_head(self) -> ParsedHead | None:
        """Return the next request's head once it is complete; raises ProblemError for a malformed one."""
        if self._buffer.startswith(b"\r\n"):  # Old clients send it after a body (RFC 9112, 2.2).
            self._buffer = _EMPTY_LINES.sub(b"", self._buffer, count=1)
        end = self._buffer.find(END_OF_HEAD, max(0, self._scanned_bytes - len(END_OF_HEAD)))
        if end < 0:
            problem = check_partial_head(self._buffer, self._limits, checked_bytes=self._scanned_bytes)
            self._scanned_bytes = len(self._buffer)
            if problem is not None:
                raise ProblemError(problem)
            return None
        end += len(END_OF_HEAD)
        head, self._buffer, self._scanned_bytes = self._buffer[:end], self._buffer[end:], 0
        parse = _parse_head_cached if len(head) <= CACHED_HEAD_BYTES_MAX else _parse_head
        parsed = parse(head, self._limits)
        self._pending_body = _ChunkedRequestBody(head) if parsed.body_length is None else parsed.body_length
        return parsed

    def next_body(self, limit: int) -> bytes | None:
        """Return the body once it is complete. Raises ProblemError for a body larger than `limit` bytes, as soon as
        that shows, or with broken framing."""
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
        """Discard the body when all of it is here. Return False when some is yet to come: the start of the next request
        is unknown then unless the body is read after all."""
        if isinstance(self._pending_body, _ChunkedRequestBody) or self._pending_body > len(self._buffer):
            return False
        self._buffer = self._buffer[self._pending_body :]
        return True


def _parse_head(head: bytes, limits: HeadLimits) -> ParsedHead:
    """Parse a whole head; raises ProblemError for one that must be rejected."""
    problem = check_head(head, limits)
    if problem is not None:
        raise ProblemError(problem)
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(head)
    request = cast(h11.Request, _next_event(parser))  # A complete head is a request.
    target = to_origin_form(request.target)
    parsed_head = RequestHead(request.method.decode("ascii"), target, tuple(request.headers))
    fields = dict(parsed_head.headers)
    is_chunked = b"transfer-encoding" in fields
    length = None if is_chunked else int(fields.get(b"content-length", b"0"))
    return ParsedHead(
        parsed_head,
        request.http_version,
        _keeps_alive(parsed_head, request.http_version),
        fields.get(b"expect", b"").lower() == b"100-continue" and request.http_version == b"1.1" and length != 0,
        length,
    )


_parse_head_cached = lru_cache(maxsize=HEADS_CACHED)(_parse_head)
"""Caches heads: a client repeats the same head but for the length of its body."""


class _ChunkedRequestBody:
    """Decodes a chunked body as it arrives (RFC 9112 section 7.1)."""

    def __init__(self, head: bytes) -> None:
        self._parser = h11.Connection(h11.SERVER)
        self._parser.receive_data(head)
        _next_event(self._parser)  # the head, which was read before
        self._body = bytearray()
        self._chunk_count = 0
        self._last_bytes = b""

    @property
    def trailing_data(self) -> bytes:
        """The bytes after the complete body, which belong to the next request."""
        return self._parser.trailing_data[0]

    def receive(self, data: bytes, limit: int) -> bytes | None:
        """Decode these bytes; return the whole body once it is complete."""
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
        # h11 takes a bare LF for the end of the trailers, and drops trailers silently.
        if event.headers or not received.removesuffix(self.trailing_data).endswith(END_OF_HEAD):
            raise ProblemError(MALFORMED.problem("An empty line must follow the last chunk."))
        return bytes(self._body)


def _next_event(parser: h11.Connection) -> object:
    """Return h11's next event. It only sees heads that passed `check_head`, so what it rejects are chunks, or doubts
    that the check does not know: either way the message cannot be trusted."""
    try:
        return parser.next_event()
    except h11.RemoteProtocolError as error:
        raise ProblemError(MALFORMED.problem("The framing of the request is malformed.")) from error


def _keeps_alive(head: RequestHead, version: bytes) -> bool:
    options = b",".join(head.values(b"connection")).lower()
    if not options:
        return version == b"1.1"
    named = {option.strip() for option in options.split(b",")}
    return b"close" not in named and (version == b"1.1" or b"keep-alive" in named)
