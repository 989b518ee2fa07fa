"""Fixtures: a sandbox, a shop, and pages of Chromium as different people have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.browser import browser_page, chromium_path, launch_browser
from tests.support.browser_gateway import PATIENCE_S, Sandbox, Shop, open_shop, serving_sandbox

NARROW = {"width": 360, "height": 640}
MISSING = (
    "There is no Chromium: install it (Debian: apt install chromium), or name one in MMO_CHROMIUM."
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One Chromium for all; every page has a context of its own."""
    path = chromium_path()
    if path is None:
        pytest.fail(MISSING, pytrace=False)
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = launch_browser(playwright, path, tmp_path_factory.mktemp("fonts"))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox that all tests share; whoever moves its clock or changes its settings starts
    another."""
    with serving_sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@pytest.fixture
def shop() -> Iterator[Shop]:
    """A shop to come back to."""
    with open_shop() as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A wide window, English."""
    with browser_page(browser, viewport={"width": 1024, "height": 720}) as page:
        yield page


@pytest.fixture
def narrow_page(browser: Browser) -> Iterator[Page]:
    """A small phone, English."""
    with browser_page(browser, viewport=NARROW) as page:
        yield page


@pytest.fixture
def plain_page(browser: Browser) -> Iterator[Page]:
    """A small phone without JavaScript."""
    with browser_page(browser, viewport=NARROW, java_script_enabled=False) as page:
        yield page


@pytest.fixture
def rtl_page(browser: Browser) -> Iterator[Page]:
    """A small phone whose language is Arabic, which is written from right to left."""
    with browser_page(browser, viewport=NARROW, locale="ar") as page:
        yield page


@pytest.fixture
def slow_page(browser: Browser) -> Iterator[Page]:
    """A small phone on a link like 3G."""
    with browser_page(browser, slow=True, viewport=NARROW) as page:
        yield page
