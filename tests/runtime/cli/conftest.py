"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the user of a test a home of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of this user's sandbox, in which commands find the store that no option
    names."""
    return tmp_path / "home" / "mmo-gateway" / "sandbox"


@pytest.fixture
def commands_approve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands end payments and reversals at once, as a second user may in the console."""
    monkeypatch.setenv("MMO_CONSOLE_COMMANDS_APPROVE", "true")
