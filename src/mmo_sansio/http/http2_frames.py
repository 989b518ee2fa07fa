"""Divides what an HTTP/2 client sends into frames, and makes every frame cost something (RFC 9113
sections 4.1 and 10.5).

A frame costs its sender a few bytes and the server a turn of its parser, whatever it says. So each
one takes of an allowance, less where requests need it; answers, and bytes of bodies in either
direction, give some of it back. A client that only makes work runs out of it."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values.clock import SECOND, MonotonicInstant

# The bytes with which a client begins HTTP/2 (RFC 9113 section 3.4).
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

FRAME_HEAD_BYTES: Final = 9

# Bytes of a payload that every endpoint has to take (RFC 9113 section 4.2); no more is offered.
PAYLOAD_BYTES_MAX: Final = 16_384

# Types of frames (RFC 9113 section 6).
DATA, HEADERS, SETTINGS, GOAWAY, WINDOW_UPDATE = 0x0, 0x1, 0x4, 0x7, 0x8

# Types without which nobody can ask for anything.
NEEDED: Final = frozenset({DATA, HEADERS, WINDOW_UPDATE})

END_STREAM: Final = 0x1
ACKNOWLEDGEMENT: Final = 0x1
PADDED: Final = 0x8

# Frames that no request needs which one connection may send in the long run.
FRAMES_PER_S: Final = 10.0

# Frames that no request needs which one connection may send at once.
FRAMES_BURST: Final = 100.0

# The part of such a frame's cost that one of a needed type has.
NEEDED_COST: Final = 0.1

# Enough for the frames of the next request, for the windows of its answer, and for a PING.
GIVEN_BACK_BY_ANSWER: Final = 2.0

# For each KiB of a body: clients such as Go's open their windows anew every 4 KiB.
GIVEN_BACK_BY_KIB: Final = 0.1


@frozen
class Frame:
    """Is one frame as it came."""

    data: bytes
    """With its head."""
    kind: int = field(init=False)
    """Its type; an unknown one is to be ignored (RFC 9113 section 4.1)."""
    flags: int = field(init=False)
    stream_id: int = field(init=False)
    """The stream that it belongs to; 0 for the connection."""

    def __attrs_post_init__(self) -> None:
        # Length 3, type 1, flags 1, stream 4 bytes (section 4.1); the stream's highest bit is
        # reserved.
        stream_id = int.from_bytes(self.data[5:FRAME_HEAD_BYTES], "big") & 0x7FFF_FFFF
        object.__setattr__(self, "kind", self.data[3])
        object.__setattr__(self, "flags", self.data[4])
        object.__setattr__(self, "stream_id", stream_id)

    @property
    def cost(self) -> float:
        """What it takes of its connection's allowance."""
        if self.kind in NEEDED:
            return NEEDED_COST
        return 1.0

    @property
    def body_bytes(self) -> int:
        """The bytes of a request's body in a DATA frame, without padding."""
        size_bytes = len(self.data) - FRAME_HEAD_BYTES
        # The first byte of the payload says how long the padding is (section 6.1).
        if self.flags & PADDED and size_bytes:
            size_bytes -= 1 + self.data[FRAME_HEAD_BYTES]
        return max(0, size_bytes)


class FrameTooLarge(Exception):
    """A frame is larger than was offered (FRAME_SIZE_ERROR)."""


class NotHttp2(Exception):
    """The client does not begin with the preface of HTTP/2."""


class FrameReader:
    """Divides the bytes of one client into its preface and its frames, in whatever pieces they
    come."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._has_begun = False

    def receive(self, data: bytes) -> None:
        """Keep what has come until it is asked for."""
        self._received += data

    def next_frame(self) -> Frame | None:
        """Return the next frame; None until all of it has come. Raises NotHttp2, and FrameTooLarge
        as soon as the head of a frame tells its size."""
        if not self._has_begun and not self._take_preface():
            return None
        if len(self._received) < FRAME_HEAD_BYTES:
            return None

        # Judged by the head alone: nothing of a frame that is too large is kept.
        payload_bytes = int.from_bytes(self._received[:3], "big")
        if payload_bytes > PAYLOAD_BYTES_MAX:
            raise FrameTooLarge

        end = FRAME_HEAD_BYTES + payload_bytes
        if len(self._received) < end:
            return None

        frame = Frame(bytes(self._received[:end]))
        del self._received[:end]
        return frame

    def _take_preface(self) -> bool:
        # Refused at the first wrong byte: an HTTP/1.1 client must not wait for its timeout.
        begin = self._received[: len(PREFACE)]
        if not PREFACE.startswith(begin):
            raise NotHttp2
        if len(begin) < len(PREFACE):
            return False

        del self._received[: len(PREFACE)]
        self._has_begun = True
        return True


class FrameAllowance:
    """Says how many frames one client may still send. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._bucket = TokenBucket(FRAMES_PER_S, FRAMES_BURST)

    def take(self, frame: Frame, *, now: float) -> bool:
        """Count a frame; return False once there were too many."""
        at = MonotonicInstant(int(now * SECOND))
        is_allowed = self._bucket.delay(at, frame.cost) == 0
        # Spent also when it is too much, so that a client that goes on stays out.
        self._bucket.spend(at, frame.cost)
        return is_allowed

    def give_back(self, *, now: float, answers: int = 0, body_bytes: int = 0) -> None:
        """Give some back for answers that were sent, and for bytes of bodies that were taken or
        sent."""
        # The bucket's size bounds what is given back: nobody saves up for a flood.
        earned = answers * GIVEN_BACK_BY_ANSWER + body_bytes / 1024 * GIVEN_BACK_BY_KIB
        self._bucket.spend(MonotonicInstant(int(now * SECOND)), -earned)
