"""Print every clause of the specification with the tests that prove it through a real socket.

`docs/clauses.md` has the clauses. The report fails if one has no test in `tests/runtime` that names
it, and if a test names a clause that the page does not have."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RULE = re.compile(r"^### ([A-Z][0-9]+)$", re.MULTILINE)


class Collector:
    """Collects the clauses that tests name."""

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
    """Print the report; return 1 when it has faults."""
    page = (ROOT / "docs" / "clauses.md").read_text(encoding="utf-8")
    clauses = RULE.findall(page)
    sockets, pure = Collector(), Collector()
    for collector, folder in ((sockets, "runtime"), (pure, "sansio")):
        code = pytest.main(
            ["--collect-only", "-qq", "--no-header", str(ROOT / "tests" / folder)], [collector]
        )
        if code:
            return int(code)
    faults = [
        f"{clause}: a test names it, docs/clauses.md does not"
        for clause in sorted((set(sockets.tests) | set(pure.tests)) - set(clauses))
    ]
    for clause in clauses:
        proofs = sockets.tests[clause]
        print(
            f"{clause:4} {len(proofs):3} through sockets, {len(pure.tests[clause]):3} in the core"
        )
        for each in proofs[:3]:
            print(f"       {each}")
        if not proofs:
            faults.append(f"{clause}: no test through a socket names it")
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(clauses)} clauses, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
