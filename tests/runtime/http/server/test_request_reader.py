"""Bytes in, heads and bodies out, however the bytes were cut."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import h11
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.http.request_head import UPGRADE_FIELDS, HeadLimits, parse_head
from mmo_sansio.values.problems import Problem, ProblemError
from mmo_trio.http.server.connection import CHUNKS_MAX, RequestReader

HOST = b"Host: h\r\n"
TWO_REQUESTS = (
    b"POST /1?q HTTP/1.1\r\nHost: h\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;extension=yes\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    b"POST /2 HTTP/1.0\r\nContent-Length: 4\r\n\r\nfghi"
)


def everything_in(inbox: RequestReader, pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Targets and bodies of all requests that the pieces hold."""
    found: list[tuple[bytes, bytes]] = []
    opening = None
    for piece in pieces:
        inbox.receive(piece)
        while True:
            if opening is None and (opening := inbox.next_head()) is None:
                break
            if (body := inbox.next_body(limit=100)) is None:
                break
            found.append((opening.head.target, body))
            opening = None
    return found


@given(st.sets(st.integers(0, len(TWO_REQUESTS))))
def test_requests_are_the_same_however_they_are_cut(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(TWO_REQUESTS)]
    pieces = [TWO_REQUESTS[start:end] for start, end in pairwise(edges)]
    inbox = RequestReader(HeadLimits())
    assert everything_in(inbox, pieces) == [(b"/1?q", b"abcde"), (b"/2", b"fghi")]
    assert inbox.is_empty


@given(st.lists(st.sampled_from([b"", b"a", b"bc", b"de"]), max_size=6))
def test_the_same_head_again_brings_its_own_body(bodies: list[bytes]) -> None:
    head = b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n"
    wire = b"".join(head % len(body) + body for body in bodies)
    assert everything_in(RequestReader(HeadLimits()), [wire]) == [(b"/x", body) for body in bodies]


def head_or_problem(wire: bytes, limits: HeadLimits) -> RequestHead | Problem:
    reader = RequestReader(limits)
    reader.receive(wire)
    try:
        parsed = reader.next_head()
    except ProblemError as error:
        return error.problem
    assert parsed is not None
    assert parsed.body_length == (3 if b"Content-Length" in wire else 0)
    assert parsed.keep_alive == (b"close" not in wire)
    return parsed.head


TARGETS = (
    b"/",
    b"/a?b=c%20",
    b"/a#b",
    b"*",
    b"http://h/a",
    b"http://other/a",
    b"a",
    b"/" + b"x" * 60,
    b"/" + b"x" * 90,
    b"/\xff",
)
FIELDS = (
    HOST,
    b"",
    HOST + HOST,
    HOST + b"X-A: 1\r\nX-A: 2\r\n",
    HOST + b"Connection: close\r\n",
    HOST + b"Content-Length: 3\r\n",
    HOST + b"Upgrade: h2c\r\n",
    HOST + b"X:\x00\r\n",
    HOST + b"X: " + b"y" * 80 + b"\r\n",
    HOST * 5,
)


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_read_whose_fields_are_known_is_parsed_as_if_it_were_the_first(
    target: bytes, fields: bytes
) -> None:
    limits = HeadLimits(target_bytes=70, head_bytes=130, fields=3)
    head_or_problem(b"GET /first HTTP/1.1\r\n" + fields + b"\r\n", limits)
    again = head_or_problem(b"GET " + target + b" HTTP/1.1\r\n" + fields + b"\r\n", limits)
    # A HEAD is parsed whole each time; it is one byte longer.
    whole = head_or_problem(
        b"HEAD " + target + b" HTTP/1.1\r\n" + fields + b"\r\n", evolve(limits, head_bytes=131)
    )
    if isinstance(again, RequestHead):
        assert whole == evolve(again, method="HEAD")
    else:
        assert isinstance(whole, Problem)
        assert whole == evolve(again, detail=again.detail.replace("130", "131"))


def test_the_fields_of_reads_are_parsed_once_for_all_targets() -> None:
    reader = RequestReader(HeadLimits())
    reader.receive(
        b"".join(
            b"GET /%d HTTP/1.1\r\nHost: once\r\nX-Api-Key: key\r\n\r\n" % number
            for number in (1, 2)
        )
    )
    first, second = reader.next_head(), reader.next_head()
    assert first is not None
    assert second is not None
    assert (first.head.target, second.head.target) == (b"/1", b"/2")
    assert second.head.value(b"x-api-key") == b"key"
    assert second.head.headers is first.head.headers


