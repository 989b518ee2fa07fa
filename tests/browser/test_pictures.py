"""The comparison of pictures finds what people would see, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Page

import mmo_trio
from tests.support.browser import check_axe
from tests.support.browser_gateway import Sandbox
from tests.support.pictures import (
    DIFFERENT_SHARE_MAX,
    SCREENSHOTS,
    different_share,
    screenshot,
    settle,
)


def _drawn(
    *, text: str = "01M880YMVCD1B2RANKYKHSFR8H", top: int = 40, colour: str = "#2f4fd0"
) -> Image.Image:
    picture = Image.new("RGB", (360, 640), "#f6f7f9")
    pen = ImageDraw.Draw(picture)
    pen.rectangle((20, top, 340, top + 48), fill=colour)
    for line in range(8):
        pen.text((20, 200 + line * 24), text, fill="#161b24")
    return picture


def test_other_words_in_the_same_places_are_no_difference() -> None:
    assert (
        different_share(_drawn(), _drawn(text="01M8823X3PT60HV4NEG53YCFK6")) <= DIFFERENT_SHARE_MAX
    )


@pytest.mark.parametrize(
    "changed", [_drawn(top=64), _drawn(colour="#0a6a3b")], ids=["moved", "coloured"]
)
def test_what_has_moved_or_has_another_colour_is_found(changed: Image.Image) -> None:
    assert different_share(_drawn(), changed) > DIFFERENT_SHARE_MAX


def test_another_size_is_a_difference() -> None:
    assert different_share(_drawn(), _drawn().crop((0, 0, 340, 640))) == 1.0
    assert different_share(_drawn(), _drawn().crop((0, 0, 360, 500))) == 1.0


GROWING = """() => {
    let height = 1000;
    const grow = () => {
        document.body.style.height = `${height}px`;
        if (height < 4000) { height += 100; requestAnimationFrame(grow); }
    };
    grow();
}"""


def test_a_picture_waits_until_the_page_has_its_size(page: Page) -> None:
    page.set_content("<html lang=en><title>t</title><body>")
    page.evaluate(GROWING)
    settle(page)
    assert page.evaluate("document.body.offsetHeight") == 4000


def test_another_page_does_not_pass(
    page: Page, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MMO_SCREENSHOTS", raising=False)
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"{sandbox.pages}/nothing")
    with pytest.raises(AssertionError, match="look different"):
        screenshot(page, "payment-narrow")


def test_every_part_in_every_state(page: Page, narrow_page: Page, sandbox: Sandbox) -> None:
    for shown, name in ((page, "design"), (narrow_page, "design-narrow")):
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            shown.goto(f"{sandbox.pages}/sandbox/design")
            width = shown.evaluate("document.documentElement.scrollWidth")
            assert width == shown.evaluate("innerWidth"), "it scrolls in one direction only"
            check_axe(shown)
            screenshot(shown, f"{name}{'-dark' if scheme == 'dark' else ''}", full_page=True)


CONSOLE = """audit brand brands breakers callbacks overview payments providers reversals stuck
suspense"""
"""Pages of the console whose pictures have their names."""

PICTURED = {f"{name}.html": f"console-{name}" for name in CONSOLE.split()} | {
    "busy.html": "payment-unknown",
    "configuration/change.html": "console-change",
    "configuration/edit.html": "console-configuration-form",
    "configuration/list.html": "console-configuration",
    "design_page.html": "design",
    "docs/docs.html": "api-docs",
    "docs/error.html": "error-page",
    "docs/errors.html": "api-docs-errors",
    "docs/found.html": "api-docs-search",
    "docs/search.html": "api-docs-results",
    "docs/try.html": "api-docs-try",
    "docs/unknown.html": "error-page-unknown",
    "enrol.html": "console-enrol-narrow",
    "fault.html": "console-fault-narrow",
    "found.html": "console-found",
    "guide.html": "sandbox",
    "payee.html": "console-payee-narrow",
    "payment.html": "payment",
    "phone.html": "phone-narrow",
    "phones.html": "phone-numbers",
    "recovery_codes.html": "console-recovery-codes-narrow",
    "requests.html": "requests-narrow",
    "resolutions.html": "console-proposals",
    "second_factor.html": "console-second-factor-dark",
    "sign_in.html": "console-sign-in",
    "try.html": "try",
    "unknown.html": "payment-unknown",
}
"""A picture of each page that the gateway can answer with. The page of a busy gateway is the one of
an unknown payment with other words and another sign."""


def test_every_page_has_a_picture() -> None:
    source = Path(mmo_trio.__file__).parent
    texts = [each.read_text(encoding="utf-8") for each in source.rglob("*.py")]
    rendered = {name for text in texts for name in re.findall(r'"((?:\w+/)?\w+\.html)"', text)}
    assert rendered == PICTURED.keys()
    pictures = {each.stem for each in SCREENSHOTS.glob("*.png")}
    assert set(PICTURED.values()) - pictures == set()


def test_every_picture_is_compared_or_shown() -> None:
    root = SCREENSHOTS.parents[1]
    tests = "".join(
        each.read_text(encoding="utf-8") for each in (root / "tests" / "browser").glob("*.py")
    )
    docs = "".join(
        each.read_text(encoding="utf-8")
        for each in (*(root / "docs").rglob("*.md"), root / "README.md")
    )
    pictures = {each.stem for each in SCREENSHOTS.glob("*.png")}
    assert pictures
    unused = {
        each
        for each in pictures
        if f"screenshots/{each}.png" not in docs and not _is_taken(each, tests)
    }
    assert unused == set()


def _is_taken(name: str, tests: str) -> bool:
    """Tell whether a test takes pictures of this family: `console-stuck` and `console-payments` are
    of `console`."""
    return re.search(rf'"{name.partition("-")[0]}[-"]', tests) is not None
