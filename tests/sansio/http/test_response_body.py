"""Bodies of answers, however they are cut (K4)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.response_reader import ResponseBodyError, ResponseHeadReader, response_body

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
    b"chunked\r\n\r\n4\r\n0123\r\n6;a=b\r\n456789\r\n0\r\n\r\n"
)
CLOSED = b"HTTP/1.1 200 OK\r\n\r\n0123456789"


def read(*pieces: bytes) -> tuple[bytes, bool]:
    """The body as far as it came, and whether that is all."""
    reader, taken = ResponseHeadReader(), b""
    given = iter(pieces)
    while (head := reader.receive(next(given))) is None:
        pass
    body = response_body(head)
    with suppress(ResponseBodyError):
        while True:
            for piece in body.read_available():
                taken += piece
            if body.is_complete:
                return taken, True
            body.receive(next(given, b""))
    return taken, False


@pytest.mark.spec("K4")
@given(st.sampled_from([LENGTH, CHUNKED, CLOSED]), st.integers(1, 20))
def test_a_body_is_the_same_however_it_is_cut(answer: bytes, size: int) -> None:
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    assert read(*pieces) == (b"0123456789", True)


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (LENGTH[:-1], b"012345678"),
        (CHUNKED[:-3], b"0123456789"),
        (CHUNKED.replace(b"0123\r\n", b"0123xx"), b"0123"),
    ],
    ids=["too short", "no last chunk", "broken framing"],
)
def test_what_came_of_a_broken_body_is_kept(answer: bytes, body: bytes) -> None:
    assert read(answer) == (body, False)


@pytest.mark.spec("K4")
def test_what_comes_behind_a_body_is_no_part_of_it() -> None:
    assert read(LENGTH + b"HTTP/1.1 200 OK\r\n\r\n") == (b"0123456789", True)
    assert read(CHUNKED + b"HTTP/1.1 200 OK\r\n\r\n") == (b"0123456789", True)
