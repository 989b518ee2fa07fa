"""The distributions that `nox -s release` has built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.packages.environments import ROOT

DISTRIBUTIONS = {
    "mmo_gateway": ".",
    "mmo_provider_pawapay": "packages/mmo-provider-pawapay",
    "mmo_provider_wave": "packages/mmo-provider-wave",
}
"""The folder of each distribution by its name."""


@pytest.fixture(scope="session")
def wheels() -> Mapping[str, Path]:
    """The wheel of each distribution by its name."""
    return {name: _the_one(f"{name}-*.whl") for name in DISTRIBUTIONS}


@pytest.fixture(scope="session")
def sources() -> Mapping[str, Path]:
    """The source distribution of each one by its name."""
    return {name: _the_one(f"{name}-*.tar.gz") for name in DISTRIBUTIONS}


def _the_one(pattern: str) -> Path:
    [found] = (ROOT / "dist/python").glob(pattern)
    return found
