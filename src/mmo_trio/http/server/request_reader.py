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
    find_early_fault,
    find_fault,
    origin_form,
)
from mmo_sansio.values.problems import MALFORMED, RefusedError
from mmo_trio.http.rejections import body_too_large

CHUNKS_MOST: Final = 2048
"""Chunks of one body: 64 KiB in chunks of 32 bytes fit; chunks of one byte would only burn our
time."""

HEADS_REMEMBERED: Final = 512
REMEMBERED_HEAD: Final = 2048
"""Bytes of the largest head that is remembered; larger ones are read anew."""


@frozen
class Opening:
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


class Inbox:
    """The bytes that came in on one connection and were not used yet."""

    def __init__(self, limits: HeadLimits) -> None:
        self._limits = limits
        self._unread = b""
        self._looked_at = 0
        self._due: int | _Chunks = (
            0  # the body that belongs to the last head: its length, or its chunks
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was received that is not used yet."""
        return not self._unread

    def receive(self, data: bytes | bytearray) -> None:
        """Take in what the connection brought."""
        self._unread += data

    def next_head(self) -> Opening | None:
        """The next request's head once it is complete; raises RefusedError for one that may not be
        read."""
        while self._unread.startswith(
            b"\r\n"
        ):  # after a body, by old clients: RFC 9112 section 2.2
            self._unread = self._unread[2:]
        end = self._unread.find(END_OF_HEAD, max(0, self._looked_at - len(END_OF_HEAD)))
        if end < 0:
            fault = find_early_fault(self._unread, self._limits, looked_at=self._looked_at)
            self._looked_at = len(self._unread)
            if fault is not None:
                raise RefusedError(fault)
            return None
        end += len(END_OF_HEAD)
        head, self._unread, self._looked_at = self._unread[:end], self._unread[end:], 0
        read = _remembered if len(head) <= REMEMBERED_HEAD else _read
        opening = read(head, self._limits)
        self._due = _Chunks(head) if opening.body_length is None else opening.body_length
        return opening

    def next_body(self, limit: int) -> bytes | None:
        """The body once it is complete; raises RefusedError for one larger than `limit` bytes, as
        soon as that shows, or with broken framing."""
        if isinstance(self._due, _Chunks):
            chunked = self._due.receive(self._unread, limit)
            self._unread = b"" if chunked is None else self._due.left_over
            return chunked
        if self._due > limit:
            raise body_too_large(limit)
        if self._due > len(self._unread):
            return None
        body, self._unread = self._unread[: self._due], self._unread[self._due :]
        return body

    def skip_body(self) -> bool:
        """Throw the body away when all of it is here; False when some is yet to come, so that
        nobody can tell where the next request begins unless it is read after all."""
        if isinstance(self._due, _Chunks) or self._due > len(self._unread):
            return False
        self._unread = self._unread[self._due :]
        return True


def _read(head: bytes, limits: HeadLimits) -> Opening:
    """What a whole head says; raises RefusedError for one that may not be read."""
    fault = find_fault(head, limits)
    if fault is not None:
        raise RefusedError(fault)
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(head)
    request = cast(h11.Request, _next_event(parser))  # a complete head is nothing else
    headers = tuple(request.headers)
    fields = dict(headers)
    is_chunked = b"transfer-encoding" in fields
    length = None if is_chunked else int(fields.get(b"content-length", b"0"))
    return Opening(
        RequestHead(request.method.decode("ascii"), origin_form(request.target), headers),
        request.http_version,
        _keeps_alive(headers, request.http_version),
        fields.get(b"expect", b"").lower() == b"100-continue"
        and request.http_version == b"1.1"
        and length != 0,
        length,
    )


_remembered = lru_cache(maxsize=HEADS_REMEMBERED)(_read)
"""A client sends the same head again and again, but for the length of its body."""


class _Chunks:
    """A chunked body on its way in (RFC 9112 section 7.1)."""

    def __init__(self, head: bytes) -> None:
        self._parser = h11.Connection(h11.SERVER)
        self._parser.receive_data(head)
        _next_event(self._parser)  # the head, which was read before
        self._body = bytearray()
        self._count = 0
        self._last_bytes = b""

    @property
    def left_over(self) -> bytes:
        """What came after the complete body: the next request's."""
        return self._parser.trailing_data[0]

    def receive(self, data: bytes, limit: int) -> bytes | None:
        """Take in what came, none of it if it is empty; the whole body once it is complete."""
        if not data:
            return None
        self._parser.receive_data(data)
        while isinstance(event := _next_event(self._parser), h11.Data):
            self._body += event.data
            self._count += event.chunk_start
            if len(self._body) > limit:
                raise body_too_large(limit)
            if self._count > CHUNKS_MOST:
                raise RefusedError(MALFORMED.problem("The body comes in too many chunks."))
        received = self._last_bytes + data
        self._last_bytes = received[-len(END_OF_HEAD) :]
        if not isinstance(event, h11.EndOfMessage):
            return None
        # h11 takes a bare LF for the end of the trailers, and reads trailers that nobody would see.
        if event.headers or not received.removesuffix(self.left_over).endswith(END_OF_HEAD):
            raise RefusedError(MALFORMED.problem("An empty line must follow the last chunk."))
        return bytes(self._body)


def _next_event(parser: h11.Connection) -> object:
    """h11's next event. It only sees heads that passed `find_fault`, so its refusals are about
    chunks, or doubts that we did not think of: either way the message can't be trusted."""
    try:
        return parser.next_event()
    except h11.RemoteProtocolError as error:
        raise RefusedError(MALFORMED.problem("The framing of the request is malformed.")) from error


def _keeps_alive(headers: Headers, version: bytes) -> bool:
    options = b",".join(header_values(headers, b"connection")).lower()
    if not options:
        return version == b"1.1"
    named = {option.strip() for option in options.split(b",")}
    return b"close" not in named and (version == b"1.1" or b"keep-alive" in named)
