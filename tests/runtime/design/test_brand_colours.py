"""Whatever colour a brand has, its page can be read."""

from __future__ import annotations

import re

import pytest

from mmo_trio.design.blueprint import STYLESHEET_FILE
from mmo_trio.design.brand_colours import CONTRAST_MIN, brand_stylesheet, contrast

COLOURS = [
    "#000000",
    "#ffffff",
    "#ffff00",
    "#ff0000",
    "#00ff00",
    "#0000ff",
    "#0a6b48",
    "#808080",
    "#f7d417",
    "#123456",
]


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_is_made_readable(colour: str) -> None:
    sheet = STYLESHEET_FILE.read_text(encoding="utf-8")
    surfaces = [
        dict(re.findall(r"(--(?:bg|sunk)): (#\w{6})", block)) for block in sheet.split("@media")[:2]
    ]
    own = re.findall(r"--accent:(#\w+);--info:(#\w+)", brand_stylesheet(colour))
    assert len(own) == 2
    for (accent, info), surface in zip(own, surfaces, strict=True):
        for back in (surface["--bg"], surface["--sunk"], info):
            assert contrast(accent, back) >= CONTRAST_MIN, (colour, back)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_surface_has_the_given_colour_and_text_that_reads_on_it(colour: str) -> None:
    [(fill, on)] = re.findall(r"--fill:(#\w+);--on:(#\w+)", brand_stylesheet(colour))
    assert fill == colour
    assert contrast(on, fill) >= CONTRAST_MIN


def test_a_bright_colour_has_dark_text() -> None:
    assert "--fill:#ffd400;--on:#000000" in brand_stylesheet("#ffd400")
    assert "--fill:#2f4fd0;--on:#ffffff" in brand_stylesheet("#2f4fd0")


def test_a_colour_that_can_be_read_stays_as_it_is() -> None:
    assert "--accent:#0a6b48" in brand_stylesheet("#0a6b48")
