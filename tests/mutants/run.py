"""Change the payment rules in over a thousand places, and see whether a test of the core notices.

    python tests/mutants/run.py

`[tool.mutmut]` of pyproject.toml names the modules and the tests. The report has the share of
noticed mutants for each module and the names of the survivors; `python -m mutmut show NAME` shows
one. The exit code is 1 below the goal.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

GOAL = 0.9
"""The share of mutants that must be noticed."""

UNNOTICED = ("survived", "no tests")


def module_of(mutant: str) -> str:
    """Return the module of a mutant: `a.timers` for `a.timers.x_wake__mutmut_7`."""
    return mutant.rpartition(".")[0]


def outcomes(listing: str) -> dict[str, str]:
    """Read each mutant and its outcome from mutmut's listing."""
    rows = (line.strip().partition(": ") for line in listing.splitlines())
    return {name: outcome for name, found, outcome in rows if found and "__mutmut_" in name}


def main() -> int:
    """Run mutmut, print the report, and return the exit code."""
    mutmut = [sys.executable, "-m", "mutmut"]
    subprocess.run([*mutmut, "run", *sys.argv[1:]], check=True)
    listing = subprocess.run(
        [*mutmut, "results", "--all", "true"], check=True, capture_output=True, text=True
    )
    every = outcomes(listing.stdout)
    survivors = sorted(name for name, outcome in every.items() if outcome in UNNOTICED)
    made = Counter(module_of(name) for name in every)
    missed = Counter(module_of(name) for name in survivors)
    for module, count in sorted(made.items()):
        print(f"{1 - missed[module] / count:7.1%} of {count:5} in {module}")
    for name in survivors:
        print(f"{every[name]}: {name}")
    noticed = 1 - len(survivors) / len(every)
    print(f"{noticed:.1%} of {len(every)} mutants were noticed; the goal is {GOAL:.0%}")
    return 0 if noticed >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
