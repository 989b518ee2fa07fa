"""Reads a response from a server that is not trusted, strictly by RFC 9112, without a socket and
without waiting: first its head, then the body from the bytes behind that.

HTTP libraries are lenient on purpose: they take bare LF for a line's end, or pick one of
Content-Length and Transfer-Encoding when both are there. A receiver that sends such a head does not
speak HTTP, and another reader might understand it differently; so it counts as no response. A
folded line that does not say where the body ends is none of these: a client has to read it as one
(section 5.2). An unknown minor version is read as 1.1 (RFC 9110 section 2.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

from attrs import frozen

from mmo_sansio.http.chunked_body import ChunkedBody, ChunkedBodyError
from mmo_sansio.http.messages import Headers
from mmo_sansio.http.request_head import END_OF_HEAD, LENGTH_DIGITS_MAX

# Bytes of one response head, from its status line to its blank line.
HEAD_BYTES_MAX = 16 * 1024

# Field lines of one response head.
FIELDS_MAX = 100

# Interim responses (1xx) before the final one.
INTERIM_RESPONSES_MAX = 10

_BEGINNING = b"HTTP/1."
_STRAY_BYTE = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|\x00")
_STATUS_LINE = re.compile(
    rb"HTTP/1\.(?P<minor>[0-9]) (?P<status>[1-5][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*+)?"
)
_NAME = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_FIELD_LINE = _NAME + rb":[\t\x20-\x7e\x80-\xff]*+"
_HEAD = re.compile(_STATUS_LINE.pattern + rb"\r\n(?P<lines>(?:" + _FIELD_LINE + rb"\r\n)*+)\r\n")

# The white space around the value belongs to the match, as an expression that leaves it out would
# try every way to divide a run of blanks.
_FIELD = re.compile(rb"^(" + _NAME + rb"):([^\r]*+)", re.MULTILINE)

_FRAMING_FIELD = re.compile(
    rb"^(content-length|transfer-encoding):([^\r]*+)", re.IGNORECASE | re.MULTILINE
)
_LENGTH = re.compile(rb"[0-9]{1,%d}" % LENGTH_DIGITS_MAX)
_FOLD = re.compile(rb"\r\n[ \t]+")
_FOLDED_FRAMING = re.compile(
    rb"\r\n(?:content-length|transfer-encoding):[^\r]*\r\n[ \t]", re.IGNORECASE
)
_KEEP_ALIVE = re.compile(
    rb"^keep-alive:[^\r]*?\btimeout=([0-9]{1,6})\b", re.IGNORECASE | re.MULTILINE
)
_CLOSES = re.compile(rb"^connection:[^\r]*\bclose\b", re.IGNORECASE | re.MULTILINE)


class ResponseHeadError(Exception):
    """The bytes are not the head of an HTTP/1.1 response; the message is one sentence that says
    why."""


class BodyEnd(Enum):
    """Says what ends a body of unknown length."""

    LAST_CHUNK = "last chunk"
    CLOSE = "close"


# The number of bytes of a body, or what ends it.
BodyFraming: TypeAlias = int | BodyEnd


@frozen
class FinalResponseHead:
    """Is the whole, well-formed head of a final response."""

    status: int
    """200 to 599."""
    raw: bytes
    """The bytes of the head, with the blank line; folded lines are joined."""
    body_start: bytes
    """The bytes that arrived after the head: the beginning of the body."""
    framing: BodyFraming
    """The framing of the body; the request was no HEAD."""

    @property
    def headers(self) -> Headers:
        lines = self.raw[self.raw.index(b"\n") + 1 :]
        return tuple([(name.lower(), value.strip(b" \t")) for name, value in _FIELD.findall(lines)])

    @property
    def is_persistent(self) -> bool:
        """Whether the server may take another request on the connection (RFC 9112 section 9.3): it
        does not close it, and not only the close would end the body."""
        return not (
            isinstance(self.framing, BodyEnd)
            or self.raw.startswith(b"HTTP/1.0")
            or _CLOSES.search(self.raw)
        )

    @property
    def announced_idle_s(self) -> int | None:
        """Return for how many seconds the server announces that it keeps the connection open for
        another request (`Keep-Alive: timeout=5`, RFC 2068 section 19.7.1.1); None when it announces
        nothing."""
        announced = _KEEP_ALIVE.search(self.raw)
        if announced is None:
            return None
        return int(announced[1])


class ResponseHeadReader:
    """Takes the bytes of a response as they arrive, until its final head is whole."""

    def __init__(self) -> None:
        self._received = b""
        self._interim_responses = 0

    def receive(self, data: bytes) -> FinalResponseHead | None:
        """Return the final head once these bytes complete it, else None: more bytes are needed.

        Interim responses are counted and dropped. Raises ResponseHeadError as soon as the bytes
        cannot become a head any more; empty `data` means that the other side has closed."""
        if not data:
            raise ResponseHeadError("The connection was closed before the answer's head was whole.")

        # Bytes that were searched before are not searched again, or a head in single bytes would
        # cost their square.
        searched = len(self._received)
        self._received += data
        while (end := self._find_end(searched)) is not None:
            raw, self._received = _unfold(self._received[:end]), self._received[end:]
            searched = 0
            status, framing = _check_head(raw)
            # Any 1xx is followed by the answer itself (RFC 9110 section 15.2).
            if status >= 200:
                return FinalResponseHead(status, raw, self._received, framing)

            self._interim_responses += 1
            if status == 101:
                raise ResponseHeadError(
                    "The receiver switched protocols (101) without being asked."
                )

            if self._interim_responses > INTERIM_RESPONSES_MAX:
                raise ResponseHeadError(f"More than {INTERIM_RESPONSES_MAX} interim answers came.")

        return None

    def _find_end(self, searched: int) -> int | None:
        """Return where the head ends, or None; only bytes after the first `searched` are new."""
        # At the first byte: a server of another protocol must not fill the buffer first.
        if not self._received.startswith(_BEGINNING[: len(self._received)]):
            raise ResponseHeadError("What came doesn't begin like an HTTP/1.1 answer.")

        # The end may lie across the border of two pieces.
        found = self._received.find(END_OF_HEAD, max(0, searched - len(END_OF_HEAD) + 1))
        if found < 0:
            end = len(self._received)
        else:
            end = found + len(END_OF_HEAD)

        if _STRAY_BYTE.search(self._received, max(0, searched - 1), end):
            raise ResponseHeadError("The answer's head has a NUL or a line not ended by CR LF.")
        if end > HEAD_BYTES_MAX:
            raise ResponseHeadError(f"The answer's head has more than {HEAD_BYTES_MAX} bytes.")
        if found < 0:
            return None

        return end


def _unfold(raw: bytes) -> bytes:
    """Return the head with folded field lines joined; a blank before the first field line stays,
    and is malformed. Raises ResponseHeadError where a folded line says how the body is framed."""
    # Before lines are joined: a reader that doesn't join them sees another length.
    if _FOLDED_FRAMING.search(raw):
        raise ResponseHeadError("The answer's head folds a field that says where its body ends.")
    status_line, end, fields = raw.partition(b"\r\n")
    return status_line + end + _FOLD.sub(b" ", fields)


def _check_head(raw: bytes) -> tuple[int, BodyFraming]:
    """Return the status of a whole head, blank line included, and the framing of its body.

    Raises ResponseHeadError unless every line is well-formed, and no field leaves open where the
    body ends (RFC 9112 section 6.3)."""
    # 1. The form of each line.
    head = _HEAD.fullmatch(raw)
    if head is None:
        if _STATUS_LINE.fullmatch(raw.partition(b"\r")[0]) is None:
            raise ResponseHeadError("The answer's status line isn't one of HTTP/1.1.")
        raise ResponseHeadError("The answer's head has a malformed field line.")

    lines, status = head["lines"], int(head["status"])
    if lines.count(b"\n") > FIELDS_MAX:
        raise ResponseHeadError(f"The answer's head has more than {FIELDS_MAX} fields.")

    # 2. The fields that say where the body ends.
    lengths, codings = set[bytes](), list[bytes]()
    for name, value in _FRAMING_FIELD.findall(lines):
        if name[:1] in b"cC":
            # `5, 5` is one length, sent twice (RFC 9110 section 8.6).
            lengths.update(length.strip(b" \t") for length in value.split(b","))
        else:
            codings.append(value.strip(b" \t").lower())

    framing = _framing(lengths, codings, is_http10=head["minor"] == b"0")

    # 3. These two have no body, whatever their fields say (RFC 9112 section 6.3).
    return status, 0 if status in (204, 304) else framing


def _framing(lengths: set[bytes], codings: list[bytes], *, is_http10: bool) -> BodyFraming:
    """Return the framing of the body; a length may be repeated."""
    if codings:
        # RFC 9112 section 6.1: both fields together are how responses are smuggled.
        if lengths or is_http10 or codings != [b"chunked"]:
            raise ResponseHeadError("The answer's head leaves open where its body ends.")
        return BodyEnd.LAST_CHUNK

    if not lengths:
        return BodyEnd.CLOSE

    # What is left are other lengths: nobody can tell which one is right.
    length = lengths.pop()
    if lengths or _LENGTH.fullmatch(length) is None:
        raise ResponseHeadError("The answer's head doesn't say how long its body is.")

    return int(length)


class ResponseBodyError(Exception):
    """The body broke off, or its framing is broken."""


class PlainBody:
    """Reads a body of known length, or one that lasts until the server closes."""

    def __init__(self, length: int | None, initial_data: bytes) -> None:
        self._remaining = length
        self._unread = initial_data
        self.is_complete = False

        # Whether more arrived than belongs to the body.
        self.has_excess = False

    def receive(self, data: bytes) -> None:
        """Add bytes that arrived, b"" at the end of the connection; raises ResponseBodyError when
        the end is too early."""
        if not data:
            if self._remaining is not None:
                raise ResponseBodyError
            self.is_complete = True
        self._unread = data

    def read_available(self) -> Iterator[bytes]:
        """Yield the bytes that are new."""
        piece = self._unread[: self._remaining]
        if self._remaining is not None:
            self.has_excess = len(self._unread) > self._remaining
            self._remaining -= len(piece)
            self.is_complete = self._remaining == 0
        if piece:
            yield piece


class ChunkedResponseBody:
    """Decodes a chunked body; trailer fields are dropped."""

    has_excess = True
    """What arrived after the last chunk is not distinguished."""

    def __init__(self, initial_data: bytes) -> None:
        self._decoder = ChunkedBody(has_trailers=True)
        self._unread = initial_data

    @property
    def is_complete(self) -> bool:
        """Tell whether the last chunk has been read."""
        return self._decoder.is_complete

    def receive(self, data: bytes) -> None:
        """Add bytes that arrived, b"" at the end of the connection; raises ResponseBodyError when
        the end is too early."""
        if not data:
            raise ResponseBodyError
        self._unread = data

    def read_available(self) -> Iterator[bytes]:
        """Yield the bytes that are new; raises ResponseBodyError."""
        try:
            yield from self._decoder.receive(self._unread)
        except ChunkedBodyError as error:
            raise ResponseBodyError from error


def response_body(head: FinalResponseHead) -> PlainBody | ChunkedResponseBody:
    """Return the decoder for the body behind this head."""
    match head.framing:
        case BodyEnd.LAST_CHUNK:
            return ChunkedResponseBody(head.body_start)
        case BodyEnd.CLOSE:
            return PlainBody(None, head.body_start)
        case length:
            return PlainBody(length, head.body_start)
