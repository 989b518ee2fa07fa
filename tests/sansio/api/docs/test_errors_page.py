"""The page of error codes is made from the catalogues."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.spec("P1", "E1")
def test_the_page_says_what_the_catalogues_say() -> None:
    made = runpy.run_path(str(DOCS / "make_errors.py"))["page"]()
    written = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert written == made, "run: PYTHONPATH=src python docs/make_errors.py"
