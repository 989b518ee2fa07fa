"""A chunked body is read strictly and however it is cut (RFC 9112 section 7.1)."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.chunked_body import (
    SIZE_LINE_BYTES_MAX,
    TRAILER_BYTES_MAX,
    ChunkedBody,
    ChunkedBodyError,
)

BODY = b"4\r\n0123\r\n6 \t;name=value\r\n456789\r\nA \t\r\n\r\nbcdefgh\n\r\n0;last\r\n"
READ = b"0123456789\r\nbcdefgh\n"


def read(*pieces: bytes, has_trailers: bool = False) -> tuple[bytes, bool, bytes]:
    """Return the body, whether it is complete, and what follows it."""
    body, taken = ChunkedBody(has_trailers=has_trailers), b""
    for piece in pieces:
        taken += b"".join(body.receive(piece))
    return taken, body.is_complete, body.trailing_data


@given(st.sets(st.integers(1, len(BODY) + 3)).map(sorted))
def test_a_body_is_the_same_however_it_is_cut(cuts: list[int]) -> None:
    whole = BODY + b"\r\nGET"
    edges = [0, *cuts, len(whole)]
    assert read(*(whole[start:end] for start, end in pairwise(edges))) == (READ, True, b"GET")


@given(st.integers(1, len(BODY) + 20))
def test_trailers_are_dropped_where_they_may_follow(size: int) -> None:
    whole = BODY + b"Expires: never\r\n\r\nHTTP"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert read(*pieces, has_trailers=True) == (READ, True, b"HTTP")


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    "wrong",
    [
        *(
            b"5\nhello",
            b"5\r\nhello0\r\n",
            b"5\r\nhello\n0",
            b"5\r\nhello\r0",
            b"0\r\n\n",
            b"0\r\nA: b\r\n\r\n",
        ),
        *(
            b"-1\r\n",
            b"0x5\r\n",
            b"+5\r\n",
            b" 5\r\n",
            b"5 \0\r\n",
            b"\r\n0\r\n",
            b"g\r\n",
            b"f" * 17,
            b"5 5\r\n",
        ),
        *(b"5;\0", b";a", b"5;" + b"a" * SIZE_LINE_BYTES_MAX),
    ],
)
def test_what_is_no_chunk_is_an_error_as_soon_as_it_shows(wrong: bytes) -> None:
    with pytest.raises(ChunkedBodyError):
        read(wrong)
    with pytest.raises(ChunkedBodyError):
        read(*(wrong[at : at + 1] for at in range(len(wrong))))


def test_what_came_before_an_error_is_kept() -> None:
    body = ChunkedBody(has_trailers=True)
    pieces = body.receive(b"2\r\nab\r\n1\r\ncx")
    assert [next(pieces), next(pieces)] == [b"ab", b"c"]
    with pytest.raises(ChunkedBodyError):
        next(pieces)
    assert not body.is_complete


def test_the_trailer_section_is_limited() -> None:
    fields = b"a" * (TRAILER_BYTES_MAX - 4)
    assert read(b"0\r\n", fields, b"\r\n\r\n", has_trailers=True) == (b"", True, b"")
    with pytest.raises(ChunkedBodyError, match="trailer section"):
        read(b"0\r\n", fields, b"aaaaa", has_trailers=True)
    with pytest.raises(ChunkedBodyError, match="trailer section"):
        read(b"0\r\n", fields + b"a\r\n\r\n", has_trailers=True)


@given(st.lists(st.binary() | st.text(alphabet="0123afgG;\r\n ").map(str.encode)), st.booleans())
def test_nothing_else_than_an_error_comes_of_garbage(
    pieces: list[bytes], has_trailers: bool
) -> None:
    with suppress(ChunkedBodyError):
        read(*pieces, has_trailers=has_trailers)
