"""A version is released only with its entry in the list of changes, and with a date under its own
tag."""

from __future__ import annotations

import os
import re

import pytest

from mmo_sansio import __version__
from tests.packages.environments import ROOT

ENTRY = re.compile(r"^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)


def faults_of(version: str, tag: str, changes: str) -> list[str]:
    """Return what stands against a release of the version; `tag` is empty before there is one."""
    when = dict(ENTRY.findall(changes)).get(version)
    found = [] if when else [f"CHANGES.md has no entry `## {version} (…)`"]
    if tag:
        found += [] if tag == f"v{version}" else [f"the tag {tag} is not v{version}"]
        found += ["the entry in CHANGES.md has no date"] if when == "unreleased" else []
    return found


def test_this_version_may_be_released() -> None:
    changes = (ROOT / "CHANGES.md").read_text(encoding="utf-8")
    assert faults_of(__version__, os.environ.get("MMO_RELEASE_TAG", ""), changes) == []


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
    assert len(faults_of(version, tag, changes)) == faults


def test_the_package_of_pawapay_brings_the_licence() -> None:
    """It is a copy, as a distribution holds only what is below its own folder."""
    copy = ROOT / "packages/mmo-provider-pawapay/LICENSE"
    assert copy.read_bytes() == (ROOT / "LICENSE").read_bytes()
