"""Decodes a chunked body as it arrives, strictly by RFC 9112 section 7.1: lines end in CR LF, and
the size of a chunk has hexadecimal digits only. Extensions have no meaning here and are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Bytes of the line before a chunk: its size and its extensions.
# Programs send a size and nothing else; this leaves room for extensions.
SIZE_LINE_BYTES_MAX: Final = 256

# Bytes of the trailer section, where there may be one.
TRAILER_BYTES_MAX: Final = 8 * 1024

_SIZE: Final = rb"([0-9A-Fa-f]{1,16}+)[ \t]*+(?:;[\t\x20-\x7e\x80-\xff]*+)?\r"
_FIRST_LINE: Final = re.compile(_SIZE + rb"\n")

# The line before the next chunk, with the line end behind the chunk before it.
_NEXT_LINE: Final = re.compile(rb"\r\n" + _SIZE + rb"\n")

_START_OF_FIRST_LINE: Final = re.compile(rb"(?:" + _SIZE + rb"?)?")
_START_OF_NEXT_LINE: Final = re.compile(rb"(?:\r(?:\n(?:" + _SIZE + rb"?)?)?)?")
_EMPTY_LINE: Final = b"\r\n"


class ChunkedBodyError(Exception):
    """The bytes are not a chunked body; the message is one sentence that says why."""


class ChunkedBody:
    """Takes the bytes of one body as they arrive, until its last chunk."""

    def __init__(self, *, has_trailers: bool) -> None:
        """Begin a body. `has_trailers`: fields may follow the last chunk and are dropped; else they
        are an error."""
        self._has_trailers = has_trailers
        self._unread = b""
        self._chunk_remaining = 0
        self._has_last_chunk = False

        # Chunks that have begun, the last and empty one aside.
        self.chunk_count = 0

        # Whether the body has arrived to its end.
        self.is_complete = False

    @property
    def trailing_data(self) -> bytes:
        """Return the bytes after the end of the body; empty before its end."""
        if self.is_complete:
            return self._unread
        return b""

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces of the body in these bytes; take all of them before the next call.
        Raises ChunkedBodyError where the bytes cannot belong to a body any more."""
        # 1. Chunks, until the last one: its size is 0.
        received, at = self._unread + data, 0
        while not self._has_last_chunk:
            if self._chunk_remaining == 0:
                line = (_NEXT_LINE if self.chunk_count else _FIRST_LINE).match(received, at)
                # The line is not whole yet, or it never will be.
                if line is None or line.end() - at > SIZE_LINE_BYTES_MAX:
                    self._check_start_of_line(received[at : at + SIZE_LINE_BYTES_MAX + 1])
                    break

                at, self._chunk_remaining = line.end(), int(line[1], 16)
                if self._chunk_remaining == 0:
                    self._has_last_chunk = True
                    break

                # Only now is a line end expected before the next size.
                self.chunk_count += 1

            piece = received[at : at + self._chunk_remaining]
            if not piece:
                break

            self._chunk_remaining -= len(piece)
            at += len(piece)
            yield piece

        # 2. What follows the last chunk. Outside the loop, as it may come in pieces, too.
        self._unread = received[at:]
        if self._has_last_chunk and not self.is_complete:
            self._read_end()

    def _check_start_of_line(self, line: bytes) -> None:
        """Raise ChunkedBodyError unless more bytes could make this the line before a chunk."""
        expected = _START_OF_NEXT_LINE if self.chunk_count else _START_OF_FIRST_LINE
        if len(line) > SIZE_LINE_BYTES_MAX or expected.fullmatch(line) is None:
            raise ChunkedBodyError(
                "A chunk does not begin with its size in hexadecimal digits and CR LF."
            )

    def _read_end(self) -> None:
        # The usual case: no trailers.
        if self._unread.startswith(_EMPTY_LINE):
            end = len(_EMPTY_LINE)
        elif _EMPTY_LINE.startswith(self._unread):
            return
        elif not self._has_trailers:
            raise ChunkedBodyError("An empty line must follow the last chunk.")
        else:
            # Not found gives 3, which is less than the shortest end.
            end = self._unread.find(b"\r\n\r\n") + 4
            if end < 4 or end > TRAILER_BYTES_MAX:
                if len(self._unread) > TRAILER_BYTES_MAX:
                    raise ChunkedBodyError(
                        f"The trailer section has more than {TRAILER_BYTES_MAX} bytes."
                    )
                return

        self._unread = self._unread[end:]
        self.is_complete = True
