"""The head of an answer, byte by byte (K2, K4): what counts as HTTP/1.1 and what doesn't."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.response_reader import (
    FIELDS_MAX,
    HEAD_BYTES_MAX,
    BodyEnd,
    BodyFraming,
    FinalResponseHead,
    ResponseHeadError,
    ResponseHeadReader,
)

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Empty:\r\nX-Tab: \ta\t\xff\r\n\r\n"
INTERIM = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </" + b"a" * 80 + b">\r\n\r\n"
)
PADDING = HEAD_BYTES_MAX - len(b"HTTP/1.1 200 OK\r\nX: \r\n\r\n")


def read(*pieces: bytes) -> FinalResponseHead | None:
    reader = ResponseHeadReader()
    final = None
    for piece in pieces:
        assert final is None
        final = reader.receive(piece)
    return final


@pytest.mark.spec("K2")
@given(st.sets(st.integers(1, len(INTERIM + GOOD) - 1)).map(sorted))
def test_a_head_is_read_the_same_however_it_is_cut(cuts: list[int]) -> None:
    edges = [0, *cuts, len(INTERIM + GOOD)]
    pieces = [(INTERIM + GOOD)[start:end] for start, end in pairwise(edges)]
    assert read(*pieces) == FinalResponseHead(200, GOOD, b"", 4)


@pytest.mark.parametrize("cut", range(1, len(b"HTTP/1.1 200 OK\rX")))
def test_a_stray_byte_is_seen_however_it_is_cut(cut: int) -> None:
    for octets in (b"HTTP/1.1 200 OK\rX", b"HTTP/1.1 200 OKX\n", b"HTTP/1.1 200 OKX\x00"):
        with pytest.raises(ResponseHeadError):
            read(octets[:cut], octets[cut:])


def test_what_follows_the_head_is_kept_for_the_body() -> None:
    assert read(GOOD + b"body") == FinalResponseHead(200, GOOD, b"body", 4)


def test_fields_are_read_with_their_names_in_lower_case() -> None:
    final = read(GOOD)
    assert final is not None
    assert final.headers == ((b"content-length", b"4"), (b"x-empty", b""), (b"x-tab", b"a\t\xff"))


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("start", "fields", "framing"),
    [
        (b"1.1 200", b"", BodyEnd.CLOSE),
        (b"1.0 200", b"", BodyEnd.CLOSE),
        (b"1.1 200", b"content-LENGTH:  7 \r\n", 7),
        (b"1.1 200", b"Content-Length: 7\r\nContent-Length: 7, 7\r\n", 7),
        (b"1.1 200", b"Transfer-Encoding: Chunked\r\n", BodyEnd.LAST_CHUNK),
        (b"1.2 200", b"Transfer-Encoding: chunked\r\n", BodyEnd.LAST_CHUNK),
        (b"1.1 204", b"", 0),
        (b"1.1 204", b"Content-Length: 7\r\n", 0),
        (b"1.1 304", b"Transfer-Encoding: chunked\r\n", 0),
        (b"1.1 200", b"X-Content-Length: 7\r\n", BodyEnd.CLOSE),
    ],
)
def test_the_head_tells_where_the_body_ends(
    start: bytes, fields: bytes, framing: BodyFraming
) -> None:
    final = read(b"HTTP/" + start + b" X\r\n" + fields + b"\r\n")
    assert final is not None
    assert final.framing == framing


@pytest.mark.parametrize("interim", [0, 1, 10])
def test_up_to_ten_interim_answers_are_dropped(interim: int) -> None:
    flood = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * interim
    assert read(flood + GOOD) == FinalResponseHead(200, GOOD, b"", 4)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.0 204 \r\n\r\n",
        b"HTTP/1.1 599 Any \xfc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * PADDING + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * FIELDS_MAX + b"\r\n",
    ],
)
def test_a_well_formed_head_within_the_limits_is_taken(head: bytes) -> None:
    final = read(head)
    assert final is not None
    assert final.raw == head


@pytest.mark.spec("K2")
@pytest.mark.parametrize(
    ("lines", "name", "value", "framing"),
    [
        (b"X-Trace: a\r\n b\r\nContent-Length: 4", b"x-trace", b"a b", 4),
        (b"X-Trace: a\r\n\t \tb\r\n c\r\nContent-Length: 4", b"x-trace", b"a b c", 4),
        (b"X-Trace:\r\n a\r\n \r\nContent-Length: 4", b"x-trace", b"a", 4),
    ],
)
def test_a_folded_line_is_read_as_one(
    lines: bytes, name: bytes, value: bytes, framing: BodyFraming
) -> None:
    final = read(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n")
    assert final is not None
    assert final.framing == framing
    assert (name, value) in final.headers


@pytest.mark.spec("K2")
@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"G",
        b"<html>",
        b"http/1.1 200 OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.10 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\t\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 999 X\r\n\r\n",
        b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/1.1 600 X\r\n\r\n",
        b"HTTP/1.1 2000 X\r\n\r\n",
        b"HTTP/1.1 20\r\n\r\n",
        b"HTTP/1.1 200OK\r\n\r\n",
        b"HTTP/1.1 200 \x01\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\n",
        b"HTTP/1.1 200 OK\r\nX: a\n",
        b"HTTP/1.1 200 OK\r\nX: a\rb",
        b"HTTP/1.1 200 OK\r\nX: a\x00",
        b"HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\r\n : a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n \x01\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \x7f\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 12345678901234567890\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * (PADDING + 1) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * HEAD_BYTES_MAX,
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * (FIELDS_MAX + 1) + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 11,
    ],
    ids=lambda octets: ascii(octets)[2:50],
)
def test_what_cant_be_a_head_is_refused_as_soon_as_it_shows(octets: bytes) -> None:
    with pytest.raises(ResponseHeadError):
        read(octets)


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_are_a_head_an_error_or_a_wait_for_more(first: bytes, second: bytes) -> None:
    reader = ResponseHeadReader()
    with suppress(ResponseHeadError):
        if reader.receive(b"HTTP/1.1 200 " + first) is None:
            reader.receive(second)


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        (b"HTTP/1.1 204 OK\r\nKeep-Alive: timeout=5, max=3\r\n\r\n", 5),
        (b"HTTP/1.1 204 OK\r\nkeep-alive: max=3; timeout=75\r\nConnection: Keep-Alive\r\n\r\n", 75),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=0\r\n\r\n", 0),
        (b"HTTP/1.1 204 OK\r\n\r\n", None),
        (b"HTTP/1.1 204 OK\r\nKeep-Alive: max=3\r\n\r\n", None),
        (b"HTTP/1.1 204 OK\r\nX-Keep-Alive: timeout=5\r\n\r\n", None),
        (b"HTTP/1.1 204 OK\r\nKeep-Alive: timeout=1234567\r\n\r\n", None),
    ],
)
def test_a_server_announces_how_long_it_keeps_an_idle_connection(
    head: bytes, seconds: int | None
) -> None:
    final = read(head)
    assert final is not None
    assert final.announced_idle_s == seconds


@pytest.mark.parametrize(
    ("head", "is_persistent"),
    [
        (b"HTTP/1.1 204 OK\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Connection: close\r\n\r\n", True),
        (b"HTTP/1.1 204 OK\r\nKeep-Alive: timeout=5\r\nConnection: foo,CLOSE\r\n\r\n", False),
        (b"HTTP/1.0 204 OK\r\nKeep-Alive: timeout=5\r\nConnection: keep-alive\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", False),
    ],
)
def test_a_connection_may_serve_another_request_unless_the_answer_ends_it(
    head: bytes, is_persistent: bool
) -> None:
    final = read(head)
    assert final is not None
    assert final.is_persistent == is_persistent
