"""Prints how much there is to read beside its budgets, and fails where one is exceeded:

    python -m tests.weight [--files]

With `--files` the files entered on each flow are named.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import structlog
import trio
from attrs import frozen

from tests.sansio.structure.sources import MODULES, ROOT
from tests.weight.flows import trace_flows

GATEWAY: Final = ("mmo_sansio", "mmo_trio")


@frozen
class Figure:
    """One thing that is measured."""

    name: str
    measured: float
    budget: float

    @property
    def is_over(self) -> bool:
        """Tell whether the budget is exceeded."""
        return self.measured > self.budget

    def __str__(self) -> str:
        end = "  over" if self.is_over else ""
        return f"{self.name:40}{self.measured:>10,g}{self.budget:>10,g}{end}"


def sources(*packages: str) -> list[Path]:
    """Return the modules of these packages."""
    return [path for name, path in MODULES.items() if name.partition(".")[0] in packages]


def count_lines(paths: list[Path]) -> int:
    """Return the number of lines of these files."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def wheel_mb() -> float:
    """Build the wheel of a fresh copy, where no earlier build has left a file, and return its size
    in megabytes."""
    with TemporaryDirectory(prefix="mmo-wheel-") as folder:
        subprocess.run(
            ["git", "checkout-index", "--all", f"--prefix={folder}/copy/"], cwd=ROOT, check=True
        )
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            folder,
            f"{folder}/copy",
        ]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        return wheel.stat().st_size / 1e6


def measure(flows: dict[str, list[str]]) -> Iterator[Figure]:
    """Yield each figure."""
    yield Figure("lines of mmo_sansio and mmo_trio", count_lines(sources(*GATEWAY)), 59_200)
    yield Figure("modules of mmo_sansio and mmo_trio", len(sources(*GATEWAY)), 430)
    yield Figure("lines of mmo_merchant", count_lines(sources("mmo_merchant")), 5_000)
    yield Figure("lines of mmo_simulators", count_lines(sources("mmo_simulators")), 5_500)
    for flow, title, budget in (
        ("create", "files entered: a web create", 45),
        ("look-up", "files entered: a look-up", 25),
        ("tick", "files entered: a tick to expiry", 25),
        ("result", "files entered: a result to its callback", 52),
    ):
        yield Figure(title, len(flows[flow]), budget)
    yield Figure("megabytes of the wheel", round(wheel_mb(), 3), 1.2)


def main() -> int:
    """Print all figures; return 1 where a budget is exceeded."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    flows = trio.run(trace_flows)
    if "--files" in sys.argv:
        for flow, files in flows.items():
            print(f"{flow}:", *files, sep="\n    ")
    figures = list(measure(flows))
    print(f"{'':40}{'measured':>10}{'budget':>10}", *figures, sep="\n")
    return int(any(each.is_over for each in figures))


if __name__ == "__main__":
    sys.exit(main())
