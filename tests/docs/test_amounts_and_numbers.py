"""The page about amounts and numbers says what libraries were seen to answer."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_page_about_amounts_and_numbers_is_up_to_date(root: Path) -> None:
    made = runpy.run_path(str(root / "docs/make_amounts_and_numbers.py"))["page"]()
    written = (root / "docs/amounts_and_numbers.md").read_text(encoding="utf-8")
    assert written == made, "run: PYTHONPATH=src:. python docs/make_amounts_and_numbers.py"
