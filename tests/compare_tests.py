"""Compare the tests of another revision with those that are here.

    python tests/compare_tests.py REV [TESTS-DIR ...]

prints the test functions of REV that are missing here or have fewer cases, and the clauses of the
specification that a test of REV names and none here does; with such a clause the exit code is 1.
Without folders it compares all of tests/. Files that cannot be imported, such as those whose
packages are not installed, are named and not compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from attrs import Factory, asdict, define

ROOT = Path(__file__).resolve().parent.parent


@define(eq=False)
class Collected:
    """Holds the tests of one tree, as pytest tells them."""

    cases: dict[str, int] = Factory(Counter)
    """The number of cases by `file::function`."""
    clauses: list[str] = Factory(list)
    failed: list[str] = Factory(list)
    """Files that cannot be imported."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.cases = Counter(item.nodeid.split("[")[0] for item in session.items)
        self.clauses = [
            name
            for item in session.items
            for mark in item.iter_markers("spec")
            for name in mark.args
        ]


def write_collected(output: str, folders: list[str]) -> int:
    """Collect the tests of the tree in which this process runs, and write them down as JSON."""
    found = Collected()
    code = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *folders], [found])
    Path(output).write_text(json.dumps(asdict(found)))
    is_complete = code in (
        pytest.ExitCode.OK,
        pytest.ExitCode.INTERRUPTED,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    )
    return 0 if is_complete else int(code)


def collect(tree: Path, folders: list[str], output: Path) -> Collected:
    """Return the tests of a tree, which run with its own source. Raises SystemExit when pytest
    cannot start."""
    with_tests = {
        str(Path(*path.relative_to(tree).parts[:2])) for path in tree.glob("tests/*/**/test_*.py")
    }
    there = [each for each in folders or sorted(with_tests) if (tree / each).is_dir()]
    if not there:
        return Collected()
    # With -P this file's folder, whose packages have names such as `docs`, is no place to import
    # from.
    command = [sys.executable, "-P", __file__, "--collect", str(output), *there]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return Collected(**json.loads(output.read_text()))


def main(revision: str, folders: list[str]) -> int:
    """Print what is missing; return 1 when a clause has lost its last test."""
    with tempfile.TemporaryDirectory(prefix="mmo-tests-") as name:
        tree, output = Path(name, "tree"), Path(name, "collected.json")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            before, now = collect(tree, folders, output), collect(ROOT, folders, output)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    lines = [
        f"not compared, as it cannot be collected: {each}"
        for each in sorted({*before.failed, *now.failed})
    ]
    for test, count in sorted(before.cases.items()):
        file, _, function = test.partition("::")
        if now.cases.get(test, 0) < count and not file.startswith(tuple(now.failed)):
            lines += [] if file in lines else [file]
            lines.append(f"  {function}: {now.cases.get(test, 0)} of {count} cases")
    lost = sorted(set(before.clauses) - set(now.clauses))
    print("\n".join(lines + [f"{clause}: no test names it any more" for clause in lost]))
    return 1 if lost else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--collect", output, *folders]:
            sys.exit(write_collected(output, folders))
        case [revision, *folders]:
            sys.exit(main(revision, folders))
        case _:
            sys.exit(__doc__)
