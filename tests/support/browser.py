"""Drives Chromium: forbidden behaviour of pages, and axe."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import Factory, define
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Page, Playwright

from tests.support.browser_fonts import font_environment
from tests.support.browser_gateway import PATIENCE_S, Sandbox

POLL_MS = 50
LOOPBACK = {"127.0.0.1", "localhost"}

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]
"""Only this machine is reachable, so that no test contacts another one."""

_SCRIPTED = re.compile(r"<script[^>]*></script>|</?noscript>|<meta http-equiv=\"refresh\"[^>]*>")
"""What a page has only with scripts, or around what it has without them; a copy must not load
itself again either."""

THREE_G = {
    "offline": False,
    "latency": 300,
    "downloadThroughput": 1_600_000 / 8,
    "uploadThroughput": 768_000 / 8,
}
"""1.6 Mbit/s down, 768 kbit/s up, 300 ms there and back: what is commonly measured with as 3G."""


PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is Chromium without its windows, which takes half the time."""


def chromium_path() -> str | None:
    """Where the browser is; None: there is none. `MMO_CHROMIUM` names another one than those of the
    PATH."""
    named = os.environ.get("MMO_CHROMIUM")
    if named:
        return named if Path(named).is_file() else None
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def launch_browser(playwright: Playwright, path: str, directory: Path) -> Browser:
    """Chromium without a window, and with the fonts of the tests, which are put into this
    directory."""
    environment: dict[str, str | float | bool] = {**os.environ, **font_environment(directory)}
    return playwright.chromium.launch(
        executable_path=path, headless=True, args=FLAGS, env=environment
    )


@define(eq=False, slots=False)  # Playwright keeps a note with the handlers it is given.
class PageWatcher:
    """Records forbidden behaviour of the pages of a context."""

    dialogs: list[str] = Factory(list)
    elsewhere: list[str] = Factory(list)
    """Requests to other machines than this one."""
    complaints: list[str] = Factory(list)
    """Errors in Chromium's console: failed scripts, and violations of the content security
    policy."""

    def watch(self, context: BrowserContext) -> None:
        """Watch every page of this context from now on."""
        context.on("page", self._watch_page)
        context.on("request", lambda request: self._record_request(request.url))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    def check(self) -> None:
        """Fail if a page did anything forbidden."""
        assert not self.dialogs, self.dialogs
        assert not self.elsewhere, self.elsewhere
        assert not self.complaints, self.complaints

    def _watch_page(self, page: Page) -> None:
        page.on("dialog", self._record_dialog)
        page.on("console", lambda said: self._record_console(said.type, said.text))

    def _record_dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _record_request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in LOOPBACK:
            self.elsewhere.append(url)

    def _record_console(self, kind: str, text: str) -> None:
        # That a page answered 404 or 503 is a complaint for Chromium; for the test it is what it
        # wants to see.
        if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
            self.complaints.append(text)


@contextmanager
def browser_page(browser: Browser, *, slow: bool = False, **options: Any) -> Iterator[Page]:
    """A page in a context of its own with Playwright's options for contexts; no page of it may
    misbehave.

    `slow`: over a link like 3G.
    """
    watched = PageWatcher()
    with browser.new_context(**({"locale": "en-GB", "timezone_id": "UTC"} | options)) as context:
        watched.watch(context)
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        if slow:
            session = context.new_cdp_session(page)
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", THREE_G)
        yield page
    watched.check()


OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""By how much a page is wider than its window."""


@contextmanager
def loaded_bytes(page: Page) -> Iterator[list[float]]:
    """Note how many bytes come over the wire for each part of what the page loads in the block."""
    sizes: list[float] = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda done: sizes.append(done["encodedDataLength"]))
    yield sizes


def wait_for_end(page: Page, sandbox: Sandbox, reference: str) -> None:
    """Wait until this payment is no longer pending. What the page does meanwhile is handled as
    usual."""
    for _ in range(int(PATIENCE_S * 1000 / POLL_MS)):
        if sandbox.status(reference)["status"] != "pending":
            return
        page.wait_for_timeout(POLL_MS)
    raise AssertionError(sandbox.status(reference))


def check_axe_without_scripts(page: Page) -> None:
    """Fail on each fault that axe finds on a page without JavaScript. As axe needs it, a copy of
    what the page shows now is opened in another context, without its scripts and with what it has
    in their place."""
    browser = page.context.browser
    assert browser is not None
    shown = _SCRIPTED.sub("", page.content())
    with browser.new_context(viewport=page.viewport_size) as context:
        copy = context.new_page()
        copy.route(
            page.url,
            lambda route: route.fulfill(body=shown, content_type="text/html; charset=utf-8"),
        )
        copy.goto(page.url)
        check_axe(copy)


def check_axe(page: Page, *, part: str | None = None) -> None:
    """Fail on each fault that axe finds, however small. Needs a page with JavaScript. `part`: the
    selector of what has changed on a page that is checked as a whole elsewhere; None: all of it."""
    # Evaluated by the debugger, so the page's own policy neither allows nor stops it. Only faults
    # are fetched, as the list of what is in order is long.
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate(
        "part => axe.run(part ?? document, {resultTypes: ['violations']}).then(results => "
        "results.violations)",
        part,
    )
    faults = [
        f"{each['impact']} {each['id']}: {each['help']}: {[node['html'] for node in each['nodes']]}"
        for each in found
    ]
    assert not faults, "\n".join(faults)