def test_a_head_says_how_its_connection_goes_on() -> None:
    inbox = RequestReader(HeadLimits())
    inbox.receive(
        b"PUT /x HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    )
    opening = inbox.next_head()
    assert opening is not None
    assert (opening.version, opening.keep_alive, opening.expects_continue) == (b"1.1", True, True)
    assert opening.head.method == "PUT"
    assert opening.head.value(b"host") == b"h"


@pytest.mark.parametrize(
    ("framing", "left"),
    [
        (b"Content-Length: 3\r\n\r\nabc", b""),
        (b"Content-Length: 3\r\n\r\nabcGET", b"GET"),
        (b"\r\n", b""),
    ],
)
def test_a_body_that_is_all_there_can_be_skipped(framing: bytes, left: bytes) -> None:
    inbox = RequestReader(HeadLimits())
    inbox.receive(b"GET / HTTP/1.1\r\n" + HOST + framing)
    inbox.next_head()
    assert inbox.skip_body()
    assert inbox.is_empty == (not left)


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 3\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
def test_a_body_that_is_yet_to_come_can_not_be_skipped(framing: bytes) -> None:
    inbox = RequestReader(HeadLimits())
    inbox.receive(b"GET / HTTP/1.1\r\n" + HOST + framing)
    inbox.next_head()
    assert not inbox.skip_body()


@pytest.mark.spec("G7")
@pytest.mark.parametrize(("size", "refused"), [(99, False), (100, False), (101, True)])
def test_nothing_is_kept_of_a_chunked_body_beyond_its_limit(size: int, refused: bool) -> None:
    inbox = RequestReader(HeadLimits())
    inbox.receive(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
    inbox.next_head()
    for _ in range(size - 1):
        inbox.receive(b"1\r\nx\r\n")
        assert inbox.next_body(limit=100) is None
    inbox.receive(b"1\r\nx\r\n0\r\n\r\n")
    if refused:
        with pytest.raises(ProblemError, match="larger than 100 bytes"):
            inbox.next_body(limit=100)
    else:
        assert inbox.next_body(limit=100) == b"x" * size


def test_a_body_in_too_many_chunks_is_refused() -> None:
    inbox = RequestReader(HeadLimits())
    inbox.receive(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
    inbox.next_head()
    inbox.receive(b"1\r\nx\r\n" * CHUNKS_MAX)
    assert inbox.next_body(limit=10**6) is None
    inbox.receive(b"1\r\nx\r\n")
    with pytest.raises(ProblemError, match="too many chunks"):
        inbox.next_body(limit=10**6)


FIELD_LINES = [
    b"A: b",
    b"x-EMPTY:",
    b"X-Blanks: \t a  b \t",
    b"X-Latin:\xe9",
    b"Content-Length: 3",
    b"Transfer-Encoding: Chunked ",
    b"Connection: close",
    b"Expect: 100-continue",
    b"Upgrade: h2c",
]


START_LINES = [b"GET /x?y HTTP/1.1", b"POST /x HTTP/1.0", b"OPTIONS * HTTP/1.9"]


def h11_reads_alike(head: bytes) -> bool:
    """Whether h11 reads an accepted head as we do; raises ProblemError for one that is rejected."""
    parsed = parse_head(head, HeadLimits())
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(head)
    request = parser.next_event()
    assert isinstance(request, h11.Request)
    fields = [field for field in request.headers if field[0] not in UPGRADE_FIELDS]
    read_here = [
        (name, value.lower() if name == b"transfer-encoding" else value)
        for name, value in parsed.head.headers
    ]
    return (parsed.head.method.encode(), parsed.head.target, read_here) == (
        request.method,
        request.target,
        fields,
    )


@pytest.mark.spec("G3")
@pytest.mark.parametrize("line", FIELD_LINES)
def test_h11_reads_each_field_alike(line: bytes) -> None:
    assert h11_reads_alike(b"\r\n".join([START_LINES[0], b"Host: h", line, b"", b""]))


@pytest.mark.spec("G3", "P4")
@given(
    st.sampled_from(START_LINES),
    st.lists(st.sampled_from(FIELD_LINES), max_size=4),
    st.integers(0, 120),
    st.binary(max_size=2),
)
def test_h11_reads_each_accepted_head_alike(
    start: bytes, lines: list[bytes], place: int, inserted: bytes
) -> None:
    whole = b"\r\n".join([start, b"Host: h", *lines, b"", b""])
    with suppress(ProblemError):  # Nobody reads what is rejected.
        assert h11_reads_alike(whole[:place] + inserted + whole[place:])
