"""The simulation can see: every planted bug is found within a bounded number of seeds, by the
invariant it breaks."""

from __future__ import annotations

import re

import pytest

from tests.sansio.simulation.planted import BUGS, Bug

SEEDS_MAX = 100
"""So few seeds must show each bug; the run of `test_simulation.py` has many times as many."""


def first_sight(bug: Bug) -> str | None:
    """What the first seed that sees the bug says."""
    for seed in range(SEEDS_MAX):
        try:
            bug.simulation(seed).run()
        except AssertionError as error:
            return str(error)
    return None


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_is_seen(bug: Bug) -> None:
    seen = first_sight(bug)
    assert seen is not None, f"{SEEDS_MAX} seeds did not show it"
    assert re.search(bug.seen_as, seen)


def test_there_is_no_bug_with_the_name_of_another() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 12
