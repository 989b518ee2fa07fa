"""Where the pages and examples are, for every test of them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's directory."""
    return Path(__file__).resolve().parents[2]
