"""One string of bytes for every answer."""

from __future__ import annotations

import pytest

from mmo_sansio.http.messages import HttpResponse
from mmo_trio.http.responses import response_bytes


def lines_of(wire: bytes) -> list[bytes]:
    """The head's lines without the date, whose value is the clock's."""
    head, _, _ = wire.partition(b"\r\n\r\n")
    return [line for line in head.split(b"\r\n") if not line.startswith(b"Date: ")]


@pytest.mark.spec("G9")
def test_an_answer_is_its_head_and_body_with_what_every_answer_carries() -> None:
    wire = response_bytes(
        HttpResponse(200, ((b"content-type", b"text/plain"), (b"x", b"")), b"hello"),
        request_id="r-1",
        connection=b"close",
    )
    assert lines_of(wire) == [
        b"HTTP/1.1 200 OK",
        b"content-type: text/plain",
        b"x: ",
        b"Cache-Control: no-store",
        b"X-Request-Id: r-1",
        b"Content-Length: 5",
        b"Connection: close",
    ]
    assert wire.endswith(b"\r\n\r\nhello")
    assert wire.count(b"\r\nDate: ") == 1


@pytest.mark.parametrize(
    ("answer", "without_body", "length", "body"),
    [
        (HttpResponse(200, (), b"hello"), False, b"Content-Length: 5", b"hello"),
        (HttpResponse(200, (), b"hello"), True, b"Content-Length: 5", b""),
        (HttpResponse(200), False, b"Content-Length: 0", b""),
        (HttpResponse(204), False, None, b""),
        (HttpResponse(304, (), b"hello"), False, None, b""),
        (HttpResponse(599, (), b"hello"), False, b"Content-Length: 5", b"hello"),
    ],
    ids=range(6),
)
def test_what_an_answer_says_of_its_body(
    answer: HttpResponse, without_body: bool, length: bytes | None, body: bytes
) -> None:
    wire = response_bytes(answer, request_id="r", without_body=without_body)
    lengths = [line for line in lines_of(wire) if line.startswith(b"Content-Length")]
    assert lengths == ([] if length is None else [length])
    assert wire.partition(b"\r\n\r\n")[2] == body


SPLITTING = [
    (b"a", b"b\r\nc: d"),
    (b"a", b"b\nc"),
    (b"a", b"b\0"),
    (b"a b", b"c"),
    (b"", b"c"),
    (b"a:", b"c"),
]


@pytest.mark.parametrize(("name", "value"), SPLITTING, ids=range(len(SPLITTING)))
def test_a_field_that_would_break_out_of_its_line_is_never_written(
    name: bytes, value: bytes
) -> None:
    with pytest.raises(ValueError):
        response_bytes(HttpResponse(200, ((name, value),)), request_id="r")
