"""Speaks HTTP/2 as a server, without a socket and without a clock: bytes in, events and bytes out.

h2 keeps the states of streams, windows and compressed heads. It ends a connection for much that
concerns one stream, or that need not end anything, so it isn't shown everything:

- after a GOAWAY of the client it would send nothing more, though the streams that exist go on (RFC
  9113 section 6.8);
- once its own limit of streams is acknowledged, a stream beyond it would end the connection, where
  the stream alone is to be refused (section 5.1.2);
- a message that isn't as long as it says would end the connection, where its stream alone is to be
  reset (section 8.1.1).

Each frame is shown alone, so a connection that fails has handled all of what came before."""

from __future__ import annotations

from typing import Final, TypeAlias

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from attrs import define, field, frozen
from h2.errors import ErrorCodes

from mmo_sansio.http.http2_frames import (
    ACKNOWLEDGEMENT,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    SETTINGS,
    Frame,
    FrameAllowance,
    FrameReader,
    FrameTooLarge,
    NotHttp2,
)
from mmo_sansio.http.messages import Headers

# Requests that one connection may have open; further ones are refused, to be sent again later.
# RFC 9113 section 6.5.2 recommends 100 and more; merchants need few, and each may hold a body.
STREAMS_MAX: Final = 8

# Bytes of one body that are sent before another stream has its turn.
SENT_PIECE_BYTES: Final = 16 * 1024


@frozen
class RequestReceived:
    """The head of a request has come."""

    stream_id: int
    fields: Headers
    """As they were sent, pseudo-header fields among them; nothing of them is checked."""
    ends: bool
    """Whether the request has no body."""


@frozen
class BodyReceived:
    """A piece of a body has come."""

    stream_id: int
    data: bytes
    window_bytes: int
    """What it takes of the client's windows until it is acknowledged: its bytes and padding."""
    ends: bool
    """Whether it is the last one."""


@frozen
class TrailersReceived:
    """Header fields have come behind a body, and end the request."""

    stream_id: int


@frozen
class StreamLost:
    """The stream is over before its answer: its client has reset it, or it was at fault."""

    stream_id: int


Event: TypeAlias = RequestReceived | BodyReceived | TrailersReceived | StreamLost


@define(eq=False)
class _Stream:
    """A stream that is open in at least one direction."""

    missing_bytes: int | None
    """Bytes of the body that are still to come, by its Content-Length."""
    is_request_whole: bool
    is_answer_whole: bool = field(default=False, init=False)
    """Whether the end of the answer was sent."""
    unsent: memoryview = field(factory=lambda: memoryview(b""), init=False)
    ends_with_unsent: bool = field(default=False, init=False)


