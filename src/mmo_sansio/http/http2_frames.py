"""Counts the frames by which an HTTP/2 client makes work without asking for anything (RFC 9113
section 10.5).

A stream that is opened and reset at once costs the client a few bytes and the server a whole
request; PING, SETTINGS, PRIORITY and CONTINUATION are as cheap to send. A client that behaves needs
few of them."""

from __future__ import annotations

from typing import Final

from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values.clock import SECOND, MonotonicInstant

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The bytes with which a client begins HTTP/2 (RFC 9113 section 3.4)."""
FRAME_HEAD_BYTES: Final = 9
PRIORITY, RST_STREAM, SETTINGS, PING, CONTINUATION = 0x2, 0x3, 0x4, 0x6, 0x9
"""Types of frames that are counted (RFC 9113 section 6)."""
COUNTED: Final = frozenset({PRIORITY, RST_STREAM, SETTINGS, PING, CONTINUATION})

FRAMES_PER_S: Final = 10.0
"""Counted frames that one connection may send in the long run."""
FRAMES_BURST: Final = 100.0
"""Counted frames that one connection may send at once."""


class FrameCounter:
    """Finds the frames in what one client sends, and counts those of the counted types."""

    def __init__(self) -> None:
        self._head = b""
        """The end of what was received: a part of a frame's head."""
        self._payload_bytes = len(PREFACE)
        """Bytes of the preface, and then of the present frame, that are still to come."""
        self._bucket = TokenBucket(FRAMES_PER_S, FRAMES_BURST)

    def receive(self, data: bytes, *, now: float) -> bool:
        """Count the frames in these bytes; return False once there were too many. `now` is a
        monotonic time in seconds."""
        counted, at = self._count(self._head + data), MonotonicInstant(int(now * SECOND))
        is_allowed = self._bucket.delay(at, counted) == 0
        self._bucket.spend(at, counted)
        return is_allowed

    def _count(self, data: bytes) -> int:
        counted, position = 0, self._payload_bytes
        while position + FRAME_HEAD_BYTES <= len(data):
            counted += data[position + 3] in COUNTED
            position += FRAME_HEAD_BYTES + int.from_bytes(data[position : position + 3], "big")
        self._payload_bytes = max(0, position - len(data))
        self._head = data[position:]
        return counted
