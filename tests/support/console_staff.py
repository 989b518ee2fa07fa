"""Staff of a sandbox's console, who use it in a browser."""

from __future__ import annotations

import os
from collections.abc import Mapping

from click.testing import CliRunner
from playwright.sync_api import Page, expect

from mmo_trio.cli.group import main
from tests.support.browser_gateway import Sandbox
from tests.support.console_browser import PASSWORD
from tests.support.password_hasher import CHEAP_HASHER


def add_staff(sandbox: Sandbox, roles: Mapping[str, str]) -> None:
    """Add users by name with their roles, all with the same password, by the command within this
    process."""
    without_settings = {name: None for name in os.environ if name.startswith("MMO_")}
    for name, role in roles.items():
        command = [
            "users",
            "add",
            name,
            "--role",
            role,
            "--password-stdin",
            "--data",
            str(sandbox.directory),
        ]
        added = CliRunner(env=without_settings).invoke(
            main, command, input=PASSWORD, obj=CHEAP_HASHER
        )
        assert added.exit_code == 0, added.output


def sign_in(page: Page, office: Sandbox, name: str) -> None:
    """By keyboard."""
    page.goto(f"{office.console}/sign-in")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


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
