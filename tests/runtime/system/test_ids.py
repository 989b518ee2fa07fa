"""gatewayReferences: unique, increasing and in the form of a ULID."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.values.clock import Instant
from mmo_trio.system.ids import ReferenceGenerator, format_ulid

DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "00000000000000000000000000"),
        (31, "0000000000000000000000000Z"),
        (0x01563E3AB5D3D6764C61EFB99302BD5B, "01ARZ3NDEKTSV4RRFFQ69G5FAV"),  # The ULID specification's own example.
        (2**128 - 1, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
    ],
)
def test_a_number_is_written_as_a_ulid(value: int, text: str) -> None:
    assert format_ulid(value) == text


@given(st.integers(0, 2**128 - 1))
def test_every_number_is_written_in_base_32(value: int) -> None:
    text = format_ulid(value)
    assert len(text) == 26
    assert sum(DIGITS.index(digit) << 5 * place for place, digit in enumerate(reversed(text))) == value


def test_references_increase_even_when_the_clock_steps_back() -> None:
    moments = iter([5_000, 5_000, 4_000, 6_000])
    references = ReferenceGenerator(lambda: Instant(next(moments)))
    made = [references.next() for _ in range(4)]
    assert made == sorted(set(made))
    assert made[0].startswith("0000000005")
    assert made[3].startswith("0000000006")
