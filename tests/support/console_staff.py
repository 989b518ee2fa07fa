"""Staff of a sandbox's console, who use it in a browser."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner
from playwright.sync_api import Browser, Page, expect

from mmo_trio.cli.group import main
from tests.support.browser import browser_page
from tests.support.browser_gateway import Sandbox
from tests.support.console_browser import PASSWORD
from tests.support.password_hasher import CHEAP_HASHER


def administer(sandbox: Sandbox, line: str, *, typed: str | None = None) -> None:
    """Give a command about a sandbox within this process."""
    without_settings = {name: None for name in os.environ if name.startswith("MMO_")}
    words = [*line.split(), "--data", str(sandbox.directory)]
    done = CliRunner(env=without_settings).invoke(main, words, input=typed, obj=CHEAP_HASHER)
    assert done.exit_code == 0, done.output


def add_staff(sandbox: Sandbox, roles: Mapping[str, str]) -> None:
    """Add users by name with their roles, all with the same password."""
    for name, role in roles.items():
        administer(sandbox, f"users add {name} --role {role} --password-stdin", typed=PASSWORD)


def ask_money_back(page: Page, payments: Iterable[str]) -> None:
    """Ask money of the payments at these addresses back, one after the other."""
    token = page.locator("input[name=form_token]").first.get_attribute("value") or ""
    asked: dict[str, str | float | bool] = {"number": "1", "reason": "the customer has paid twice"}
    for url in payments:
        form = {"form_token": token, **asked}
        answer = page.request.post(f"{url}/reversals", form=form, max_redirects=0)
        assert answer.status == 303, answer.text()


def sign_in(page: Page, office: Sandbox, name: str) -> None:
    """By keyboard."""
    page.goto(f"{office.console}/sign-in")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@contextmanager
def signed_in_page(browser: Browser, office: Sandbox, name: str, **options: Any) -> Iterator[Page]:
    """A page of somebody who has signed in, with Playwright's options for contexts."""
    with browser_page(browser, **options) as page:
        sign_in(page, office, name)
        yield page


def tab_to(page: Page, name: str, *, tabs_max: int = 120) -> None:
    """Press the Tab key until the name of what has the focus begins so."""
    for _ in range(tabs_max):
        page.keyboard.press("Tab")
        named = page.evaluate(
            "document.activeElement.labels?.[0]?.innerText || document.activeElement.innerText"
        )
        if named.strip().startswith(name):
            return
    raise AssertionError(f"the Tab key does not reach {name}")
