"""Fixtures for the tests of pages and examples."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the project's directory."""
    return Path(__file__).resolve().parents[2]
