"""The harness notices what it is there to notice."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import browser_page, check_axe
from tests.support.browser_fonts import FAMILIES


def test_every_letter_is_of_the_fonts_of_the_tests(page: Page) -> None:
    families = (
        "system-ui, sans-serif",
        "ui-monospace, monospace",
        "serif",
        "Arial",
        "Noto Sans",
        "Liberation Mono",
    )
    lines = (
        f"<p style='font-family: {each}'>Paid \u2713 \u0645\u062f\u0641\u0648\u0639</p>"
        for each in families
    )
    page.set_content(f"<html lang=en><title>t</title>{''.join(lines)}")
    chromium = page.context.new_cdp_session(page)
    chromium.send("DOM.enable")
    chromium.send("CSS.enable")
    root = chromium.send("DOM.getDocument")["root"]["nodeId"]
    nodes = chromium.send("DOM.querySelectorAll", {"nodeId": root, "selector": "p"})["nodeIds"]
    used = [
        chromium.send("CSS.getPlatformFontsForNode", {"nodeId": each})["fonts"] for each in nodes
    ]
    assert all(used)
    assert {font["familyName"] for fonts in used for font in fonts} == FAMILIES


@pytest.mark.parametrize(
    ("html", "noticed"),
    [
        ("<script>alert('seen')</script>", "seen"),
        ("<img src='http://other.example/x.png'>", "http://other.example/x.png"),
        ("<script>nothing.there()</script>", "nothing is not defined"),
        (
            "<meta http-equiv='Content-Security-Policy' content=\"img-src 'none'\"><img src='http://localhost:9/'>",
            "Content Security Policy",
        ),
    ],
    ids=["dialog", "elsewhere", "fault", "policy"],
)
def test_what_a_page_may_never_do_fails_the_test(browser: Browser, html: str, noticed: str) -> None:
    with pytest.raises(AssertionError, match=noticed), browser_page(browser) as page:
        page.set_content(html, wait_until="load")


@pytest.mark.parametrize(
    ("html", "rule"),
    [
        ("<main><h1>t</h1><img src='data:,'></main>", "critical image-alt"),
        ("<main><h1>t</h1><h3>u</h3></main>", "moderate heading-order"),
        ("<main><h1>t</h1></main><p>u</p>", "moderate region"),
    ],
)
def test_axe_finds_faults_of_every_weight(page: Page, html: str, rule: str) -> None:
    page.set_content(f"<html lang=en><title>t</title>{html}")
    with pytest.raises(AssertionError, match=rule):
        check_axe(page)
