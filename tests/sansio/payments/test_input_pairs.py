"""Of two inputs of which one reads what the other writes, neither can be decided without the other
where that matters; tests/runtime/storage/test_input_pairs.py plays them on real stores."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import get_args

import pytest

from mmo_sansio.messages.inputs import Input, UnmatchedNotified
from tests.support.input_pairs import NOTHING, pairs
from tests.support.input_variants import HoldBrand, Names, variants

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.spec("C12", "S1", "S4", "S6")
def test_something_excludes_every_pair_whose_outcome_would_be_that_of_no_sequence() -> None:
    assert [each.id for each in pairs() if each.exclusion == NOTHING] == []


def test_every_input_that_any_input_has_to_see_is_in_a_pair() -> None:
    found = {type(each.event) for pair in pairs() for each in (pair.one, pair.other)}
    assert found == {HoldBrand, *get_args(Input)} - {UnmatchedNotified}
    paired = {each.variant for pair in pairs() for each in (pair.one, pair.other)}
    assert [name for name in variants(Names(0), 1) if name not in paired] == ["UnmatchedNotified"]


def test_the_page_of_concurrent_inputs_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_pairs.py"))["page"]()
    written = (DOCS / "internals" / "concurrency.md").read_text(encoding="utf-8")
    assert written == made, "run: PYTHONPATH=src:. python docs/make_pairs.py"
