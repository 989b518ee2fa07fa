"""Takes pictures of pages, and compares them with those of the documentation in docs/screenshots.

Times, references and amounts differ from run to run, and so may the smoothing of letters. Two
pictures are therefore compared as seen from afar: each square of `BLOCK` pixels is one colour. What
has moved, is missing or has another colour changes whole squares; other words in the same place
hardly do."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page

SCREENSHOTS = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
SCREENSHOT_BYTES_MAX, FULL_PAGE_BYTES_MAX = 60_000, 160_000
COLOURS_MAX = 64
"""Of the palette of a stored picture, which keeps the files small."""

BLOCK = 8
LEVELS_MAX = 32
"""How much a channel of a square may differ, of 255 levels."""
DIFFERENT_SHARE_MAX = 0.03
"""How large a share of the squares may differ by more."""

SETTLED = """async () => {
    const place = () => [scrollX, scrollY, document.documentElement.scrollWidth,
    document.documentElement.scrollHeight];
    const drawn = () => document.documentElement.animate([], 1).finished;
    await document.fonts.ready;
    for (let before; String(before) !== String(place());) {
        before = place();
        await drawn();
        await drawn();
    }
}"""
"""Waits until the page has the same size and place after two frames as before them. A frame is
awaited by an animation of nothing, as this also works on a page without JavaScript."""


def settle(page: Page) -> None:
    """Wait until the page is loaded, has its fonts, and neither scrolls nor grows any more."""
    page.wait_for_load_state()
    page.evaluate(SETTLED)


def screenshot(
    page: Page, name: str, *, full_page: bool = False, hidden: Sequence[Locator] = ()
) -> None:
    """Compare the page with `docs/screenshots/NAME.png`; with MMO_SCREENSHOTS=1, write that file
    instead. What is `hidden`, such as a QR code that is another one each time, is grey in the
    picture."""
    settle(page)
    taken = Image.open(
        io.BytesIO(
            page.screenshot(
                animations="disabled", full_page=full_page, mask=hidden, mask_color="#9aa3b2"
            )
        )
    ).convert("RGB")
    path = SCREENSHOTS / f"{name}.png"
    if os.environ.get("MMO_SCREENSHOTS") == "1":
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        taken.quantize(COLOURS_MAX, dither=Image.Dither.NONE).save(path, optimize=True)
        bytes_max = FULL_PAGE_BYTES_MAX if full_page else SCREENSHOT_BYTES_MAX
        assert path.stat().st_size < bytes_max, f"{name}: {path.stat().st_size} bytes"
        return
    assert path.exists(), (
        f"There is no {path.name}: write it with MMO_SCREENSHOTS=1 nox -s browser."
    )
    share = different_share(Image.open(path).convert("RGB"), taken)
    if share > DIFFERENT_SHARE_MAX:
        seen = Path(os.environ.get("TMPDIR", "/tmp")) / f"{name}-seen.png"
        taken.save(seen)
        raise AssertionError(
            f"{share:.1%} of {name}.png look different (see {seen})."
            " If that is meant, write it again: MMO_SCREENSHOTS=1 nox -s browser."
        )


def different_share(one: Image.Image, other: Image.Image) -> float:
    """Return the share of squares whose colour differs; 1.0 when the widths differ, or the heights
    by much."""
    if (
        one.width != other.width
        or abs(one.height - other.height) > max(one.height, other.height) / 20
    ):
        return 1.0
    height = min(one.height, other.height)
    size = (max(1, one.width // BLOCK), max(1, height // BLOCK))
    small = [
        each.crop((0, 0, each.width, height)).resize(size, Image.Resampling.BOX)
        for each in (one, other)
    ]
    channels = ImageChops.difference(*small).split()
    most = ImageChops.lighter(ImageChops.lighter(channels[0], channels[1]), channels[2])
    return sum(most.histogram()[LEVELS_MAX + 1 :]) / (size[0] * size[1])
