"""The life of a payment is drawn once, and shown with the same words wherever a merchant begins."""

from __future__ import annotations

import re
import runpy
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "make_payment_life.py"))
COMMAND = "run: PYTHONPATH=src python docs/make_payment_life.py"


def test_the_pictures_are_as_they_are_drawn() -> None:
    for file in MADE["PICTURES"]:
        assert file.read_text(encoding="utf-8") == MADE["picture"](), COMMAND


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/README.md",
        "docs/get_started.md",
        "docs/callbacks.md",
        "src/mmo_trio/pages/templates/docs/docs.html",
    ],
)
def test_each_page_says_in_words_what_the_picture_shows(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.search(r"!\[([^\]]+)\]\([^)]*payment_life\.svg\)", text) or re.search(
        r'payment_life\.svg"[^>]* alt="([^"]+)"', text
    )
    assert shown is not None, f"{page} has no picture of a payment's life"
    assert " ".join(unescape(shown[1]).split()) == MADE["alternative"]()


def test_no_letter_is_smaller_than_the_pages_on_a_phone() -> None:
    """At 320 pixels a page has 288 for it."""
    picture = MADE["picture"]()
    assert 'viewBox="0 0 288 ' in picture
    sizes = [int(size) for size in re.findall(r"font: (\d+)px", picture)]
    assert min(sizes) >= 12
