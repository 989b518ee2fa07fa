"""Write `docs/internals/concurrency.md`: the pairs of inputs that may not be decided without each
other, and what excludes it.

PYTHONPATH=src:. python docs/make_pairs.py
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.input_pairs import Footprint, Pair, RowKind, pairs, representatives

PAGE = Path(__file__).with_name("internals") / "concurrency.md"

HEAD = """\
# Concurrent inputs

Processes that share a store decide at the same time, each from what it has loaded. Where one input reads what the other
writes, something excludes that each is decided as if the other was not there: else one receipt could be booked twice.
Mostly it is a row that both write: the later commit finds it changed, or its key taken, and is decided again. On SQLite
each input is decided after the commit of the one before.

This page is made by `docs/make_pairs.py`, from the keys that `reads` names and from what every kind of input writes
after a number of histories. `tests/runtime/storage/test_input_pairs.py` plays each pair in both orders. A form of an
input that reads or writes something else is added to `tests/support/input_variants.py`."""

LEGEND = """\
7/8 is an input of row 7 with one of row 8. Where it is not needed, the outcome is that of a sequence even if each is
decided without the other."""


def page() -> str:
    """Return the page as Markdown."""
    every = pairs()
    footprints = dict.fromkeys(each.footprint for pair in every for each in (pair.one, pair.other))
    numbers = {each: number for number, each in enumerate(footprints, 1)}
    titles = ("## What is read and written", "## What excludes what")
    parts = (
        HEAD,
        titles[0],
        _inputs(every, numbers),
        titles[1],
        LEGEND,
        _exclusions(every, numbers),
    )
    return "\n\n".join(parts) + "\n"


def _inputs(every: Sequence[Pair], numbers: dict[Footprint, int]) -> str:
    rows = ["| | Inputs | Read | Write |", "|---|---|---|---|"]
    accesses = [each for pair in every for each in (pair.one, pair.other)]
    for footprint, number in numbers.items():
        names = dict.fromkeys(each.variant for each in accesses if each.footprint == footprint)
        rows.append(f"| {number} | {', '.join(names)} | {' | '.join(map(_names, footprint))} |")
    return "\n".join(rows)


def _names(found: Sequence[RowKind]) -> str:
    return ", ".join(f"`{each}`" for each in found)


def _exclusions(every: Sequence[Pair], numbers: dict[Footprint, int]) -> str:
    found: dict[str, dict[str, None]] = {}
    for each in representatives(every):
        one, other = sorted((numbers[each.one.footprint], numbers[each.other.footprint]))
        found.setdefault(each.exclusion, {})[f"{one}/{other}"] = None
    rows = ["| Excluded by | Pairs |", "|---|---|"]
    rows += [f"| {exclusion} | {', '.join(who)} |" for exclusion, who in sorted(found.items())]
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
