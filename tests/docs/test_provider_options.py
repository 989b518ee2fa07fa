"""The pages of operators have what their adapters declare."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

KINDS = ("airtel_money", "mpesa_daraja", "mtn_momo", "pawapay", "wave")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_the_options_that_are_declared(root: Path, kind: str) -> None:
    maker = runpy.run_path(str(root / "docs/make_options.py"))
    text = (root / f"docs/providers/{kind}.md").read_text(encoding="utf-8")
    assert set(maker["KINDS"]) == set(KINDS)
    assert text == maker["page"](kind), "run: PYTHONPATH=src python docs/make_options.py"
    for option in maker["KINDS"][kind].options:
        assert f"| `{option.name}` | {option.default_words} | {option.meaning} |" in text
        assert option.meaning.endswith("."), option.name
