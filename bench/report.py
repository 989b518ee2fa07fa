"""Saves the outcome of a benchmark as JSON and formats it as Markdown: tables, limiting factors,
goals."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from attrs import Factory, asdict, frozen
from tests.support.postgres_programs import chosen

from bench.load import LoadResult, median, ratio
from bench.servers import HERE, Server

Cells = Sequence[str]
RESULTS = HERE / "results"

INTRODUCTION = """\
# Measured

`nox -s bench` runs everything in turn and writes this page; `nox -s bench -- NAME` runs one. The
server that is measured has the first core of the machine, load generator and database share the
second, unless a table says that the database is free on both. Ratios, taken between rounds side by
side, are the message: the machine's own speed comes and goes. `MMO_TEST_POSTGRES` chooses the
PostgreSQL, and the interpreter that runs the benchmarks runs every server as well. `bench/results`
has every figure.
"""

FIRST_ONLY = ("rising",)
"""Of these benchmarks the page shows the first table, of ratios; their other tables are in the
saved results."""
DOES = "what it does"
"""The column that the page has as a list, as several tables of a section name the same servers."""


@frozen
class Table:
    """Holds figures and the factor that limits them."""

    caption: str
    columns: Cells
    rows: Sequence[Cells]
    limited_by: str
    """One sentence."""


@frozen
class Goal:
    """Compares a figure with its goal."""

    what: str
    asked: float
    seen: float
    unit: str = ""
    at_most: bool = False
    """Whether less is better."""

    @property
    def is_met(self) -> bool:
        """Tell whether the figure meets its goal."""
        return self.seen <= self.asked if self.at_most else self.seen >= self.asked


@frozen
class Comparison:
    """Holds how many times as fast as each rival a server of ours is."""

    place: str
    """Where the rivals' database runs."""
    server: str
    connections: int
    to_fastapi: float
    to_raw: float


@frozen
class Outcome:
    """Holds the outcome of one benchmark."""

    name: str
    title: str
    how: str
    """The method, for readers who judge the figures."""
    tables: Sequence[Table]
    goals: Sequence[Goal] = ()
    series: Mapping[str, Mapping[str, Sequence[float]]] = Factory(dict)
    """The series of the plot: by server, lists of equal length by figure."""
    comparisons: Sequence[Comparison] = ()
    setting: str = ""
    """What may differ between outcomes with the same name: the versions of Python and
    PostgreSQL."""
    notes: Sequence[str] = ()
    """Missing parts, with reasons."""


def save(outcome: Outcome, folder: Path, *, machine: str, on: str) -> None:
    """Save an outcome; it replaces an earlier one with its name."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = asdict(outcome) | {"machine": machine, "on": on}
    text = json.dumps(saved, indent=1, ensure_ascii=False)
    file_name(folder, outcome).write_text(text + "\n")


def file_name(folder: Path, outcome: Outcome) -> Path:
    """Return where an outcome is saved."""
    suffix = re.sub(r"[^\w.]+", "_", outcome.setting).strip("_")
    return folder / f"{outcome.name}{'-' * bool(suffix)}{suffix}.json"


def setting() -> str:
    """Return the versions of Python and PostgreSQL that are measured."""
    programs = chosen()
    package = programs.name.rstrip("0123456789")
    return (
        f"Python {'.'.join(platform.python_version_tuple()[:2])}, PostgreSQL {programs.major} "
        f"({package})"
    )


def load(folder: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the saved outcomes with these names in this order, those with one name in that of
    their settings."""
    files = [
        file
        for name in names
        for file in (folder / f"{name}.json", *sorted(folder.glob(f"{name}-*.json")))
    ]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def is_of(saved: Mapping[str, Any], outcome: Outcome) -> bool:
    """Return whether this is the saved form of an outcome."""
    return (saved["name"], saved.get("setting", "")) == (outcome.name, outcome.setting)


def page(saved: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of RESULTS.md."""
    parts = [INTRODUCTION, *_machines(saved), *_goals(saved)]
    if any(each["name"] == "rising" for each in saved):
        parts.append("![Throughput and latency by number of connections](rising.svg)\n")
    for each in saved:
        parts.append(section(each))
    return "\n".join(parts)


def section(saved: Mapping[str, Any]) -> str:
    """Return the section of one benchmark."""
    parts = [f"## {saved['title']}{_of(saved)}\n", f"{saved['how']}\n"]
    does: dict[str, str] = {}
    for limited_by, tables in groupby(
        saved["tables"][: 1 if saved["name"] in FIRST_ONLY else None], key=itemgetter("limited_by")
    ):
        for table in tables:
            columns, rows = table["columns"], table["rows"]
            if columns[-1] == DOES:
                does |= {row[0].rpartition(": ")[2]: row[-1] for row in rows}
                columns, rows = columns[:-1], [row[:-1] for row in rows]
            parts += [f"**{table['caption']}**\n", markdown(columns, rows)]
        parts.append(f"Limited by: {limited_by}\n")
    if does:
        parts.append("".join(f"- {name}: {what}\n" for name, what in does.items()))
    parts += [f"{note}\n" for note in saved["notes"]]
    return "\n".join(parts)


def markdown(columns: Cells, rows: Sequence[Cells]) -> str:
    """Format a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _machines(saved: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the machine that most were measured on, and for each day what was measured, and where
    else."""
    parts = {each["machine"]: re.split(", |; ", each["machine"]) for each in saved}
    counts = Counter(part for each in saved for part in parts[each["machine"]])
    usual = [part for part, count in counts.items() if count * 2 > len(saved)]
    runs: dict[tuple[str, str], list[str]] = {}
    for each in saved:
        own = [part for part in parts[each["machine"]] if part not in usual]
        runs.setdefault((each["on"], ", ".join(own)), []).append(each["name"])
    head = f"Measured on {', '.join(usual)}; a day's line names what it had instead.\n"
    lines = (
        f"- {on}: {', '.join(names)}{f' ({own})' * bool(own)}\n"
        for (on, own), names in runs.items()
    )
    return [head, "".join(lines)]


def _goals(saved: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of what was asked, each with the worst that was seen in any setting."""
    worst: dict[str, Goal] = {}
    for results in (each for one in saved for each in one["goals"]):
        goal = Goal(**results)
        other = worst.get(goal.what, goal)
        worst[goal.what] = (max if goal.at_most else min)(goal, other, key=lambda each: each.seen)
    rows = []
    for goal in worst.values():
        bound = "at most" if goal.at_most else "at least"
        asked, seen = (f"{_number(value)}{goal.unit}" for value in (goal.asked, goal.seen))
        rows.append([goal.what, f"{bound} {asked}", seen, "yes" if goal.is_met else "**no**"])
    if not rows:
        return []
    head = "## What was asked\n\nBeside it stands the worst that was seen in any setting.\n"
    return [head, markdown(["figure", "asked", "worst seen", "met"], rows)]


def _of(saved: Mapping[str, Any]) -> str:
    return f" ({saved['setting']})" if saved.get("setting") else ""


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
    DOES,
)


def comparison(rows: Sequence[tuple[Server, Sequence[LoadResult]]]) -> list[Cells]:
    """Return the cells of `COMPARISON`: medians, and the factor by which the first server is
    faster."""
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
