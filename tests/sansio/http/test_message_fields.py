"""What is asked of us by the fields of a message: a body that was packed unasked is read and never
grows beyond its bound, and a wait is obeyed (RFC 9110 sections 8.4 and 10.2.3)."""

from __future__ import annotations

import gzip
import zlib
from datetime import UTC, datetime

import pytest

from mmo_sansio.http.messages import (
    RETRY_AFTER_MAX,
    Headers,
    HttpResponse,
    retry_after,
    unpack_body,
)
from mmo_sansio.values.clock import SECOND, from_datetime

TEXT = b'{"status":"SUCCESSFUL"}'
PACKED = gzip.compress(TEXT)


def coded(*values: bytes) -> Headers:
    return tuple((b"content-encoding", each) for each in values)


@pytest.mark.parametrize(
    "headers", [coded(b"gzip"), coded(b" X-GZip "), coded(b"identity, gzip"), coded(b"", b"gzip")]
)
def test_gzip_is_unpacked(headers: Headers) -> None:
    assert unpack_body(headers, PACKED, bytes_max=len(TEXT)) == TEXT


@pytest.mark.parametrize(
    "headers", [(), coded(b""), coded(b"identity"), ((b"content-type", b"gzip"),)]
)
def test_what_is_not_packed_stays_as_it_is(headers: Headers) -> None:
    assert unpack_body(headers, TEXT, bytes_max=1_000) == TEXT


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (coded(b"br"), b"\x8b\x0b\x80"),
        (coded(b"deflate"), zlib.compress(TEXT)),
        (coded(b"gzip, gzip"), gzip.compress(PACKED)),
        (coded(b"gzip"), TEXT),
        (coded(b"gzip"), b""),
        (coded(b"gzip"), PACKED[:-4]),
        (coded(b"gzip"), PACKED[:-8] + bytes(8)),
        (coded(b"gzip"), PACKED + b"more"),
        (coded(b"gzip"), gzip.compress(bytes(10_000_000))),
    ],
    ids=range(9),
)
def test_what_cannot_be_unpacked_or_grows_too_much_stays_as_it_is(
    headers: Headers, body: bytes
) -> None:
    assert unpack_body(headers, body, bytes_max=100_000) == body


NOW = from_datetime(datetime(1994, 11, 6, 8, 49, 7, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"20", 20),
        (b"0", 0),
        (b"Sun, 06 Nov 1994 08:49:37 GMT", 30),
        (b"Sunday, 06-Nov-94 08:49:37 GMT", 30),
        (b"Sun Nov  6 08:49:37 1994", 30),
        (b"Sun, 06 Nov 1994 08:49:00 GMT", 0),
        (b"", 0),
        (b"-5", 0),
        (b"1.5", 0),
        (b"soon", 0),
        (b"\xb2", 0),
        (b"Sun, 31 Feb 1994 08:49:37 GMT", 0),
    ],
)
def test_a_wait_is_told_in_seconds_or_as_a_date(value: bytes, seconds: int) -> None:
    assert retry_after(HttpResponse(429, ((b"retry-after", value),)), now=NOW) == seconds * SECOND


@pytest.mark.parametrize("value", [b"86400", b"9" * 5_000, b"Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_wait_that_is_out_of_reason_is_cut(value: bytes) -> None:
    assert retry_after(HttpResponse(503, ((b"retry-after", value),)), now=NOW) == RETRY_AFTER_MAX


def test_who_names_no_wait_asks_for_none() -> None:
    assert retry_after(HttpResponse(429), now=NOW) == 0
