"""The distributions hold what installers, readers of an index, and distributors need."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.packages.environments import ROOT
from tests.release.conftest import DISTRIBUTIONS
from tests.release.published_readme import LINK, published_address

DISTRIBUTED = {
    "mmo_gateway": (
        *(
            "LICENSE",
            "README.md",
            "CHANGES.md",
            "SECURITY.md",
            "noxfile.py",
            "tests/conftest.py",
            "docs/README.md",
        ),
        *(
            "deploy/mmo-gateway.service",
            "deploy/requirements.lock",
            "examples",
            "bench/RESULTS.md",
            ".ci/run",
        ),
    ),
    "mmo_provider_pawapay": ("LICENSE", "README.md", "tests/test_pawapay_adapter.py"),
    "mmo_provider_wave": ("LICENSE", "README.md", "tests/test_wave_adapter.py"),
}
"""What a source distribution holds beside its source."""


def metadata(wheel: Path) -> Message:
    """Return what a wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_metadata_is_complete(name: str, wheels: Mapping[str, Path]) -> None:
    said = metadata(wheels[name])
    assert said["Author"] == "the mmo-gateway developers"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Keywords"]
    classifiers = said.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    assert [each for each in classifiers if each.startswith("Development Status ::")]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_what_an_index_shows_leads_somewhere(name: str, wheels: Mapping[str, Path]) -> None:
    """Once there is an address: an index has no files beside the README."""
    if published_address(ROOT / DISTRIBUTIONS[name]):
        assert LINK.findall(str(metadata(wheels[name]).get_payload())) == []


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_package_is_typed(name: str, wheels: Mapping[str, Path]) -> None:
    with zipfile.ZipFile(wheels[name]) as archive:
        names = archive.namelist()
    packages = {each.partition("/")[0] for each in names if ".dist-info/" not in each}
    assert {f"{each}/py.typed" for each in packages} <= set(names)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distributor_can_test_what_it_packages(name: str, sources: Mapping[str, Path]) -> None:
    with tarfile.open(sources[name]) as archive:
        names = {each.partition("/")[2] for each in archive.getnames()}
    assert set(DISTRIBUTED[name]) <= names
    assert [each for each in names if each.endswith((".pyc", ".db")) or "docs/_build" in each] == []
    assert [each for each in names if "findings" in each.lower()] == []