class Http2Protocol:
    """One connection. `receive` bytes, take `next_events`, and send `data_to_send` after each call
    of any other method."""

    def __init__(self, *, head_bytes_max: int) -> None:
        # Whether requests that come now are refused, to be sent again elsewhere.
        self.refuses_requests = False

        # Whether the client has said GOAWAY: once its requests are answered, the connection is
        # over.
        self.is_client_leaving = False

        # Why the connection has to end: nothing more is read then, and answers that are still to
        # come can be sent only while `can_send`.
        self.fault: ErrorCodes | None = None
        self.can_send = True

        # Whether `next_events` has stopped before the end of what has come.
        self.has_frames = False
        self._reader = FrameReader()
        self._allowance = FrameAllowance()
        self._earned_answers = 0
        self._earned_body_bytes = 0

        # The highest number of a stream that became a request.
        self._last_taken = 0
        self._streams: dict[int, _Stream] = {}

        # Streams with bytes or an end to send, in the order of their turns.
        self._sending: dict[int, _Stream] = {}
        self._sent: list[int] = []
        self._output = bytearray()

        # Fields are checked where HTTP/1.1 checks them, and a fault of theirs is answered.
        config = h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
        )
        self._connection = h2.connection.H2Connection(config)
        self._connection.initiate_connection()

        # The client learns of these limits; h2 itself stays with higher ones, as it isn't shown
        # that they were acknowledged.
        self._connection.update_settings(
            {
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: head_bytes_max,
            }
        )
        self._connection.receive_data(PREFACE)

    def receive(self, data: bytes) -> None:
        """Take what has come from the client."""
        self._reader.receive(data)

    def next_events(self, *, frames_max: int, now: float) -> list[Event]:
        """Handle so many frames at most, and return what they mean. `now` is a monotonic time in
        seconds."""
        # What was earned since the last call counts first: a busy client is not taken for a flood.
        self._allowance.give_back(
            now=now, answers=self._earned_answers, body_bytes=self._earned_body_bytes
        )
        self._earned_answers = self._earned_body_bytes = 0

        events: list[Event] = []
        self.has_frames = True
        for _ in range(frames_max):
            frame = self._next_frame()
            if frame is None:
                self.has_frames = False
                break

            if not self._allowance.take(frame, now=now):
                self.fault = ErrorCodes.ENHANCE_YOUR_CALM
                break

            events += self._handle_frame(frame)
            if self.fault is not None:
                break

        return events

    def acknowledge(self, event: BodyReceived, *, is_wanted: bool) -> None:
        """Give the client the room of this piece back in its windows. A body that nobody wants
        earns it no further frames."""
        if self.can_send and event.window_bytes:
            self._connection.acknowledge_received_data(event.window_bytes, event.stream_id)
        if is_wanted:
            self._earned_body_bytes += len(event.data)

    def invite_body(self, stream_id: int) -> None:
        """Tell a client that waits for it to send its body (RFC 9110 section 10.1.1)."""
        if self.can_send and stream_id in self._streams:
            self._connection.send_headers(stream_id, [(b":status", b"100")])

    def respond(self, stream_id: int, fields: Headers, body: bytes, *, ends: bool) -> None:
        """Send an answer, as the windows of its client let it; `ends` also ends the stream. A
        stream that is lost gets none. Fields begin with `:status`."""
        stream = self._streams.get(stream_id)
        if stream is None or not self.can_send:
            self._sent.append(stream_id)
            return

        # One frame fewer where there is no body.
        ends_at_once = ends and not body
        self._connection.send_headers(stream_id, fields, end_stream=ends_at_once)
        if ends_at_once:
            self._end_answer(stream_id, stream)

        stream.unsent = memoryview(body)
        stream.ends_with_unsent = ends
        if body:
            self._sending[stream_id] = stream
        else:
            self._sent.append(stream_id)

    def finish(self, stream_id: int) -> None:
        """End an answer that has not ended with its last byte."""
        stream = self._streams.get(stream_id)
        if stream is not None and self.can_send and not stream.is_answer_whole:
            stream.ends_with_unsent = True
            self._sending[stream_id] = stream

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End one stream; the others go on."""
        # h2 raises an error for a stream that is over already.
        if self._streams.pop(stream_id, None) is not None and self.can_send:
            self._connection.reset_stream(stream_id, code)
        if self._sending.pop(stream_id, None) is not None:
            self._sent.append(stream_id)

    def end(self) -> None:
        """Say GOAWAY, with the last request that was taken: those after it may be sent again."""
        self._take_output()
        code = ErrorCodes.NO_ERROR if self.fault is None else self.fault
        self._connection.close_connection(code, last_stream_id=self._last_taken)
        self.can_send = False

    def data_to_send(self, bytes_max: int) -> bytes:
        """Return what is to be sent now: about so much of bodies, one stream after the other, with
        everything that is no body."""
        self._take_output()
        blocked = 0

        # Ends once each stream in turn was found without room in its client's windows.
        while self.can_send and blocked < len(self._sending) and len(self._output) < bytes_max:
            # The first in line; with more to send it goes to the end of it.
            stream_id = next(iter(self._sending))
            stream = self._sending.pop(stream_id)
            if self._send_piece(stream_id, stream):
                blocked = 0
            else:
                blocked += 1
                self._sending[stream_id] = stream

            self._take_output()

        output = bytes(self._output)
        self._output.clear()
        return output

    def take_sent(self) -> list[int]:
        """Return the streams of which nothing is left to be sent, each once. What `data_to_send`
        has returned counts as sent."""
        sent, self._sent = self._sent, []
        return sent

    def _next_frame(self) -> Frame | None:
        try:
            return self._reader.next_frame()
        except FrameTooLarge:
            self.fault = ErrorCodes.FRAME_SIZE_ERROR
        except NotHttp2:
            self.fault = ErrorCodes.PROTOCOL_ERROR
        return None

    def _handle_frame(self, frame: Frame) -> list[Event]:
        # Frames that h2 is not shown; see above.
        if frame.kind == GOAWAY:
            self.is_client_leaving = True
            return []

        if frame.kind == SETTINGS and frame.flags & ACKNOWLEDGEMENT:
            return []

        events: list[Event] = []
        stream = self._streams.get(frame.stream_id)
        if stream is not None and _is_out_of_place(frame, stream):
            # h2 lets pass what comes for a stream that was reset here.
            self.reset(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)
            events.append(StreamLost(frame.stream_id))

        # `_fail` drops what h2 has to send, its GOAWAY, so what stands before that is taken out.
        self._take_output()
        try:
            received = self._connection.receive_data(frame.data)
        except h2.exceptions.ProtocolError as error:
            self._fail(ErrorCodes(error.error_code))
            return events

        for received_event in received:
            event = self._translate(received_event)
            if event is not None:
                events.append(event)

        return events

    def _fail(self, code: ErrorCodes) -> None:
        """End a connection in which h2 has found a fault: it sends nothing but GOAWAY any more."""
        self.fault, self.can_send = code, False
        self._connection.clear_outbound_data_buffer()  # Its GOAWAY names refused streams as taken.
        self._sent += self._sending
        self._sending.clear()

    def _translate(self, event: h2.events.Event) -> Event | None:
        match event:
            case h2.events.RequestReceived():
                return self._open_stream(event)
            case h2.events.DataReceived():
                stream = self._streams[event.stream_id]
                if stream.missing_bytes is not None:
                    stream.missing_bytes -= len(event.data)
                ends = event.stream_ended is not None
                if ends:
                    self._end_request(event.stream_id, stream)
                return BodyReceived(
                    event.stream_id, bytes(event.data), event.flow_controlled_length, ends
                )
            case h2.events.TrailersReceived():
                self._end_request(event.stream_id, self._streams[event.stream_id])
                return TrailersReceived(event.stream_id)
            case h2.events.StreamReset():
                return self._lose_stream(event.stream_id)

        return None

    def _open_stream(self, event: h2.events.RequestReceived) -> RequestReceived | None:
        stream_id = event.stream_id

        # REFUSED_STREAM promises that nothing was done: the client may send it again (section 8.7).
        if self.refuses_requests or len(self._streams) >= STREAMS_MAX:
            self._connection.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return None

        fields = tuple((bytes(name), bytes(value)) for name, value in event.headers)
        ends = event.stream_ended is not None
        self._streams[stream_id] = _Stream(_body_length(fields), is_request_whole=ends)
        self._last_taken = stream_id
        return RequestReceived(stream_id, fields, ends)

    def _lose_stream(self, stream_id: int) -> StreamLost | None:
        if self._streams.pop(stream_id, None) is None:
            return None
        if self._sending.pop(stream_id, None) is not None:
            self._sent.append(stream_id)
        return StreamLost(stream_id)

    def _send_piece(self, stream_id: int, stream: _Stream) -> bool:
        """Send a frame of a body, and its end; False when its client leaves no room for it."""
        # The smallest of: both windows, the client's frame size, one turn's share.
        room = min(
            self._connection.local_flow_control_window(stream_id),
            self._connection.max_outbound_frame_size,
            SENT_PIECE_BYTES,
        )
        if stream.unsent and room <= 0:
            return False

        if stream.unsent:
            piece, stream.unsent = stream.unsent[:room], stream.unsent[room:]
            ends = stream.ends_with_unsent and not stream.unsent
            self._connection.send_data(stream_id, bytes(piece), end_stream=ends)
            self._earned_body_bytes += len(piece)
        else:
            ends = stream.ends_with_unsent
            self._connection.end_stream(stream_id)

        if ends:
            self._end_answer(stream_id, stream)

        if stream.unsent:
            self._sending[stream_id] = stream
        else:
            self._sent.append(stream_id)

        return True

    def _end_request(self, stream_id: int, stream: _Stream) -> None:
        stream.is_request_whole = True
        if stream.is_answer_whole:
            del self._streams[stream_id]

    def _end_answer(self, stream_id: int, stream: _Stream) -> None:
        stream.is_answer_whole = True
        self._earned_answers += 1
        if stream.is_request_whole:
            del self._streams[stream_id]

    def _take_output(self) -> None:
        self._output += self._connection.data_to_send()


def _body_length(fields: Headers) -> int | None:
    """Return what the fields say of the length of the body, as h2 reads them."""
    found = dict(fields)
    if found.get(b":method") == b"HEAD":
        return 0
    length = found.get(b"content-length")
    if length is None:
        return None
    return int(length)


def _is_out_of_place(frame: Frame, stream: _Stream) -> bool:
    """Return whether a frame makes a message malformed (RFC 9113 sections 8.1 and 8.1.1)."""
    ends = bool(frame.flags & END_STREAM)
    if frame.kind == HEADERS:
        return not ends  # Trailers end their request.
    if frame.kind != DATA or stream.missing_bytes is None:
        return False
    missing_bytes = stream.missing_bytes - frame.body_bytes
    return missing_bytes < 0 or (ends and missing_bytes > 0)
