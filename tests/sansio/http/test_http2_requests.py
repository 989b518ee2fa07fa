"""The head of an HTTP/2 request becomes one of HTTP/1.1, or is refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.http2_requests import http1_head
from mmo_sansio.values.problems import ProblemError

Fields = list[tuple[bytes, bytes]]

GOOD: Fields = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":authority", b"h"),
    (b":path", b"/a?b"),
]
HEAD = b"GET /a?b HTTP/1.1\r\nhost: h\r\n"


@pytest.mark.parametrize(
    ("fields", "head"),
    [
        (GOOD, HEAD),
        ([*GOOD, (b"x-api-key", b"a b\xe9"), (b"x", b"")], HEAD + b"x-api-key: a b\xe9\r\nx: \r\n"),
        ([*GOOD[:2], GOOD[3], (b"host", b"h")], HEAD),
        ([*GOOD, (b"host", b"h")], HEAD),
        ([*GOOD, (b"te", b"trailers")], HEAD + b"te: trailers\r\n"),
        ([*GOOD, (b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2")],
         HEAD + b"x: y\r\ncookie: a=1; b=2\r\n"),
        ([(b":method", b"OPTIONS"), *GOOD[1:3], (b":path", b"*")],
         b"OPTIONS * HTTP/1.1\r\nhost: h\r\n"),
    ],
)  # fmt: skip
def test_a_head_says_the_same_by_http_1(fields: Fields, head: bytes) -> None:
    assert http1_head(fields) == head + b"\r\n"


@pytest.mark.spec("G3", "P4")
@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (GOOD[1:], "The field :method is missing."),
        ([GOOD[0], *GOOD[2:]], "The field :scheme is missing."),
        (GOOD[:3], "The field :path is missing."),
        ([*GOOD[:3], (b":path", b"")], "The field :path is missing."),
        ([*GOOD[:3], (b":path", b"http://other/")], "begins with a slash"),
        ([(b":method", b"CONNECT"), GOOD[2]], "CONNECT is for proxies"),
        ([*GOOD, (b":path", b"/")], ":path is sent more than once."),
        ([*GOOD[:3], (b"x", b"y"), GOOD[3]], ":path stands behind a header field."),
        ([*GOOD, (b":status", b"200")], "is none of a request"),
        ([*GOOD, (b"host", b"other")], "Host and :authority differ."),
        ([*GOOD, (b"X-Api-Key", b"k")], "no capital letters"),
        ([*GOOD, (b"", b"k")], "not allowed there"),
        ([*GOOD, (b"a:b", b"k")], "not allowed there"),
        ([*GOOD, (b"x", b"a\r\ny: b")], "holds a control character"),
        ([*GOOD[:3], (b":path", b"/ HTTP/1.1\r\nx: y\r\n\r\n")], "holds a control character"),
        ([*GOOD, (b"x", b" a")], "white space"),
        ([*GOOD, (b"x", b"a\t")], "white space"),
        ([*GOOD, (b"connection", b"close")], "connection does not exist in HTTP/2"),
        ([*GOOD, (b"transfer-encoding", b"chunked")], "transfer-encoding does not exist"),
        ([*GOOD, (b"upgrade", b"h2c")], "upgrade does not exist"),
        ([*GOOD, (b"te", b"gzip")], "te does not exist"),
    ],
)
def test_a_malformed_head_is_refused(fields: Fields, fault: str) -> None:
    with pytest.raises(ProblemError, match=fault) as raised:
        http1_head(fields)
    assert raised.value.problem.status == 400


@given(st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=8)), max_size=5))
def test_no_field_becomes_two(fields: Fields) -> None:
    try:
        head = http1_head([*GOOD, *fields])
    except ProblemError:
        return
    assert head.count(b"\n") <= 3 + len(fields)
    assert head.count(b"\r\n\r\n") == 1
