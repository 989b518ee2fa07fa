"""Which source runs: a build has its commit written down, a checkout asks git."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmo_sansio import __version__
from mmo_trio.system import build

COMMIT = "1f3a5c7" + 33 * "0"
PLACEHOLDER = "$Format:%H$"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a package below `src` of a checkout that isn't one yet."""
    folder = tmp_path / "src" / "mmo_trio"
    folder.mkdir(parents=True)
    monkeypatch.setattr(build, "_PACKAGE", folder)
    build.commit.cache_clear()
    yield folder
    build.commit.cache_clear()


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder."""
    named = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", "-C", str(folder), *named, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_build_has_its_commit_written_down(package: Path) -> None:
    (package / "commit.txt").write_text(f"{COMMIT}\n")
    assert build.commit() == COMMIT
    assert build.describe_build() == f"{__version__} ({COMMIT})"


def test_a_checkout_asks_git_and_tells_changes(package: Path) -> None:
    checkout = package.parents[1]
    (package / "commit.txt").write_text(f"{PLACEHOLDER}\n")
    git(checkout, "init", "--quiet")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "--message", "First")
    head = git(checkout, "rev-parse", "HEAD")
    assert build.commit() == head

    build.commit.cache_clear()
    (package / "commit.txt").write_text(f"{PLACEHOLDER} \n")
    assert build.commit() == f"{head}-dirty"


@pytest.mark.parametrize("written", [None, "", f"{PLACEHOLDER}\n"])
def test_nobody_knows_the_commit_of_a_copy(package: Path, written: str | None) -> None:
    if written is not None:
        (package / "commit.txt").write_text(written)
    assert build.commit() == build.UNKNOWN
