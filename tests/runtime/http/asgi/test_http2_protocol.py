"""The protocol of one HTTP/2 connection alone: whatever comes, it says how to go on."""

from __future__ import annotations

import h2.config
import h2.connection
import h2.events
from h2.errors import ErrorCodes
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.http2_frames import (
    DATA,
    FRAMES_BURST,
    GOAWAY,
    NEEDED_COST,
    PREFACE,
    WINDOW_UPDATE,
)
from mmo_trio.http.asgi.http2_protocol import (
    STREAMS_MAX,
    BodyReceived,
    Http2Protocol,
    RequestReceived,
    StreamLost,
)

REQUEST = ((b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/"))
OK = ((b":status", b"200"),)


class Peer:
    """A client of h2, and the protocol that it talks to."""

    def __init__(self) -> None:
        self.protocol = Http2Protocol(head_bytes_max=32 * 1024)
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self.client.initiate_connection()
        self.talk()

    def talk(self, frames: bytes = b"", frames_max: int = 1000) -> list[object]:
        """Exchange what both have to say; return what the protocol has found."""
        self.protocol.receive(self.client.data_to_send() + frames)
        return list(self.protocol.next_events(frames_max=frames_max, now=0))

    def hear(self, bytes_max: int = 1 << 20) -> list[h2.events.Event]:
        """Return what the client has found in what the protocol sends."""
        return self.client.receive_data(self.protocol.data_to_send(bytes_max))

    def ask(self, number: int, *more: tuple[bytes, bytes], ends: bool = True) -> list[object]:
        """Send a request."""
        self.client.send_headers(number, [*REQUEST, *more], end_stream=ends)
        return self.talk()


def frame(kind: int, number: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    """A frame as it is."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + number.to_bytes(4, "big") + payload
    )


def test_each_turn_handles_few_frames() -> None:
    peer = Peer()
    window_update = frame(WINDOW_UPDATE, payload=b"\0\0\0\1")
    peer.talk(window_update * 150, frames_max=64)
    assert peer.protocol.has_frames
    peer.talk(frames_max=64)
    assert peer.protocol.has_frames
    peer.talk(frames_max=64)
    assert not peer.protocol.has_frames
    assert peer.protocol.fault is None


def test_streams_take_turns() -> None:
    peer = Peer()
    for number in (1, 3):
        peer.ask(number)
        peer.protocol.respond(number, OK, bytes([number]) * 30_000, ends=True)
    pieces = [each for each in peer.hear() if isinstance(each, h2.events.DataReceived)]
    assert [each.stream_id for each in pieces] == [1, 3, 1, 3]
    assert peer.protocol.take_sent() == [1, 3]


def test_an_answer_waits_for_the_windows_and_is_whole() -> None:
    peer = Peer()
    peer.ask(1)
    peer.protocol.respond(1, OK, b"x" * 200_000, ends=True)
    received = 0
    for _ in range(20):
        for event in peer.hear(bytes_max=1):
            if isinstance(event, h2.events.DataReceived):
                received += len(event.data)
                peer.client.acknowledge_received_data(event.flow_controlled_length, 1)
        peer.talk()
    assert received == 200_000
    assert peer.protocol.take_sent() == [1]


def test_what_is_refused_in_a_drain_is_not_taken() -> None:
    peer = Peer()
    assert [type(each) for each in peer.ask(1)] == [RequestReceived]
    peer.protocol.refuses_requests = True
    assert peer.ask(3) == []
    peer.protocol.respond(1, OK, b"", ends=True)
    peer.protocol.end()
    events = peer.hear()
    (reset,) = [each for each in events if isinstance(each, h2.events.StreamReset)]
    (goodbye,) = [each for each in events if isinstance(each, h2.events.ConnectionTerminated)]
    assert (reset.stream_id, reset.error_code) == (3, ErrorCodes.REFUSED_STREAM)
    assert (goodbye.error_code, goodbye.last_stream_id) == (0, 1)


def test_a_fault_of_the_connection_names_the_last_request_that_was_taken() -> None:
    peer = Peer()
    for number in range(1, 2 * STREAMS_MAX + 2, 2):
        peer.ask(number)
    peer.talk(frame(DATA, 0, b"x"))  # No body is one of the connection.
    assert peer.protocol.fault is ErrorCodes.PROTOCOL_ERROR
    assert not peer.protocol.can_send
    peer.protocol.respond(1, OK, b"x", ends=True)
    assert peer.protocol.take_sent() == [1]
    peer.protocol.end()
    (goodbye,) = [each for each in peer.hear() if isinstance(each, h2.events.ConnectionTerminated)]
    assert goodbye.last_stream_id == 2 * STREAMS_MAX - 1


def test_a_client_that_leaves_is_heard_and_answered() -> None:
    peer = Peer()
    peer.ask(1, ends=False)
    peer.talk(frame(GOAWAY, payload=bytes(8)))
    assert peer.protocol.is_client_leaving
    peer.client.send_data(1, b"12345", end_stream=True)
    (piece,) = peer.talk()
    assert isinstance(piece, BodyReceived)
    peer.protocol.respond(1, OK, b"x", ends=True)
    assert any(isinstance(each, h2.events.StreamEnded) for each in peer.hear())


def test_trailers_that_end_nothing_lose_their_stream_alone() -> None:
    peer = Peer()
    peer.ask(1, ends=False)
    peer.ask(3)
    peer.client.send_headers(1, [(b"x", b"y")], end_stream=True)
    trailers = bytearray(peer.client.data_to_send())
    trailers[4] &= ~1
    assert peer.talk(bytes(trailers)) == [StreamLost(1)]
    peer.protocol.respond(3, OK, b"x", ends=True)
    assert peer.protocol.fault is None
    assert peer.protocol.data_to_send(1 << 20)


def test_resets_earn_no_further_frames() -> None:
    """A client that resets what it has asked for, before and after the answers are ready."""
    peer = Peer()
    number = 1
    while peer.protocol.fault is None:
        assert number < 20 * FRAMES_BURST
        peer.ask(number)
        peer.client.reset_stream(number)
        peer.talk()
        peer.protocol.respond(number, OK, b"x", ends=True)
        peer.protocol.data_to_send(1 << 20)
        number += 2
    assert peer.protocol.fault is ErrorCodes.ENHANCE_YOUR_CALM


FRAMES = st.builds(
    frame,
    st.integers(0, 10),
    st.sampled_from([0, 1, 3, 5, 2]),
    st.one_of(st.binary(max_size=20), st.just(bytes(4)), st.just(bytes(8))),
    st.sampled_from([0, 1, 4, 5, 8, 0x20]),
)


@given(st.lists(FRAMES, max_size=40), st.integers(min_value=1, max_value=10))
def test_whatever_frames_come_the_protocol_goes_on_or_ends(
    frames: list[bytes], frames_max: int
) -> None:
    peer = Peer()
    peer.ask(1, ends=False)
    peer.ask(3)
    for each in frames:
        peer.talk(each, frames_max=frames_max)
        peer.protocol.data_to_send(1000)
    peer.protocol.respond(3, OK, b"x" * 1000, ends=True)
    peer.protocol.respond(1, OK, b"x" * 1000, ends=False)
    peer.protocol.finish(1)
    peer.protocol.data_to_send(1 << 20)
    assert {1, 3} <= {*peer.protocol.take_sent()}
    peer.protocol.end()
    peer.protocol.data_to_send(1 << 20)


@given(st.binary(max_size=200))
def test_whatever_bytes_come_the_protocol_goes_on_or_ends(data: bytes) -> None:
    protocol = Http2Protocol(head_bytes_max=1024)
    protocol.receive(PREFACE + data)
    protocol.next_events(frames_max=int(FRAMES_BURST / NEEDED_COST), now=0)
    protocol.end()
    assert protocol.data_to_send(1 << 20)
