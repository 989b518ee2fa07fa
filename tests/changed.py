"""Print the test files of the change at hand, for a quick check.

    python tests/changed.py [REV]

The change is what differs from REV, by default from where this branch left its upstream, else
`main`. A changed test file counts itself, and a changed module the tests that mirror it: those of
its own name, a file or a folder, else those of its room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIRRORED = {
    "mmo_sansio": [Path("tests/sansio")],
    "mmo_merchant": [Path("tests/sansio/merchant"), Path("tests/merchant")],
    "mmo_simulators": [Path("tests/simulators")],
    "mmo_trio": [Path("tests/runtime")],
}


def git(*arguments: str) -> list[str]:
    """Return the lines that a command of git prints; none when it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(revision: str | None) -> set[Path]:
    """Return the files that differ from the revision, and those that git does not know yet."""
    bases = (
        [revision]
        if revision
        else git("merge-base", "HEAD", "@{upstream}")
        or git("merge-base", "HEAD", "main")
        or ["HEAD"]
    )
    names = git("diff", "--name-only", bases[0]) + git("ls-files", "--others", "--exclude-standard")
    return {Path(name) for name in names}


def tests_of(file: Path) -> Iterator[Path]:
    """Yield the test files of one changed file."""
    parts = file.parts
    if parts[0] == "tests" and file.name.startswith("test_") and (ROOT / file).exists():
        yield file
    elif parts[0] == "src" and file.suffix == ".py" and parts[1] in MIRRORED:
        rooms = [ROOT / tests.joinpath(*parts[2:-1]) for tests in MIRRORED[parts[1]]]
        own = [
            room / f"test_{file.name}" for room in rooms if (room / f"test_{file.name}").exists()
        ]
        own += [test for room in rooms for test in (room / file.stem).glob("test_*.py")]
        yield from own or [test for room in rooms for test in room.glob("test_*.py")]


def main() -> None:
    """Print one file on each line."""
    revision = sys.argv[1] if len(sys.argv) > 1 else None
    found = {ROOT / test for file in changed_files(revision) for test in tests_of(file)}
    for each in sorted(found):
        print(each.relative_to(ROOT))


if __name__ == "__main__":
    main()
