"""Provides an HTTP/2 client: with prior knowledge (RFC 9113 section 3.3), or on a stream that has
agreed on it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import h2.config
import h2.connection
import h2.events
import trio
from attrs import Factory, define

from tests.support.http_listener import Answer

Fields = Sequence[tuple[bytes, bytes]]


@define(eq=False)
class _PendingAnswer:
    """Collects an answer."""

    headers: dict[str, str] = Factory(dict)
    body: bytearray = Factory(bytearray)
    is_whole: bool = False
    is_invited: bool = False
    """Whether the server has asked for the body."""


@define(eq=False)
class Http2Client:
    """Sends requests on one connection, one after the other."""

    stream: trio.abc.Stream
    authority: bytes = b"h"
    """The host that requests name."""
    goodbye: int | None = None
    """The error code with which the server has ended the connection, 0 for none; None before."""
    last_taken: int | None = None
    """The last stream that the server may have done something about, as it said then."""
    resets: dict[int, int] = Factory(dict)
    """The error codes with which the server has ended requests, by stream."""
    _talk: h2.connection.H2Connection = Factory(
        lambda: h2.connection.H2Connection(
            h2.config.H2Configuration(
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
    )

    _coming: dict[int, _PendingAnswer] = Factory(dict)

    @classmethod
    async def connect(cls, port: int) -> Http2Client:
        """A new connection in the clear."""
        return await cls.start(await trio.open_tcp_stream("127.0.0.1", port))

    @classmethod
    async def start(cls, stream: trio.abc.Stream, authority: bytes = b"h") -> Http2Client:
        """A new connection on this stream."""
        client = cls(stream, authority)
        client._talk.initiate_connection()
        await client._flush()
        return client

    async def ask(self, method: bytes, target: bytes, fields: Fields, body: bytes = b"") -> Answer:
        """The whole answer to one request."""
        number = await self.begin(method, target, fields, ends=not body)
        if body:
            await self.send_body(number, body)
        return await self.answer(number)

    async def begin(self, method: bytes, target: bytes, fields: Fields, *, ends: bool) -> int:
        """Send a head; the number of its stream."""
        number = self._talk.get_next_available_stream_id()
        self._coming[number] = _PendingAnswer()
        pseudo = [
            (b":method", method),
            (b":scheme", b"http"),
            (b":authority", self.authority),
            (b":path", target),
        ]
        self._talk.send_headers(number, [*pseudo, *fields], end_stream=ends)
        await self._flush()
        return number

    async def send_frame(
        self, kind: int, number: int = 0, payload: bytes = b"", flags: int = 0, *, times: int = 1
    ) -> None:
        """Send a frame that the library would not send, or would end the connection with."""
        head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + number.to_bytes(4, "big")
        await self.stream.send_all((head + payload) * times)

    async def send_body(self, number: int, body: bytes) -> None:
        """Send a whole body, as the server's window lets us."""
        rest = body
        while rest:
            room = min(
                self._talk.local_flow_control_window(number), self._talk.max_outbound_frame_size
            )
            if room:
                piece, rest = rest[:room], rest[room:]
                self._talk.send_data(number, piece, end_stream=not rest)
                await self._flush()
            else:
                await self._receive()

    def room(self, number: int) -> int:
        """How many more bytes of a body the server's windows let us send."""
        return self._talk.local_flow_control_window(number)

    async def send_trailers(self, number: int, fields: Fields) -> None:
        """End a request with fields behind its body."""
        self._talk.send_headers(number, fields, end_stream=True)
        await self._flush()

    async def wait_invited(self, number: int) -> None:
        """Wait until the server asks for the body of this request."""
        while not self._coming[number].is_invited:
            await self._receive()

    async def answer(self, number: int) -> Answer:
        """The whole answer on this stream. The connection must not end before it."""
        coming = self._coming[number]
        while not coming.is_whole:
            assert number not in self.resets, "the request was refused"
            await self._receive()
        return Answer(int(coming.headers.pop(":status")), coming.headers, bytes(coming.body))

    async def wait_ended(self) -> None:
        """Wait until the server has closed the connection."""
        with suppress(trio.BrokenResourceError):
            while data := await self.stream.receive_some():
                for event in self._talk.receive_data(bytes(data)):
                    self._handle_event(event)

    async def _receive(self) -> None:
        data = bytes(await self.stream.receive_some())
        assert data, "the connection ended before the answer did"
        for event in self._talk.receive_data(data):
            self._handle_event(event)
        await self._flush()

    def _handle_event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.StreamReset):
            self.resets[event.stream_id] = int(event.error_code or 0)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goodbye = int(event.error_code or 0)
            self.last_taken = event.last_stream_id
        elif isinstance(event, h2.events.ResponseReceived):
            fields = [(bytes(n).decode(), bytes(v).decode()) for n, v in event.headers or ()]
            self._coming[event.stream_id or 0].headers = dict(fields)
            assert len(dict(fields)) == len(fields)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            self._coming[event.stream_id or 0].is_invited = True
        elif isinstance(event, h2.events.DataReceived):
            self._coming[event.stream_id or 0].body += event.data or b""
            self._talk.acknowledge_received_data(
                event.flow_controlled_length or 0, event.stream_id or 0
            )
        elif isinstance(event, h2.events.StreamEnded):
            self._coming[event.stream_id or 0].is_whole = True

    async def _flush(self) -> None:
        await self.stream.send_all(self._talk.data_to_send())
