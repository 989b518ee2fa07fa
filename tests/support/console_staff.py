"""Staff of a sandbox's console, who use it in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from playwright.sync_api import Page, expect

from tests.support.browser_gateway import PATIENCE_S, Sandbox

PASSWORD = "correct horse battery"


def add_staff(sandbox: Sandbox, roles: Mapping[str, str]) -> None:
    """Add users by name with their roles, all with the same password."""
    for name, role in roles.items():
        command = ["operators", "add", name, "--role", role, "--password-stdin"]
        subprocess.run(
            [sys.executable, "-m", "mmo_trio.cli", *command, "--data", str(sandbox.directory)],
            input=PASSWORD.encode(),
            env={k: v for k, v in os.environ.items() if not k.startswith("MMO_")},
            check=True,
            timeout=PATIENCE_S,
            capture_output=True,
        )


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
        named = page.evaluate("document.activeElement.labels?.[0]?.innerText || document.activeElement.innerText")
        if named.strip().startswith(name):
            return
    raise AssertionError(f"the Tab key does not reach {name}")
