"""Fixtures for the tests of what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages.environments import ROOT, a_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the gateway."""
    parts = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src")
    return a_wheel(tmp_path_factory.mktemp("gateway"), ROOT, *parts)
