"""The one stylesheet: its size, the contrast of its colours, its scale of distances."""

from __future__ import annotations

import re

import pytest

from mmo_trio.design.blueprint import STYLESHEET_FILE, compact_css
from mmo_trio.pages.sandbox.guide import COLOURS

TEXT = STYLESHEET_FILE.read_text(encoding="utf-8")
STYLESHEET_BYTES_MAX = 12_288
CONTRAST_MIN, EDGE_CONTRAST_MIN = 4.5, 3.0
"""WCAG 2.2, success criteria 1.4.3 and 1.4.11 (AA)."""

PAIRS = [(fore, back) for fore, back, _ in COLOURS] + [
    ("--text", "--card"),
    ("--text", "--sunk"),
    ("--dim", "--card"),
    ("--dim", "--sunk"),
    ("--accent", "--card"),
    ("--good", "--card"),
    ("--bad", "--card"),
    ("--bad", "--bg"),
    ("--warn", "--card"),
    ("--bg", "--text"),
]


def _tokens(scheme: str) -> dict[str, str]:
    """Return the colours of a scheme; those that the dark one does not name are the light ones."""
    blocks = [
        dict(re.findall(r"(--[\w-]+): (#\w+)", block))
        for block in re.findall(r":root \{(.*?)\n\}", TEXT, re.S)
    ]
    return blocks[0] if scheme == "light" else blocks[0] | blocks[1]


def _luminance(colour: str) -> float:
    """Return the relative luminance that WCAG defines."""
    digits = colour[1:] if len(colour) == 7 else "".join(each * 2 for each in colour[1:])
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert _contrast("#000", "#ffffff") == pytest.approx(21)
    assert _contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


def test_it_is_small_as_served() -> None:
    assert len(compact_css(TEXT).encode()) < STYLESHEET_BYTES_MAX


def test_compacting_keeps_what_is_meant() -> None:
    text = "/* why */\n.a > .b,\n.c + .d :hover { margin: calc(1rem + 2px) 0;\n}\n"
    text += "@media (min-width: 1px) { a { b: c; } }\n"
    assert compact_css(text) == (
        ".a>.b,.c + .d :hover{margin:calc(1rem + 2px) 0}@media (min-width:1px){a{b:c}}"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("fore", "back"), PAIRS)
def test_text_can_be_read(scheme: str, fore: str, back: str) -> None:
    tokens = _tokens(scheme)
    assert _contrast(tokens[fore], tokens[back]) >= CONTRAST_MIN


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("fore", "back"), [("--edge", "--card"), ("--edge", "--bg"), ("--accent", "--bg")]
)
def test_edges_of_controls_are_seen(scheme: str, fore: str, back: str) -> None:
    tokens = _tokens(scheme)
    assert _contrast(tokens[fore], tokens[back]) >= EDGE_CONTRAST_MIN


def test_every_distance_is_on_the_scale_of_four_pixels() -> None:
    distances = re.findall(r"(?:margin|padding|gap)[\w-]*: ([^;]+);", TEXT)
    lengths = [float(each) for value in distances for each in re.findall(r"(-?[\d.]+)rem", value)]
    assert len(lengths) > 50
    assert [each for each in lengths if each % 0.25] == []


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert not re.search(r"@import|url\(|https?:", TEXT)
