"""Counts what happened in worlds, adds up the counts of several runs, and shows them: each fault,
each message that was lost, each log line, and which inputs were decided at which stage while a
fault lasted.

python -m tests.simulation.coverage FILE...     the sum of what `--summary FILE` has written
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, define

from tests.simulation.play import Played
from tests.simulation.world.commits import MET, NO_FAULT
from tests.simulation.world.plan import FaultKind


@define
class RunSummary:
    """Holds what one run, or several, have found."""

    seeds: int = 0
    payments: int = 0
    virtual_days: float = 0.0
    seconds: float = 0.0
    """How long it took by the real clock, on all processors."""
    failed: list[str] = Factory(list)
    """The command that plays each failing world again."""
    counts: Counter[str] = Factory(Counter)

    def add(self, played: Played) -> None:
        """Count one world."""
        self.seeds += 1
        self.payments += played.variant.payments
        self.virtual_days += played.virtual_days
        self.counts.update(played.counts)
        if played.violations:
            self.failed.append(played.variant.command())

    def plus(self, other: RunSummary) -> RunSummary:
        """Return the sum of two runs."""
        return RunSummary(
            self.seeds + other.seeds,
            self.payments + other.payments,
            self.virtual_days + other.virtual_days,
            self.seconds + other.seconds,
            [*self.failed, *other.failed],
            self.counts + other.counts,
        )

    def to_json(self) -> str:
        """Return it as a document that `read_summary` reads."""
        return json.dumps(
            {
                "seeds": self.seeds,
                "payments": self.payments,
                "virtual_days": self.virtual_days,
                "seconds": round(self.seconds, 1),
                "failed": self.failed,
                "counts": dict(sorted(self.counts.items())),
            },
            indent=1,
        )

    def headline(self) -> str:
        """Return a line about all worlds so far."""
        seconds = max(self.seconds, 0.001)
        return (
            f"{self.seeds:,} seeds in {self.seconds:,.0f} s, {len(self.failed)} failed;"
            f" {self.virtual_days:,.0f} virtual days, {self.payments / seconds:.0f} payments "
            f"a second,"
            f" {self.virtual_days / seconds:.1f} days a second"
        )


def read_summary(path: Path | None) -> RunSummary:
    """Return the summary in a file; an empty one when there is none."""
    if path is None or not path.exists():
        return RunSummary()
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return RunSummary(**{**document, "counts": Counter(document["counts"])})


def write_summary(path: Path | None, summary: RunSummary) -> None:
    """Write the summary to a file, if one is wanted."""
    if path is not None:
        path.write_text(summary.to_json() + "\n", "utf-8")


def coverage_table(counts: Counter[str]) -> str:
    """Return tables of what happened, with a line for each fault that never occurred."""
    rows = [
        f"{count:12,}  {name}" for name, count in sorted(counts.items()) if not name.startswith(MET)
    ]
    never = [f"       never  fault {kind}" for kind in FaultKind if not counts[f"fault {kind}"]]
    return "\n".join([*rows, *never, *_met_table(counts)])


def _met_table(counts: Counter[str]) -> Iterator[str]:
    """Yield a table of faults against stages and inputs: how many decisions were stored while the
    fault lasted."""
    met = {
        tuple(name.removeprefix(MET).split()): count
        for name, count in counts.items()
        if name.startswith(MET)
    }
    columns = sorted({(stage, input_) for _, stage, input_ in met})
    if not columns:
        return
    yield "decisions stored while a fault lasted, by the stage before and the input:"
    yield from (
        f"  {number:2} = {stage} {input_}"
        for number, (stage, input_) in enumerate(columns, start=1)
    )
    yield f"  {'':24}" + "".join(f"{number:>9}" for number in range(1, len(columns) + 1))
    empty = 0
    for fault in (NO_FAULT, *FaultKind):
        cells = [met.get((fault, *column), 0) for column in columns]
        empty += cells.count(0)
        yield f"  {fault:24}" + "".join(f"{cell or '.':>9}" for cell in cells)
    yield f"  {empty} of {len(columns) * (1 + len(FaultKind))} cells are empty"


def main(paths: Sequence[str]) -> int:
    """Print the sum of these summaries; return 1 when a seed of them has failed."""
    total = RunSummary()
    for each in paths:
        total = total.plus(read_summary(Path(each)))
    print(coverage_table(total.counts))
    print(*total.failed, total.headline(), sep="\n")
    return int(bool(total.failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
