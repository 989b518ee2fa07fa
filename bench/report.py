"""What a benchmark has found, kept as JSON and told in Markdown: tables, what limits each figure,
what was asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, asdict, frozen

from bench.load import Shown, median, ratio
from bench.servers import Server

Cells = Sequence[str]

INTRODUCTION = """\
# Measured

`nox -s bench` runs everything in turn and writes this page; `nox -s bench -- NAME` runs one. The
server that is measured has the first core of the machine, load generator and database share the
second. Ratios, taken between rounds side by side, are the message: the machine's own speed comes
and goes.
"""


@frozen
class Table:
    """Figures, and what keeps them from being better."""

    caption: str
    columns: Cells
    rows: Sequence[Cells]
    limited_by: str
    """One sentence."""


@frozen
class Goal:
    """What was asked of a figure, and what it is."""

    what: str
    asked: float
    seen: float
    unit: str = ""
    at_most: bool = False
    """Whether less is better."""

    @property
    def is_met(self) -> bool:
        """Whether the figure is as good as it was asked to be."""
        return self.seen <= self.asked if self.at_most else self.seen >= self.asked


@frozen
class Outcome:
    """All that one benchmark has found."""

    name: str
    title: str
    how: str
    """What was done, for one who wants to judge the figures."""
    tables: Sequence[Table]
    goals: Sequence[Goal] = ()
    series: Mapping[str, Mapping[str, Sequence[float]]] = Factory(dict)
    """For the plot: by server, lists of equal length by figure."""
    notes: Sequence[str] = ()
    """What is absent, and why."""


def save(outcome: Outcome, folder: Path, *, machine: str, on: str) -> None:
    """Keep it, in the place of an earlier one of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = asdict(outcome) | {"machine": machine, "on": on}
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (folder / f"{outcome.name}.json").write_text(text + "\n")


def load(folder: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """What is kept under these names, in their order."""
    files = [folder / f"{name}.json" for name in names]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def page(kept: Sequence[Mapping[str, Any]]) -> str:
    """RESULTS.md."""
    parts = [INTRODUCTION, *_machines(kept), *_goals(kept)]
    for each in kept:
        parts.append(section(each))
    return "\n".join(parts)


def section(kept: Mapping[str, Any]) -> str:
    """One benchmark."""
    parts = [f"## {kept['title']}\n", f"{kept['how']}\n"]
    for table in kept["tables"]:
        parts += [f"**{table['caption']}**\n", markdown(table["columns"], table["rows"])]
        parts.append(f"\nLimited by: {table['limited_by']}\n")
    if kept["name"] == "rising":
        parts.append("![Throughput and latency against rising load](rising.svg)\n")
    parts += [f"{note}\n" for note in kept["notes"]]
    return "\n".join(parts)


def markdown(columns: Cells, rows: Sequence[Cells]) -> str:
    """A table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _machines(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """On what it was measured; several lines when parts are from different days or machines."""
    runs: dict[tuple[str, str], list[str]] = {}
    for each in kept:
        runs.setdefault((each["machine"], each["on"]), []).append(each["name"])
    if len(runs) == 1:
        return [f"Measured on {on}: {machine}.\n" for machine, on in runs]
    return [f"Measured on {on} ({', '.join(n)}): {machine}.\n" for (machine, on), n in runs.items()]


def _goals(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for each in kept:
        for told in each["goals"]:
            goal = Goal(**told)
            bound = "at most" if goal.at_most else "at least"
            asked, seen = (f"{_number(value)}{goal.unit}" for value in (goal.asked, goal.seen))
            rows.append([goal.what, f"{bound} {asked}", seen, "yes" if goal.is_met else "**no**"])
    if not rows:
        return []
    return ["## What was asked\n", markdown(["figure", "asked", "seen", "met"], rows)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")


COMPARISON = (
    "server",
    "per s",
    "p50 ms",
    "p99 ms",
    "ours is",
    "server µs each",
    "database µs each",
    "what it does",
)


def comparison(rows: Sequence[tuple[Server, Sequence[Shown]]]) -> list[Cells]:
    """The cells of `COMPARISON`: medians, and how many times as fast the first server is."""
    cells: list[Cells] = []
    for server, rounds in rows:
        middle = median(rounds)
        cells.append(
            [
                server.name,
                f"{middle.per_s:,.0f}",
                f"{middle.p50_ms:.1f}",
                f"{middle.p99_ms:.1f}",
                f"{ratio(rows[0][1], rounds):.2f} x",
                f"{middle.cpu_us:,.0f}",
                f"{middle.database_cpu_us:,.0f}" if server.database_pid else "in the server's",
                server.does,
            ]
        )
    return cells
