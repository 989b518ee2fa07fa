"""Error pages and documentation in a real browser: readable narrow and wide, without JavaScript, in
the dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import browser_page, check_axe, screenshot
from tests.support.browser_gateway import Sandbox

PATHS = ("/errors", "/errors/validation_failed", "/errors/user_timeout", "/errors/nonsense", "/docs")


@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_no_serious_fault(page: Page, sandbox: Sandbox, path: str) -> None:
    page.goto(sandbox.pages + path)
    assert page.locator("h1").count() == 1
    check_axe(page)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_wider_than_a_small_phone(narrow_page: Page, sandbox: Sandbox, path: str) -> None:
    narrow_page.goto(sandbox.pages + path)
    widths = narrow_page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1], path


def test_the_dark_is_as_readable(browser: Browser, sandbox: Sandbox) -> None:
    with browser_page(browser, color_scheme="dark") as page:
        for path in ("/errors/validation_failed", "/docs"):
            page.goto(sandbox.pages + path)
            check_axe(page)


def test_a_developer_finds_the_way_without_javascript(plain_page: Page, sandbox: Sandbox) -> None:
    plain_page.goto(f"{sandbox.pages}/docs")
    plain_page.get_by_role("link", name="Take a payment", exact=True).first.click()
    assert plain_page.url.endswith("#createDirectPayin")
    plain_page.get_by_role("link", name="config_unsupported_currency").first.click()
    assert plain_page.locator("h1").inner_text() == "config_unsupported_currency"
    plain_page.get_by_role("link", name="All error codes").click()
    assert plain_page.locator("h1").inner_text() == "Error codes"


def test_what_it_looks_like(page: Page, narrow_page: Page, sandbox: Sandbox) -> None:
    page.set_viewport_size({"width": 680, "height": 400})  # Much text makes large pictures.
    for path, name in (("/errors/validation_failed", "error-page"), ("/docs#createDirectPayin", "api-docs")):
        for each_page, form in ((page, ""), (narrow_page, "-narrow")):
            answer = each_page.goto(sandbox.pages + path)
            assert answer is not None
            assert answer.status == 200
            screenshot(each_page, f"{name}{form}")
