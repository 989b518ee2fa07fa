"""A version is released only with its entry in the list of changes, and with a date under its own
tag."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from mmo_sansio import __version__
from tests.packages.environments import ROOT
from tests.release.conftest import DISTRIBUTIONS
from tests.release.published_readme import absolute_links, published_address

ENTRY = re.compile(r"^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
PUBLISHED = {"pyproject.toml": "https://example.com/gateway"}


def faults_of(
    version: str, tag: str, changes: str, addresses: Mapping[str, str | None]
) -> list[str]:
    """Return what stands against a release of the version; `tag` is empty before there is one.

    `addresses` says for each pyproject.toml where its source is published, if it is.
    """
    when = dict(ENTRY.findall(changes)).get(version)
    found = [] if when else [f"CHANGES.md has no entry `## {version} (…)`"]
    if tag:
        found += [] if tag == f"v{version}" else [f"the tag {tag} is not v{version}"]
        found += ["the entry in CHANGES.md has no date"] if when == "unreleased" else []
        found += [
            f"[project.urls] of {file} has no Source: write there where the source is published"
            for file, address in addresses.items()
            if address is None
        ]
    return found


def test_this_version_may_be_released() -> None:
    changes = (ROOT / "CHANGES.md").read_text(encoding="utf-8")
    addresses = {
        str(Path(folder, "pyproject.toml")): published_address(ROOT / folder)
        for folder in DISTRIBUTIONS.values()
    }
    faults = faults_of(__version__, os.environ.get("MMO_RELEASE_TAG", ""), changes, addresses)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("version", "tag", "faults"),
    [
        ("1.0.0", "", 0),
        ("1.0.0", "v1.0.0", 0),
        ("1.1.0", "", 0),
        ("1.1.0", "v1.1.0", 1),
        ("1.0.0", "v1.0.1", 1),
        ("1.2.0", "", 1),
        ("1.2.0", "v1.2.0", 1),
    ],
)
def test_a_version_needs_an_entry_and_a_tag_its_date(version: str, tag: str, faults: int) -> None:
    changes = "# Changes\n\n## 1.1.0 (unreleased)\n\n- New.\n\n## 1.0.0 (2026-11-02)\n"
    assert len(faults_of(version, tag, changes, PUBLISHED)) == faults


def test_a_tag_needs_an_address() -> None:
    changes = "# Changes\n\n## 1.0.0 (2026-11-02)\n"
    unpublished = {**PUBLISHED, "other/pyproject.toml": None}
    assert faults_of("1.0.0", "", changes, unpublished) == []
    [fault] = faults_of("1.0.0", "v1.0.0", changes, unpublished)
    assert "[project.urls] of other/pyproject.toml" in fault


def test_a_package_index_gets_links_that_lead_somewhere() -> None:
    text = (
        "![Shown](docs/a.png) [Page](docs/b.md#part) [Trio](https://trio.readthedocs.io) "
        "[Up](#top) [Write](mailto:a@example.com)"
    )
    assert absolute_links(text, "https://example.com/gateway", "v1.0.0") == (
        "![Shown](https://example.com/gateway/raw/v1.0.0/docs/a.png) "
        "[Page](https://example.com/gateway/blob/v1.0.0/docs/b.md#part) "
        "[Trio](https://trio.readthedocs.io) [Up](#top) [Write](mailto:a@example.com)"
    )


@pytest.mark.parametrize("package", ["mmo-provider-pawapay", "mmo-provider-wave"])
def test_the_package_of_a_provider_brings_the_licence(package: str) -> None:
    """It is a copy, as a distribution holds only what is below its own folder."""
    copy = ROOT / "packages" / package / "LICENSE"
    assert copy.read_bytes() == (ROOT / "LICENSE").read_bytes()
