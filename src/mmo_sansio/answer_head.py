"""The head of an answer from a server we don't trust, strictly by RFC 9112: checked byte by byte
before any library reads it.

HTTP libraries are lenient on purpose: they take bare LF for a line's end, join folded lines, or
pick one of Content-Length and Transfer-Encoding when both are there. A receiver that sends such a
head isn't speaking HTTP, and what another reader would make of it is anybody's guess; so it counts
as no answer.
"""

from __future__ import annotations

import re

from attrs import frozen

HEAD_BYTES_MAX = 16 * 1024
"""Bytes of one answer head, status line to blank line."""
FIELDS_MAX = 100
"""Field lines of one answer head."""
INTERIM_ANSWERS_MAX = 10
"""Interim answers (1xx) before the final one."""

_END = b"\r\n\r\n"
_BEGINNING = b"HTTP/1."
_STRAY_BYTE = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|\x00")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")


class AnswerHeadError(Exception):
    """What came is not the head of an HTTP/1.1 answer; the message is one sentence that says
    why."""


@frozen
class FinalHead:
    """The head of a final answer, whole and well-formed."""

    status: int
    """200 to 599."""
    raw: bytes
    """Its bytes, the blank line included."""
    rest: bytes
    """What came behind it: the beginning of the body."""


class AnswerHeadReader:
    """Takes the bytes of an answer as they come, until its final head is whole."""

    def __init__(self) -> None:
        self._received = b""
        self._interim_answers = 0

    def receive(self, data: bytes) -> FinalHead | None:
        """The final head once these bytes complete it, else None: more bytes are needed.

        Interim answers are counted and dropped. Raises AnswerHeadError as soon as the bytes can't
        become a head any more; empty `data` means that the other side has closed.
        """
        if not data:
            raise AnswerHeadError("The connection was closed before the answer's head was whole.")
        searched = len(self._received)
        self._received += data
        while (end := self._find_end(searched)) is not None:
            raw, self._received = self._received[:end], self._received[end:]
            searched = 0
            status = checked_status(raw)
            if status >= 200:
                return FinalHead(status, raw, self._received)
            self._interim_answers += 1
            if status == 101:
                raise AnswerHeadError("The receiver switched protocols (101) without being asked.")
            if self._interim_answers > INTERIM_ANSWERS_MAX:
                raise AnswerHeadError(f"More than {INTERIM_ANSWERS_MAX} interim answers came.")
        return None

    def _find_end(self, searched: int) -> int | None:
        """Where the head ends, if it does; looks only at what is new since `searched` bytes."""
        if not self._received.startswith(_BEGINNING[: len(self._received)]):
            raise AnswerHeadError("What came doesn't begin like an HTTP/1.1 answer.")
        found = self._received.find(_END, max(0, searched - len(_END) + 1))
        end = len(self._received) if found < 0 else found + len(_END)
        if _STRAY_BYTE.search(self._received, max(0, searched - 1), end):
            raise AnswerHeadError("The answer's head has a NUL or a line not ended by CR LF.")
        if end > HEAD_BYTES_MAX:
            raise AnswerHeadError(f"The answer's head has more than {HEAD_BYTES_MAX} bytes.")
        return None if found < 0 else end


def checked_status(raw: bytes) -> int:
    """The status of a whole head, blank line included. Raises AnswerHeadError unless every line is
    well-formed, and no field leaves open where the body ends (RFC 9112 section 6.3)."""
    status_line, *field_lines = raw.removesuffix(_END).split(b"\r\n")
    status = _STATUS_LINE.fullmatch(status_line)
    if status is None:
        raise AnswerHeadError("The answer's status line isn't one of HTTP/1.1.")
    if len(field_lines) > FIELDS_MAX:
        raise AnswerHeadError(f"The answer's head has more than {FIELDS_MAX} fields.")
    names = set()
    for line in field_lines:
        field = _FIELD_LINE.fullmatch(line)
        if field is None:
            raise AnswerHeadError("The answer's head has a malformed or folded field line.")
        names.add(field[1].lower())
    if b"transfer-encoding" in names and (b"content-length" in names or status[1] == b"0"):
        raise AnswerHeadError("The answer's head leaves open where its body ends.")
    return int(status[2])
