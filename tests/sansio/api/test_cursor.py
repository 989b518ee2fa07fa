"""Only a cursor that we signed for this brand is one (R5)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.api.cursor import (
    CURSOR_MAX,
    Cursor,
    CursorError,
    Direction,
    Filters,
    decode_cursor,
    encode_cursor,
)
from mmo_sansio.messages.queries import Position
from mmo_sansio.values.clock import FIRST_INSTANT, LAST_INSTANT, Instant

KEY = b"a key of thirty-two random bytes"
CURSOR = Cursor(
    {"from": "2024-10-04", "to": "2024-10-05", "method": "é+/", "pageSize": "7"},
    Direction.AFTER,
    Position(Instant(1_728_000_000_000_001), "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
)
TEXT = encode_cursor(CURSOR, brand="acme", key=KEY)


def is_refused(text: str, *, brand: str = "acme", key: bytes = KEY) -> bool:
    try:
        decode_cursor(text, brand=brand, keys=[key])
    except CursorError:
        return True
    return False


_WORDS = st.text(st.characters(codec="utf-8"), max_size=30)


@pytest.mark.spec("R5")
@given(
    st.dictionaries(_WORDS, _WORDS, max_size=6),
    st.sampled_from(Direction),
    st.builds(Position, st.integers(FIRST_INSTANT, LAST_INSTANT), _WORDS),
    _WORDS,
    st.binary(),
)
def test_a_cursor_is_read_as_it_was_written(
    filters: Filters, direction: Direction, position: Position, brand: str, key: bytes
) -> None:
    cursor = Cursor(filters, direction, position)
    text = encode_cursor(cursor, brand=brand, key=key)
    assert decode_cursor(text, brand=brand, keys=[key]) == cursor
    assert text.isascii()
    assert text.replace("-", "").replace("_", "").isalnum()


@pytest.mark.spec("R5")
def test_the_same_place_is_the_same_cursor_for_ever() -> None:
    written = encode_cursor(CURSOR, brand="acme", key=KEY)
    assert written == (
        "Aa5inAMT17qLnqexhJl4FpVsIEIOl1rUm2nH-hsznvoDW3siZnJvbSI6IjIwMjQtMTAtMDQiLCJ0byI6"
        "IjIwMjQtMTAtMDUiLCJtZXRob2QiOiLDqSsvIiwicGFnZVNpemUiOiI3In0sImFmdGVyIiwxNzI4MDAw"
        "MDAwMDAwMDAxLCIwMUFSWjNOREVLVFNWNFJSRkZRNjlHNUZBViJd"
    )


@pytest.mark.spec("R5")
@given(st.integers(0, len(urlsafe_b64decode(TEXT + "==")) * 8 - 1))
def test_row_117_a_flipped_bit_is_noticed(bit: int) -> None:
    packed = bytearray(urlsafe_b64decode(TEXT + "=="))
    packed[bit // 8] ^= 1 << bit % 8
    assert is_refused(urlsafe_b64encode(packed).rstrip(b"=").decode())


@pytest.mark.spec("R5")
@given(st.integers(0, len(TEXT) - 1), st.characters())
def test_row_117_a_changed_character_is_noticed(at: int, character: str) -> None:
    changed = TEXT[:at] + character + TEXT[at + 1 :]
    assert changed == TEXT or is_refused(changed)


@pytest.mark.spec("R5")
def test_row_117_a_cut_cursor_is_noticed() -> None:
    assert all(is_refused(TEXT[:length]) for length in range(len(TEXT)))


@pytest.mark.spec("R5")
@pytest.mark.parametrize(
    "text",
    [
        *("", "=", TEXT + "=", TEXT + "==", TEXT + "A", "A" + TEXT, TEXT + "\n", TEXT + "!"),
        TEXT * 2,
        *("x" * 100_000, "é", "\ud800", "AAAA", "AQ", "null", "/" + TEXT[1:]),
    ],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_row_117_garbage_is_no_cursor(text: str) -> None:
    assert is_refused(text)


@pytest.mark.spec("R5")
@given(st.text())
def test_no_text_does_worse_than_being_no_cursor(text: str) -> None:
    assert is_refused(text)


@pytest.mark.spec("R5")
def test_row_117_another_brand_key_or_version_is_noticed() -> None:
    assert not is_refused(TEXT)
    assert is_refused(TEXT, brand="other")
    assert is_refused(TEXT, brand="")
    assert is_refused(TEXT, key=b"another key")
    packed = urlsafe_b64decode(TEXT + "==")
    assert is_refused(urlsafe_b64encode(b"\x02" + packed[1:]).rstrip(b"=").decode())


@pytest.mark.spec("R5")
def test_the_longest_cursor_is_short_enough_to_be_looked_at() -> None:
    filters = {
        "from": "0" * 64,
        "to": "0" * 64,
        "type": "payout",
        "method": "\U0001f600" * 100,
        "status": "pending",
        "pageSize": "5000",
    }
    text = encode_cursor(
        Cursor(filters, Direction.BEFORE, Position(FIRST_INSTANT, "7" * 26)), brand="b", key=KEY
    )
    assert len(text) < 1_500 < CURSOR_MAX
