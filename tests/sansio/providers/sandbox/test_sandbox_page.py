"""The page about the sandbox is made from the table of scenarios."""

from __future__ import annotations

import runpy
from pathlib import Path

from mmo_sansio.providers.sandbox.scenarios import SCENARIOS
from mmo_sansio.values.error_codes import ErrorCode

DOCS = Path(__file__).parents[4] / "docs"


def test_the_page_says_what_the_table_says() -> None:
    made = runpy.run_path(str(DOCS / "make_sandbox.py"))["page"]()
    written = (DOCS / "sandbox.md").read_text(encoding="utf-8")
    assert written == made, "run: PYTHONPATH=src python docs/make_sandbox.py"
    for each in SCENARIOS:
        assert f"| `{each.name}` | {each.description} |" in made
    for code in ErrorCode:
        assert f"`{code}`" in made
