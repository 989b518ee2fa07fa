"""What guards a cell against spreadsheet programs is taken away again, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.values.formula_guard import guard_cell, unguard_cell


@given(st.text(st.sampled_from("'=+-@;\t\n a1\uff1d"), max_size=8) | st.text(max_size=8))
def test_a_guarded_cell_is_read_as_what_was_written(text: str) -> None:
    assert unguard_cell(guard_cell(text)) == text


@pytest.mark.parametrize("text", ["'q", "o'neill", "a-1", "''", "", "it's 5"])
def test_other_apostrophes_stay(text: str) -> None:
    assert (guard_cell(text), unguard_cell(text)) == (text, text)


def test_an_apostrophe_before_a_number_keeps_it_a_text() -> None:
    assert unguard_cell("'0712345001") == "0712345001"
