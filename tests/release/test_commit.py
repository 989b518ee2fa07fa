"""Whatever is built from this source says which commit it was made from."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mmo_sansio import __version__
from tests.packages.environments import ROOT, an_environment, own_modules_only

CHANGED = "src/mmo_trio/__init__.py"


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return what it printed."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(source: Path, kind: str, **environment: str) -> Path:
    """Build a distribution, `wheel` or `sdist`, beside the source, and return it."""
    built = source.with_name(f"{source.name}-{kind}")
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
    subprocess.run(
        [*command, f"--{kind}", "--out-dir", str(built), str(source)],
        env={**own_modules_only(), **environment},
        check=True,
    )
    [found] = built.glob("mmo_gateway-*")
    return found


def written_in(wheel: Path) -> str:
    """Return the commit that a wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("mmo_trio/commit.txt").decode().strip()


def unpacked(archive: Path, folder: Path) -> Path:
    """Return the folder that an archive of a source holds."""
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    [found] = folder.iterdir()
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone of this repository, at the commit that is checked out here."""
    folder = tmp_path / "checkout"
    git(tmp_path, "clone", "--quiet", str(ROOT), str(folder))
    git(folder, "checkout", "--quiet", "--detach", git(ROOT, "rev-parse", "HEAD"))
    return folder


def archive_of(checkout: Path) -> Path:
    """Return an unpacked archive of what is committed, which has no history."""
    made = checkout.with_name("archive.tar")
    git(checkout, "archive", "--prefix=archive/", f"--output={made}", "HEAD")
    return unpacked(made, checkout.with_name("archives"))


def source_distribution_of(checkout: Path) -> Path:
    """Return an unpacked source distribution of a checkout."""
    return unpacked(build(checkout, "sdist"), checkout.with_name("distributed"))


def test_what_is_released_says_its_commit(wheels: Mapping[str, Path]) -> None:
    assert written_in(wheels["mmo_gateway"]) == git(ROOT, "rev-parse", "HEAD")


@pytest.mark.parametrize("source_of", [lambda it: it, archive_of, source_distribution_of])
def test_a_wheel_says_its_commit(source_of: Callable[[Path], Path], checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert written_in(build(source_of(checkout), "wheel")) == head


def test_a_wheel_says_that_its_source_was_changed(checkout: Path) -> None:
    (checkout / CHANGED).write_text("# Changed.\n")
    head = git(checkout, "rev-parse", "HEAD")
    assert written_in(build(checkout, "wheel")) == f"{head}-dirty"


def test_nobody_knows_the_commit_of_a_copy(checkout: Path) -> None:
    (checkout / ".git").rename(checkout.with_name("history"))
    assert written_in(build(checkout, "wheel")) == "unknown"
    assert written_in(build(source_distribution_of(checkout), "wheel")) == "unknown"


def test_a_commit_always_gives_the_same_wheel(checkout: Path, tmp_path: Path) -> None:
    """From a clone with its whole history, and from one of the last commit alone."""
    shallow = tmp_path / "shallow" / "checkout"
    git(tmp_path, "clone", "--quiet", "--depth=1", checkout.as_uri(), str(shallow))
    epoch = {"SOURCE_DATE_EPOCH": git(checkout, "log", "-1", "--format=%ct")}

    one, other = (build(each, "wheel", **epoch) for each in (checkout, shallow))
    assert one.read_bytes() == other.read_bytes()


def test_an_editable_installation_asks_git(checkout: Path, tmp_path: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    here = an_environment(tmp_path / "installed", "--editable", f"{checkout}[tools]")
    assert here.run("mmo", "--version")[0] == f"mmo {__version__} ({head})\n"

    (checkout / CHANGED).write_text("# Changed.\n")
    assert here.run("mmo", "--version")[0] == f"mmo {__version__} ({head}-dirty)\n"
