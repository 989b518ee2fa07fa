"""Counting the HTTP/2 frames that only make work, in whatever pieces they come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.http2_frames import (
    COUNTED,
    FRAMES_BURST,
    FRAMES_PER_S,
    PING,
    PREFACE,
    RST_STREAM,
    FrameCounter,
)

HEADERS, DATA, WINDOW_UPDATE = 0x1, 0x0, 0x8
BURST = int(FRAMES_BURST)


def frame(kind: int, payload: bytes = b"") -> bytes:
    """A frame of stream 1 without flags."""
    return len(payload).to_bytes(3, "big") + bytes((kind, 0)) + (1).to_bytes(4, "big") + payload


@pytest.mark.parametrize("kind", sorted(COUNTED))
def test_a_burst_is_allowed_and_the_next_frame_is_one_too_many(kind: int) -> None:
    counter = FrameCounter()
    assert counter.receive(PREFACE + frame(kind, b"1234") * BURST, now=0)
    assert not counter.receive(frame(kind, b"1234"), now=0)


def test_after_a_while_there_is_room_again() -> None:
    counter = FrameCounter()
    assert counter.receive(PREFACE + frame(RST_STREAM) * BURST, now=0)
    for second in range(1, 100):
        assert counter.receive(frame(RST_STREAM) * int(FRAMES_PER_S), now=second)
    assert not counter.receive(frame(PING), now=99)


def test_frames_that_ask_for_something_are_not_counted() -> None:
    counter = FrameCounter()
    assert counter.receive(PREFACE, now=0)
    for kind in (HEADERS, DATA, WINDOW_UPDATE):
        assert counter.receive(frame(kind, frame(RST_STREAM) * 3) * 1000, now=0)


@given(
    st.lists(
        st.tuples(st.sampled_from([*COUNTED, HEADERS, DATA]), st.binary(max_size=40)),
        min_size=1,
        max_size=150,
    ),
    st.lists(st.integers(min_value=0, max_value=5000), max_size=20),
)
def test_the_pieces_do_not_matter(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    sent = PREFACE + b"".join(frame(kind, payload) for kind, payload in frames)
    bounds = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    counter = FrameCounter()
    results = [counter.receive(sent[a:b], now=0) for a, b in pairwise(bounds)]
    assert results[-1] == (sum(kind in COUNTED for kind, _ in frames) <= BURST)
