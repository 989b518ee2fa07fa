"""The documentation's page of states is the one that the legality table draws."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.spec("S1")
def test_the_page_of_states_is_up_to_date() -> None:
    drawn = runpy.run_path(str(DOCS / "make_states.py"))["page"]()
    written = (DOCS / "internals" / "states.md").read_text(encoding="utf-8")
    assert written == drawn, "run: PYTHONPATH=src python docs/make_states.py"
