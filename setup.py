"""Has a distribution say which commit it was made from; all else is in pyproject.toml.

`src/mmo_trio/commit.txt` holds a placeholder, which `git archive` replaces. A wheel and a source
distribution get the commit in its place: that of MMO_COMMIT, or that of the checkout. The whole
hash, as a short one is longer in a clone with more history.
"""

import os
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
WRITTEN = HERE / "src" / "mmo_trio" / "commit.txt"
UNKNOWN = "unknown"


def commit() -> str:
    """Return the commit of this source, with `-dirty` where it has changes, or UNKNOWN."""
    if named := os.environ.get("MMO_COMMIT"):
        return named

    written = WRITTEN.read_text(encoding="utf-8").strip()
    if not written.startswith("$"):
        return written
    if not (HERE / ".git").exists():
        return UNKNOWN

    describe = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    whole_hash = ["--exclude=*", "--abbrev=40"]
    try:
        found = subprocess.run([*describe, *whole_hash], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return found.stdout.strip()


def replace(file: Path) -> None:
    """Write the commit into a file of what is built, which may be a link to the source."""
    file.unlink(missing_ok=True)
    file.write_text(f"{commit()}\n", encoding="utf-8")


class BuildWithCommit(build_py):
    """Builds the packages; an editable installation keeps the placeholder, and asks git."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            replace(Path(self.build_lib) / "mmo_trio" / "commit.txt")


class SourceWithCommit(sdist):
    """Makes the source distribution, which has no history."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        replace(Path(base_dir) / "src" / "mmo_trio" / "commit.txt")


setup(cmdclass={"build_py": BuildWithCommit, "sdist": SourceWithCommit})
