"""Fixtures that every test of the Trio shell may use; `async def` tests run in Trio without a mark."""

from __future__ import annotations

import pytest
from pytest_trio.enable_trio_mode import *  # noqa: F403


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much is tried where more finds more."""
    parser.addoption("--fuzz-requests", type=int, help="Mutated requests against a whole gateway.")
