"""Lets the rows of a table that have the same cells share one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

CellsT = TypeVar("CellsT")


def names_by_cells(rows: Iterable[tuple[str, CellsT]]) -> Mapping[CellsT, Sequence[str]]:
    """The names of the rows that have the same cells, each where the first of them stands."""
    names: dict[CellsT, list[str]] = {}
    for name, cells in rows:
        names.setdefault(cells, []).append(name)
    return names
