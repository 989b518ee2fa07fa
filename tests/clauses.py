"""The clause report: every clause of the specification with the tests that prove it through a real socket.

A clause counts as supported when a test in `tests/runtime` names it; `docs/supported.md` says which clauses there are
and which are not built yet. A supported clause without a test, a test that names no clause there is, or a clause that
is "not yet" but has tests through the merchant's door, fails the report.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| ([A-Z][0-9]+) \|.*\| (\w[\w ]*) \|$", re.MULTILINE)


class Collector:
    """Keeps the clauses that collected tests name."""

    def __init__(self) -> None:
        self.tests: defaultdict[str, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("spec"):
                for clause in mark.args:
                    name = item.nodeid.split("[")[0]
                    if name not in self.tests[clause]:
                        self.tests[clause].append(name)


def main() -> int:
    """Print the report; 1 when a clause is missing."""
    page = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
    clauses = dict(ROW.findall(page))
    sockets, pure = Collector(), Collector()
    for collector, folder in ((sockets, "runtime"), (pure, "sansio")):
        code = pytest.main(
            ["--collect-only", "-qq", "--no-header", str(ROOT / "tests" / folder)], [collector]
        )
        if code:
            return int(code)
    faults = [
        f"{clause}: a test names it, docs/supported.md doesn't"
        for clause in sorted((set(sockets.tests) | set(pure.tests)) - set(clauses))
    ]
    for clause, status in clauses.items():
        proofs = sockets.tests[clause]
        print(
            f"{clause:4} {status:10} {len(proofs):3} through sockets, {len(pure.tests[clause]):3} in the core"
        )
        for each in proofs[:3]:
            print(f"       {each}")
        if status == "supported" and not proofs:
            faults.append(f"{clause}: supported, but no test through a socket names it")
    for fault in faults:
        print(f"FAULT {fault}")
    print(
        f"{sum(s == 'supported' for s in clauses.values())} of {len(clauses)} clauses supported, {len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
