"""Whatever goes wrong with an operator, the merchant hears what happened, or a person finds it in
the suspense book: cell by cell of the table in docs/internals/operators.md, which this module
prints when it is run."""

from __future__ import annotations

import logging
from itertools import product
from pathlib import Path

import pytest
import structlog

from tests.support.effort import by_effort
from tests.support.operator_table import (
    BETWEEN_ROWS,
    COLUMNS,
    ROWS,
    cell_text,
    is_told_wrong,
    play_cell,
    table,
)

EVERY = by_effort(9, 1)
"""Of how many cells the short form plays one: some in each row and column."""
FIRST = by_effort(2, 0)
"""With the one of an API operator that is locked, and that of one who may not ask."""
PAGE = Path(__file__).parents[4] / "docs/internals/operators.md"


def written(row: str, column: str) -> str:
    """Return what the page says of this cell."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    tables = (each.strip("| ").split(" | ") for each in lines if each.startswith("| "))
    (cells,) = (each for each in tables if row in each[0].split(BETWEEN_ROWS))
    return cells[1 + list(COLUMNS).index(column)]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.mark.long
@pytest.mark.spec("S2", "S3", "S5", "S6")
@pytest.mark.parametrize(
    ("row", "column"),
    [
        pytest.param(*each, id=": ".join(each[::-1]))
        for each in [*product(ROWS, COLUMNS)][FIRST::EVERY]
    ],
)
def test_the_cell_says_what_happens(row: str, column: str) -> None:
    course = play_cell(row, column)
    assert cell_text(course) == written(row, column)
    assert course is None or not is_told_wrong(row, column, course)


def test_the_page_has_the_whole_table() -> None:
    shown = {(row, column): written(row, column) for row, column in product(ROWS, COLUMNS)}
    assert table(shown) in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    _played = {
        (row, column): cell_text(play_cell(row, column)) for row, column in product(ROWS, COLUMNS)
    }
    print(table(_played))
