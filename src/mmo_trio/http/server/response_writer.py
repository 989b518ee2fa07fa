"""Writes a response in pieces: with its length, or in chunks when the length is not known (RFC 9112 section 7.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from attrs import define, field

from mmo_sansio.http.messages import Headers
from mmo_trio.http.responses import BODYLESS_STATUSES, head_bytes

LAST_CHUNK: Final = b"0\r\n\r\n"
DISCARDED_BYTES_MAX: Final = 64 * 1024
"""Bytes that a client may send while it receives a stream; they are discarded, as no request follows a stream."""


@define(eq=False)
class PieceWriter:
    """Writes the pieces of one response to its connection."""

    _send: Callable[[bytes, bytes, bool], Awaitable[None]]
    """Sends a head or framing and then a piece; the flag says whether the piece has a deadline of its own."""
    _receive: Callable[[], Awaitable[bytes | bytearray]]
    _request_id: str
    _connection: Callable[[bool], bytes]
    """Returns the value of `Connection`, given whether another request may follow; empty for none."""
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
        """Whether the client can tell where the response ends, so that another one may follow on the connection."""
        return self.status is not None and self._missing_bytes == 0 and not self.is_lost

    async def begin(self, status: int, headers: Headers, *, length: int | None) -> None:
        """Set the head; see `ResponseWriter`. Raises ValueError for a header field that would break out of its line."""
        if status in BODYLESS_STATUSES:
            framing, self._missing_bytes = b"", 0
        elif length is not None:
            framing = b"Content-Length: %d\r\n" % length
            self._missing_bytes = 0 if self._is_head_request else length
        else:
            framing = b"" if self._is_http_1_0 else b"Transfer-Encoding: chunked\r\n"
        connection = self._connection(self._missing_bytes is not None)
        if connection:
            framing += b"Connection: " + connection + b"\r\n"
        self._head = head_bytes(status, headers, request_id=self._request_id, extra=framing + self._extra)
        self.status = status
        if self._missing_bytes is None:
            self._is_stream.set()

    async def write(self, data: bytes) -> None:
        """Send a piece; see `ResponseWriter`. Bytes beyond the length are a fault of the caller: ValueError."""
        assert self.status is not None
        if not data or self._is_head_request or self.status in BODYLESS_STATUSES:
            return
        if self._missing_bytes is not None:
            if len(data) > self._missing_bytes:
                raise ValueError("the body of a response is longer than its Content-Length")
            self._missing_bytes -= len(data)
            await self._send_piece(b"", data)
        elif self._is_http_1_0:
            await self._send_piece(b"", data)
        else:
            await self._send_piece(b"%x\r\n" % len(data), data + b"\r\n")

    async def finish(self) -> None:
        """End the response. Raises ValueError when it has not begun, or lacks a part of its body."""
        if self.status is None or self._missing_bytes:
            raise ValueError("a response ended before it was complete")
        is_chunked = self._missing_bytes is None and not self._is_http_1_0 and not self._is_head_request
        await self._send_piece(LAST_CHUNK if is_chunked else b"", b"")

    async def wait_disconnected(self) -> None:
        """Wait until the client needs no more of a stream; see `ResponseWriter`."""
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
