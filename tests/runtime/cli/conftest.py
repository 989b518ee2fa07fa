"""What tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture
def commands_approve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands end payments and reversals at once, as a second user may in the console."""
    monkeypatch.setenv("MMO_CONSOLE_COMMANDS_APPROVE", "true")
