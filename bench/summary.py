"""Says in the README what the saved results show: `python -m bench.summary` writes its section again.

Every ratio is the worst of all settings that were measured."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from bench import report

README = Path(__file__).parent.parent / "README.md"
SECTION = re.compile(r"(?<=^## Performance\n\n).*?(?=^## )", re.MULTILINE | re.DOTALL)
NAMES = ("rising", "look_ups", "life")
MANY, SHOWN_AT = 16, 64
WIDTH = 100

Saved = Mapping[str, Any]


def performance(saved: Sequence[Saved]) -> str:
    """Return the section of the README. Raises ValueError when a benchmark is missing."""
    many, few = (min(_ratios(saved, "to_fastapi", is_many=is_many)) for is_many in (True, False))
    floor = min(each["to_raw"] for each in _comparisons(saved) if each["connections"] == SHOWN_AT)
    slowest, fastest = _rates(saved)
    look_ups = min(_seen(saved, "look_ups", "look-ups : FastAPI"))
    lives = min(_seen(saved, "life", "whole lives"))
    settings = [each["setting"] for each in saved if each["name"] == "rising"]
    text = (
        f"On one core, with every payment on disk before its answer, one process accepts {_round(slowest)} to"
        f" {_round(fastest)} payments a second over {SHOWN_AT} connections, with journal, outbox and all checks."
        f" With {MANY} connections and more that is at least {many:.2f} times the rate of a FastAPI service that stores"
        f" one row, with fewer at least {few:.2f} times; with {SHOWN_AT} it is at least {floor:.2f} times the rate of"
        " the least that an ASGI application can do. Each ratio is the worst of all settings: web and direct pay-ins,"
        f" SQLite and PostgreSQL, the database free on both cores or on the load's, {_join(settings)}. It answers"
        f" {look_ups:.1f} times as many look-ups over a million payments. Complete payments, from the request over the"
        " operator's result to the callback over TLS on its own connection, end at a rate of"
        f" {_round(lives)} a second, in memory that does not grow. `nox -s bench` measures all of it again; the"
        " [results](bench/RESULTS.md) name the rivals, and what limits each figure; [where the time"
        " goes](docs/performance.md) takes a create apart."
    )
    plot = "![Throughput and latency by number of connections](bench/rising.svg)"
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, "", plot, "", ""])


def worst(saved: Sequence[Saved]) -> Saved | None:
    """Return the outcome with the least of all ratios to FastAPI, which is the one to plot."""
    risen = [each for each in saved if each["name"] == "rising"]
    return min(risen, key=lambda each: min(one["to_fastapi"] for one in each["comparisons"]), default=None)


def replace(text: str, saved: Sequence[Saved]) -> str:
    """Return the text of the README with the section of these results."""
    section = performance(saved)
    return SECTION.sub(lambda _: section, text)


def _comparisons(saved: Sequence[Saved]) -> Iterator[Mapping[str, Any]]:
    return (one for each in saved if each["name"] == "rising" for one in each["comparisons"])


def _ratios(saved: Sequence[Saved], to: str, *, is_many: bool) -> Iterator[float]:
    return (each[to] for each in _comparisons(saved) if (each["connections"] >= MANY) == is_many)


def _rates(saved: Sequence[Saved]) -> tuple[float, float]:
    """Return the least and the most creates a second of our servers."""
    rates = []
    for each in saved:
        if each["name"] == "rising":
            ours = {one["server"] for one in each["comparisons"]}
            for name, figures in each["series"].items():
                if name in ours:
                    rates.append(figures["per_s"][figures["connections"].index(SHOWN_AT)])
    return min(rates), max(rates)


def _seen(saved: Sequence[Saved], name: str, what: str) -> Iterator[float]:
    return (goal["seen"] for each in saved if each["name"] == name for goal in each["goals"] if goal["what"] == what)


def _join(settings: Sequence[str]) -> str:
    """Return the settings in words, those of one interpreter together."""
    parts = [each.split(", ") for each in sorted(settings)]
    by_python = [
        f"{python} with {' and '.join(database for _, database in group)}"
        for python, group in groupby(parts, lambda part: part[0])
    ]
    return ", ".join(by_python)


def _round(value: float) -> str:
    """Return a rate with two digits that count."""
    return f"{float(f'{value:.2g}'):,.0f}"


def main() -> None:
    """Write the section."""
    saved = report.load(report.RESULTS, NAMES)
    README.write_text(replace(README.read_text(encoding="utf-8"), saved), encoding="utf-8")


if __name__ == "__main__":
    main()
