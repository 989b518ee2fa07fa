"""Dividing what an HTTP/2 client sends into frames, and counting them, in whatever pieces they
come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.http2_frames import (
    DATA,
    FRAMES_BURST,
    FRAMES_PER_S,
    HEADERS,
    NEEDED,
    NEEDED_COST,
    PADDED,
    PAYLOAD_BYTES_MAX,
    PREFACE,
    WINDOW_UPDATE,
    Frame,
    FrameAllowance,
    FrameReader,
    FrameTooLarge,
    NotHttp2,
)

RST_STREAM, PING, UNKNOWN = 0x3, 0x6, 0xEE
BURST = int(FRAMES_BURST)


def frame(kind: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """A frame of stream 1."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + b"\0\0\0\1" + payload


def frames_in(reader: FrameReader) -> list[Frame]:
    """Every whole frame that the reader has."""
    return list(iter(reader.next_frame, None))


@given(
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=50),
    st.lists(st.integers(min_value=0, max_value=2500), max_size=20),
)
def test_the_pieces_do_not_matter(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = PREFACE + b"".join(frame(kind, payload) for kind, payload in sent)
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reader = FrameReader()
    found = []
    for begin, end in pairwise(bounds):
        reader.receive(data[begin:end])
        found += frames_in(reader)
    assert [(each.kind, each.data) for each in found] == [
        (kind, frame(kind, payload)) for kind, payload in sent
    ]
    assert all(each.stream_id == 1 for each in found)


def test_what_does_not_begin_with_the_preface_is_no_http2() -> None:
    reader = FrameReader()
    reader.receive(b"PRI * HTTP/1.1\r\n")
    with pytest.raises(NotHttp2):
        reader.next_frame()


def test_a_frame_that_is_too_large_is_found_by_its_head() -> None:
    reader = FrameReader()
    reader.receive(PREFACE + frame(DATA, b"x" * PAYLOAD_BYTES_MAX))
    assert len(frames_in(reader)) == 1
    reader.receive(frame(DATA, b"x" * (PAYLOAD_BYTES_MAX + 1))[:9])
    with pytest.raises(FrameTooLarge):
        reader.next_frame()


def test_padding_is_no_part_of_a_body() -> None:
    assert Frame(frame(DATA, b"12345")).body_bytes == 5
    assert Frame(frame(DATA, b"\x02" + b"123" + b"\0\0", PADDED)).body_bytes == 3


@pytest.mark.parametrize("kind", [RST_STREAM, PING, UNKNOWN])
def test_a_burst_is_allowed_and_the_next_frame_is_one_too_many(kind: int) -> None:
    allowance = FrameAllowance()
    assert all(allowance.take(Frame(frame(kind)), now=0) for _ in range(BURST))
    assert not allowance.take(Frame(frame(kind)), now=0)


@pytest.mark.parametrize("kind", sorted(NEEDED))
def test_what_requests_need_is_counted_for_less(kind: int) -> None:
    allowance = FrameAllowance()
    many = round(FRAMES_BURST / NEEDED_COST)
    assert all(allowance.take(Frame(frame(kind)), now=0) for _ in range(many - 1))
    assert not all(allowance.take(Frame(frame(kind)), now=0) for _ in range(2))


def test_after_a_while_there_is_room_again() -> None:
    allowance = FrameAllowance()
    assert all(allowance.take(Frame(frame(RST_STREAM)), now=0) for _ in range(BURST))
    for second in range(1, 100):
        for _ in range(int(FRAMES_PER_S)):
            assert allowance.take(Frame(frame(RST_STREAM)), now=second)
    assert not allowance.take(Frame(frame(PING)), now=99)


def test_a_client_that_gets_answers_never_runs_out() -> None:
    """Each with a body in a frame, an empty one behind it, two windows and a PING."""
    allowance = FrameAllowance()
    for _ in range(10 * BURST):
        for kind in (HEADERS, DATA, DATA, WINDOW_UPDATE, WINDOW_UPDATE, PING):
            assert allowance.take(Frame(frame(kind)), now=0)
        allowance.give_back(now=0, answers=1)


def test_a_client_that_reads_a_large_answer_never_runs_out() -> None:
    """It opens two windows anew for every 4 KiB."""
    allowance = FrameAllowance()
    for _ in range(20 * BURST):
        assert allowance.take(Frame(frame(WINDOW_UPDATE)), now=0)
        assert allowance.take(Frame(frame(WINDOW_UPDATE)), now=0)
        allowance.give_back(now=0, body_bytes=4096)


def test_nothing_is_saved_up_beyond_the_burst() -> None:
    allowance = FrameAllowance()
    allowance.give_back(now=0, answers=1000, body_bytes=1_000_000)
    assert all(allowance.take(Frame(frame(PING)), now=0) for _ in range(BURST))
    assert not allowance.take(Frame(frame(PING)), now=0)
