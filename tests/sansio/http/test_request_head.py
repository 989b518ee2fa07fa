"""What two programs in a row could read differently is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.http.request_head import (
    KIB,
    LENGTH_DIGITS_MAX,
    HeadLimits,
    check_partial_head,
    parse_head,
    to_origin_form,
)
from mmo_sansio.values.problems import Problem, ProblemError

LIMITS = HeadLimits()


def a_head(*lines: bytes, start: bytes = b"GET /x HTTP/1.1", host: bytes = b"Host: h") -> bytes:
    """A head that is good but for what the test says."""
    return b"\r\n".join((start, *((host,) if host else ()), *lines, b"", b""))


def check_head(head: bytes, limits: HeadLimits) -> Problem | None:
    """Why a head is rejected; None for a good one."""
    try:
        parse_head(head, limits)
    except ProblemError as error:
        return error.problem
    return None


GOOD = [
    a_head(),
    a_head(b"X-Api-Key: k\xc3\xa9y", b"Accept:*/*", b"X-Empty:", b"X-Spaced: \t a  b \t"),
    a_head(b"content-LENGTH: 0"),
    a_head(b"Content-Length: 9223372036854775807", start=b"POST /x HTTP/1.1"),
    a_head(b"Transfer-Encoding: chunked", start=b"POST /x HTTP/1.1"),
    a_head(b"transfer-encoding:Chunked ", start=b"POST /x HTTP/1.1"),
    a_head(host=b"hOsT: gateway.example:8080"),
    a_head(host=b"Host: [::1]:8080"),
    a_head(host=b"Host:127.0.0.1"),
    a_head(host=b"", start=b"GET /x HTTP/1.0"),
    a_head(start=b"GET /x HTTP/1.0"),
    a_head(start=b"GET http://h/x?y HTTP/1.1"),
    a_head(start=b"GET HTTPS://H HTTP/1.1"),
    a_head(start=b"GET http://other/x HTTP/1.1"),
    a_head(host=b"Host:", start=b"GET http://h/x HTTP/1.1"),
    a_head(start=b"GET /x HTTP/1.2"),
    a_head(start=b"OPTIONS * HTTP/1.1"),
    a_head(start=b"M-SEARCH! /%zz?a=b&c=%2F HTTP/1.1"),
    a_head(b"Upgrade: websocket", b"Connection: upgrade"),
    # What java.net.http and `curl --http2` send by default: an offer, which a server may ignore
    # (RFC 9110, 7.8).
    a_head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk"),
    a_head(b"Upgrade: websocket, H2C"),
    a_head(b"HTTP2-Settings: AAMAAABk"),
    a_head(b"Expect: 100-continue"),
]


@pytest.mark.spec("G3")
@pytest.mark.parametrize("head", GOOD, ids=range(len(GOOD)))
def test_a_good_head_has_no_fault(head: bytes) -> None:
    assert check_head(head, LIMITS) is None


@pytest.mark.parametrize("head", GOOD, ids=range(len(GOOD)))
def test_no_part_of_a_good_head_is_refused_before_its_end(head: bytes) -> None:
    for end in range(len(head)):
        assert check_partial_head(head[:end], LIMITS) is None
        assert check_partial_head(head[:end], LIMITS, checked_bytes=max(0, end - 1)) is None


POST = b"POST /x HTTP/1.1"
FAULTS: list[tuple[bytes, int, str]] = [
    # Lines and characters: what RFC 9112 section 2.2 and RFC 9110 section 5.5 forbid.
    (b"GET /x HTTP/1.1\nHost: h\n\n\r\n\r\n", 400, "CR LF"),
    (a_head(b"A: b\nC: d"), 400, "CR LF"),
    (a_head(b"A: b\rC: d"), 400, "CR LF"),
    (a_head(b"A: b\r\rC: d"), 400, "CR LF"),
    (a_head(b"A: b\x00c"), 400, "control character"),
    (a_head(b"A\x00: b"), 400, "control character"),
    (a_head(b"A: b\x0bc"), 400, "control character"),
    (a_head(b"A: b\x1bc"), 400, "control character"),
    (a_head(b"A: b\x7fc"), 400, "control character"),
    (a_head(start=b"GET /\x00 HTTP/1.1"), 400, "control character"),
    (a_head(b"A: b", b" folded"), 400, "folded"),
    (a_head(b"A: b", b"\tfolded"), 400, "folded"),
    (a_head(host=b" Host: h"), 400, "folded"),
    (a_head(b"A : b"), 400, "space between"),
    (a_head(b"A\t: b"), 400, "space between"),
    (a_head(b"Transfer-Encoding : chunked", start=POST), 400, "space between"),
    (a_head(b"Content-Length : 5", start=POST), 400, "space between"),
    (a_head(b": b"), 400, "no name"),
    (a_head(b"A"), 400, "no colon"),
    (a_head(b"A(b): c"), 400, "character that is not allowed"),
    (a_head(b"\xc3\xa4: c"), 400, "character that is not allowed"),
    (a_head(b"A b: c"), 400, "character that is not allowed"),
    # The request line: RFC 9112 section 3.
    (a_head(start=b"GET /x"), 400, "request line"),
    (a_head(start=b""), 400, "request line"),
    (a_head(start=b"GET  /x HTTP/1.1"), 400, "request line"),
    (a_head(start=b"GET /x  HTTP/1.1"), 400, "request line"),
    (a_head(start=b"GET\t/x\tHTTP/1.1"), 400, "request line"),
    (a_head(start=b" GET /x HTTP/1.1"), 400, "request line"),
    (a_head(start=b"GET /x HTTP/1.1 "), 400, "request line"),
    (a_head(start=b"GET /a b HTTP/1.1"), 400, "request line"),
    (a_head(start=b"GET /\xc3\xa4 HTTP/1.1"), 400, "request line"),
    (a_head(start=b"G(T /x HTTP/1.1"), 400, "request line"),
    (a_head(start=b"GET /x http/1.1"), 400, "request line"),
    (a_head(start=b"GET /x HTTP/1.1.1"), 400, "request line"),
    (a_head(start=b"GET /x HTTPS/1.1"), 400, "request line"),
    (a_head(start=b"GET /x HTTP/+1.1"), 400, "request line"),
    # Versions, and HTTP/2 in the clear by preface (row 123).
    (a_head(start=b"GET /x HTTP/0.9"), 400, "Only HTTP/1"),
    (a_head(start=b"GET /x HTTP/1.10"), 400, "Only HTTP/1"),
    (a_head(start=b"GET /x HTTP/2"), 400, "Only HTTP/1"),
    (a_head(start=b"GET /x HTTP/3.0"), 400, "Only HTTP/1"),
    (b"PRI * HTTP/2.0\r\n\r\n", 400, "Only HTTP/1"),
    # Targets: RFC 9112 section 3.2.
    (a_head(start=b"CONNECT h:443 HTTP/1.1"), 400, "CONNECT"),
    (a_head(start=b"CONNECT /x HTTP/1.1"), 400, "CONNECT"),
    (a_head(start=b"GET h:443 HTTP/1.1"), 400, "path"),
    (a_head(start=b"GET * HTTP/1.1"), 400, "path"),
    (a_head(start=b"GET x HTTP/1.1"), 400, "path"),
    (a_head(start=b"GET ftp://h/x HTTP/1.1"), 400, "path"),
    (a_head(start=b"GET http:///x HTTP/1.1"), 400, "path"),
    (a_head(start=b"GET http://u:p@h/x HTTP/1.1"), 400, "path"),
    (a_head(start=b"GET /x#y HTTP/1.1"), 400, "fragment"),
    # Where the message ends: RFC 9112 section 6.
    (a_head(b"Content-Length: 5", b"Transfer-Encoding: chunked", start=POST), 400, "exclude"),
    (a_head(b"Transfer-Encoding: chunked", b"Content-Length: 5", start=POST), 400, "exclude"),
    (a_head(b"Transfer-Encoding: chunked", start=b"POST /x HTTP/1.0"), 400, "HTTP/1.0"),
    (a_head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400, "more than once"),
    (a_head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip"), 400, "more than once"),
    (a_head(b"Transfer-Encoding: xchunked", start=POST), 400, "only transfer coding"),
    (a_head(b"Transfer-Encoding: gzip, chunked", start=POST), 400, "only transfer coding"),
    (a_head(b"Transfer-Encoding: chunked, chunked", start=POST), 400, "only transfer coding"),
    (a_head(b"Transfer-Encoding: identity", start=POST), 400, "only transfer coding"),
    (a_head(b"Transfer-Encoding: chunked;q=1", start=POST), 400, "only transfer coding"),
    (a_head(b'Transfer-Encoding: "chunked"', start=POST), 400, "only transfer coding"),
    (a_head(b"Transfer-Encoding:", start=POST), 400, "only transfer coding"),
    (a_head(b"Content-Length: 5", b"Content-Length: 6", start=POST), 400, "more than once"),
    (a_head(b"Content-Length: 5", b"Content-Length: 5", start=POST), 400, "more than once"),
    (a_head(b"Content-Length: 5, 5", start=POST), 400, "one number"),
    (a_head(b"Content-Length: +5", start=POST), 400, "one number"),
    (a_head(b"Content-Length: -5", start=POST), 400, "one number"),
    (a_head(b"Content-Length: 5.0", start=POST), 400, "one number"),
    (a_head(b"Content-Length: 0x5", start=POST), 400, "one number"),
    (a_head(b"Content-Length: 5 5", start=POST), 400, "one number"),
    (a_head(b"Content-Length: 1_0", start=POST), 400, "one number"),
    (a_head(b"Content-Length: \xb2", start=POST), 400, "one number"),
    (a_head(b"Content-Length:", start=POST), 400, "one number"),
    (a_head(b"Content-Length: " + b"9" * (LENGTH_DIGITS_MAX + 1), start=POST), 400, "one number"),
    (a_head(b"Content-Length: " + b"0" * 5000 + b"1", start=POST), 400, "one number"),
    # Whose message it is: RFC 9112 section 3.2.
    (a_head(host=b""), 400, "Host header is missing"),
    (a_head(b"Host: h"), 400, "Host is sent more than once"),
    (a_head(b"Host: evil", start=b"GET /x HTTP/1.0"), 400, "Host is sent more than once"),
    (a_head(host=b"Host:"), 400, "Host must be"),
    (a_head(host=b"Host: a b"), 400, "Host must be"),
    (a_head(host=b"Host: a/b"), 400, "Host must be"),
    (a_head(host=b"Host: u@h"), 400, "Host must be"),
    (a_head(host=b"Host: h:port"), 400, "Host must be"),
    (a_head(host=b"Host: h, g:1:2"), 400, "Host must be"),
]


@pytest.mark.spec("G3", "P4")
@pytest.mark.parametrize(("head", "status", "words"), FAULTS, ids=range(len(FAULTS)))
def test_a_head_that_could_be_misread_is_refused(head: bytes, status: int, words: str) -> None:
    problem = check_head(head, LIMITS)
    assert problem is not None
    assert problem.status == status
    assert problem.error_code == "bad_request"
    assert problem.segment == "bad_request"
    assert words in problem.detail


EARLY = [
    (b"GET /x HTTP/1.1\nHost: h\n\n", "CR LF"),
    (b"GET /x HTTP/1.1\r\nHost: h\n\n", "CR LF"),
    (b"GET /x HTTP/1.1\rHost: h", "CR LF"),
    (b"\x16\x03\x01\x02\x00\x01", "control character"),
    (b"GET /x HTTP/1.1\r\nA: \x00", "control character"),
    (b"GET /\r\n", "request line"),
    (b"hello\r\n", "request line"),
    (b"GET / HTTP/3.0\r\n", "Only HTTP/1"),
]


@pytest.mark.spec("G3")
@pytest.mark.parametrize(("part", "words"), EARLY, ids=range(len(EARLY)))
def test_a_head_whose_end_would_never_come_is_refused_early(part: bytes, words: str) -> None:
    problem = check_partial_head(part, LIMITS)
    assert problem is not None
    assert problem.status == 400
    assert words in problem.detail
    assert _fed_byte_by_byte(part) == problem


def _fed_byte_by_byte(part: bytes) -> Problem | None:
    for end in range(1, len(part) + 1):
        if problem := check_partial_head(part[:end], LIMITS, checked_bytes=end - 1):
            return problem
    return None


@pytest.mark.spec("L3", "P4")
def test_a_target_of_8_kib_below_the_longest_path_passes_and_more_than_the_limit_is_a_414() -> None:
    look_up = b"GET /gateway/mmo/v2/status/mref/" + b"x" * 8 * KIB + b" HTTP/1.1"
    assert check_head(a_head(start=look_up), LIMITS) is None
    fits = b"/" + b"x" * (LIMITS.target_bytes - 1)
    assert check_head(a_head(start=b"GET " + fits + b" HTTP/1.1"), LIMITS) is None
    _is_problem(check_head(a_head(start=b"GET " + fits + b"x HTTP/1.1"), LIMITS), 414)
    _is_problem(check_partial_head(b"GET " + fits + b"x HTTP/1.1\r\nHos", LIMITS), 414)
    _is_problem(check_partial_head(b"GET /" + b"x" * 12 * KIB, LIMITS), 414)


@pytest.mark.spec("P4")
def test_a_head_larger_than_the_limit_is_a_431() -> None:
    room = LIMITS.head_bytes - len(a_head(b"A: "))
    assert check_head(a_head(b"A: " + b"x" * room), LIMITS) is None
    _is_problem(check_head(a_head(b"A: " + b"x" * (room + 1)), LIMITS), 431)
    _is_problem(
        check_partial_head(a_head(b"A: " + b"x" * (room + 2))[:-1], LIMITS, checked_bytes=99), 431
    )


@pytest.mark.spec("P4")
def test_more_header_fields_than_the_limit_are_a_431() -> None:
    fields = [b"A: b"] * (LIMITS.fields - 1)
    assert check_head(a_head(*fields), LIMITS) is None
    _is_problem(check_head(a_head(*fields, b"A: b"), LIMITS), 431)


SEGMENTS = {414: "target_too_long", 431: "head_too_large"}


def _is_problem(problem: Problem | None, status: int) -> None:
    assert problem is not None
    assert (problem.status, problem.segment) == (status, SEGMENTS[status])
    assert problem.error_code == "bad_request"


@pytest.mark.parametrize(
    ("target", "expected", "host"),
    [
        (b"/x?y", b"/x?y", b"other"),
        (b"//x", b"//x", b"other"),
        (b"*", b"*", b"other"),
        (b"http://h/x?y", b"/x?y", b"h"),
        (b"HTTPS://h:1//x", b"//x", b"h:1"),
        (b"http://h", b"/", b"h"),
        (b"http://h?y", b"/?y", b"h"),
    ],
)
def test_an_absolute_target_means_its_path_query_and_host(
    target: bytes, expected: bytes, host: bytes
) -> None:
    head = to_origin_form(RequestHead("GET", target, ((b"a", b"b"), (b"host", b"other"))))
    assert (head.target, head.values(b"host"), head.values(b"a")) == (expected, (host,), (b"b",))


@given(st.binary(max_size=200))
def test_no_bytes_at_all_raise(head: bytes) -> None:
    check_partial_head(head, LIMITS)
    check_head(head + b"\r\n\r\n", LIMITS)


@given(st.sampled_from(GOOD), st.integers(0, 300), st.binary(min_size=1, max_size=3))
def test_what_passes_has_one_reading_only(head: bytes, place: int, inserted: bytes) -> None:
    """A mutated head that passes still consists of CR LF lines without control characters."""
    mutated = head[:place] + inserted + head[place:]
    if mutated.endswith(b"\r\n\r\n") and check_head(mutated, LIMITS) is None:
        lines = mutated[:-4].split(b"\r\n")
        assert not any(byte < 0x20 and byte != 0x09 for line in lines for byte in line)
        assert all(line[:1] not in (b" ", b"\t", b"") for line in lines)
