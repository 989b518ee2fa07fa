"""Parses the bytes of one connection into heads and bodies, without a socket and without waiting.

Give it bytes with `receive`, call `next_head`, then `next_body`; None means that more bytes are needed. The raw head is
checked first (`mmo_sansio.http.request_head`), then h11 parses it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, cast

import h11
from attrs import frozen

from mmo_sansio.http.chunked_body import ChunkedBody, ChunkedBodyError
from mmo_sansio.http.messages import RequestHead
from mmo_sansio.http.request_head import END_OF_HEAD, HeadLimits, check_head, check_partial_head, to_origin_form
from mmo_sansio.values.problems import MALFORMED, ProblemError
from mmo_trio.http.rejections import body_too_large

CHUNKS_MAX: Final = 1024
"""Chunks of one body: 256 KiB in chunks of 256 bytes fit; chunks of one byte would only waste time."""

_EMPTY_LINES: Final = re.compile(rb"(?:\r\n)++")

UPGRADE_FIELDS: Final = frozenset({b"upgrade", b"http2-settings"})
"""Fields that offer another protocol for the connection. The offer is ignored (RFC 9110 section 7.8): clients such as
Java's send it with every request in clear text."""

HEADS_CACHED: Final = 512
CACHED_HEAD_BYTES_MAX: Final = 2048
"""Bytes of the largest head that is cached; larger ones are parsed each time."""

_PLAIN_READ: Final = re.compile(rb"GET (/[!-\"$-~]*+) HTTP/1\.1\r\n")
"""The request line of a GET whose target is in origin-form and has no fragment: no field is judged by such a target."""


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
        self._incomplete_body: bytearray | None = None
        """The beginning of a body of known length, while the rest is yet to come; the buffer is empty then."""
        self._scanned_bytes = 0
        # The body that belongs to the last head: its length, or its chunks.
        self._pending_body: int | _ChunkedRequestBody = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether every byte that arrived is used."""
        return not (self._buffer or self._incomplete_body)

    @property
    def body_bytes(self) -> int:
        """Return how much of an incomplete body has arrived."""
        if self._incomplete_body is not None:
            return len(self._incomplete_body)
        return self._pending_body.size_bytes if isinstance(self._pending_body, _ChunkedRequestBody) else 0

    def receive(self, data: bytes | bytearray) -> None:
        """Add bytes that arrived."""
        if self._incomplete_body is None:
            self._buffer += data
        else:
            self._incomplete_body += data

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
        parsed = _parse_any_head(head, self._limits)
        self._pending_body = _ChunkedRequestBody() if parsed.body_length is None else parsed.body_length
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
        if self._incomplete_body is not None:
            if self._pending_body > len(self._incomplete_body):
                return None
            self._buffer, self._incomplete_body = bytes(self._incomplete_body), None
        if self._pending_body > len(self._buffer):
            self._incomplete_body, self._buffer = bytearray(self._buffer), b""
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


def _parse_any_head(head: bytes, limits: HeadLimits) -> ParsedHead:
    """Parse a whole head, or take what is known of an equal one; raises ProblemError for one that must be rejected."""
    if len(head) > CACHED_HEAD_BYTES_MAX:
        return parse_head(head, limits)
    matched = _PLAIN_READ.match(head)
    if matched is None or len(head) > limits.head_bytes or len(matched[1]) > limits.target_bytes:
        return _parse_head_cached(head, limits)
    known = _parse_read_cached(head[matched.end() :], limits)
    return ParsedHead(
        known.head.with_target(matched[1]), known.version, known.keep_alive, known.expects_continue, known.body_length
    )


def parse_head(head: bytes, limits: HeadLimits) -> ParsedHead:
    """Parse a whole head; raises ProblemError for one that must be rejected."""
    problem = check_head(head, limits)
    if problem is not None:
        raise ProblemError(problem)
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(head)
    try:
        request = cast(h11.Request, parser.next_event())  # A complete head is a request.
    except h11.RemoteProtocolError as error:  # h11 has a doubt that `check_head` does not know.
        raise ProblemError(MALFORMED.problem("The framing of the request is malformed.")) from error
    fields = dict(request.headers)
    headers = tuple(request.headers)
    if not UPGRADE_FIELDS.isdisjoint(fields):  # What takes the request further must not accept the offer either.
        headers = tuple(each for each in headers if each[0] not in UPGRADE_FIELDS)
    parsed_head = to_origin_form(RequestHead(request.method.decode("ascii"), request.target, headers))
    version = b"1.0" if request.http_version == b"1.0" else b"1.1"
    is_chunked = b"transfer-encoding" in fields
    length = None if is_chunked else int(fields.get(b"content-length", b"0"))
    return ParsedHead(
        parsed_head,
        version,
        _keeps_alive(parsed_head, version),
        fields.get(b"expect", b"").lower() == b"100-continue" and version == b"1.1" and length != 0,
        length,
    )


_parse_head_cached = lru_cache(maxsize=HEADS_CACHED)(parse_head)
"""Caches heads: a client repeats the same head but for the length of its body."""


@lru_cache(maxsize=HEADS_CACHED)
def _parse_read_cached(fields: bytes, limits: HeadLimits) -> ParsedHead:
    """Parse the fields of a plain GET and cache them, as a client that looks many payments up repeats all but the
    target; raises ProblemError."""
    return parse_head(b"GET / HTTP/1.1\r\n" + fields, limits)


class _ChunkedRequestBody:
    """Collects a chunked body within its limits."""

    def __init__(self) -> None:
        # Trailers are an error: no field of a request of ours may stand there, and a program before or behind this
        # one could read them differently.
        self._decoder = ChunkedBody(has_trailers=False)
        self._body = bytearray()

    @property
    def size_bytes(self) -> int:
        """The bytes of the body that have arrived."""
        return len(self._body)

    @property
    def trailing_data(self) -> bytes:
        """The bytes after the complete body, which belong to the next request."""
        return self._decoder.trailing_data

    def receive(self, data: bytes, limit: int) -> bytes | None:
        """Decode these bytes; return the whole body once it is complete."""
        try:
            for piece in self._decoder.receive(data):
                self._body += piece
                if len(self._body) > limit:
                    raise body_too_large(limit)
                if self._decoder.chunk_count > CHUNKS_MAX:
                    raise ProblemError(MALFORMED.problem("The body comes in too many chunks."))
        except ChunkedBodyError as error:
            raise ProblemError(MALFORMED.problem(str(error))) from None
        return bytes(self._body) if self._decoder.is_complete else None


def _keeps_alive(head: RequestHead, version: bytes) -> bool:
    options = b",".join(head.values(b"connection")).lower()
    if not options:
        return version == b"1.1"
    named = {option.strip() for option in options.split(b",")}
    return b"close" not in named and (version == b"1.1" or b"keep-alive" in named)
