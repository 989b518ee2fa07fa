"""Says in the README what the saved results show: `python -m bench.summary` writes its section
again."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import report

README = Path(__file__).parent.parent / "README.md"
SECTION = re.compile(r"(?<=^## Performance\n\n).*?(?=^## )", re.MULTILINE | re.DOTALL)
NAMES = ("rising",)
SHOWN_AT = 64
WIDTH = 100

Saved = Mapping[str, Any]


def performance(saved: Sequence[Saved]) -> str:
    """Return the section of the README. Raises ValueError when the benchmark is missing."""
    slowest, fastest = _rates(saved)
    text = (
        f"On one core, with every payment on disk before its answer, one process accepts "
        f"{_round(slowest)} to"
        f" {_round(fastest)} payments a second; the [results](bench/RESULTS.md) say how that was "
        f"measured, and beside"
        " what."
    )
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, "", ""])


def worst(saved: Sequence[Saved]) -> Saved | None:
    """Return the outcome with the least of all ratios to FastAPI, which is the one to plot."""
    risen = [each for each in saved if each["name"] == "rising"]
    return min(
        risen, key=lambda each: min(one["to_fastapi"] for one in each["comparisons"]), default=None
    )


def replace(text: str, saved: Sequence[Saved]) -> str:
    """Return the text of the README with the section of these results."""
    section = performance(saved)
    return SECTION.sub(lambda _: section, text)


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


def _round(value: float) -> str:
    """Return a rate with two digits that count."""
    return f"{float(f'{value:.2g}'):,.0f}"


def main() -> None:
    """Write the section."""
    saved = report.load(report.RESULTS, NAMES)
    README.write_text(replace(README.read_text(encoding="utf-8"), saved), encoding="utf-8")


if __name__ == "__main__":
    main()
