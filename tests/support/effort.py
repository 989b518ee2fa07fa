"""Says how much the tests play: `MMO_EFFORT=quick`, the default, is what each change has to pass,
and `MMO_EFFORT=full` is what finds more where more is tried.

What a test proves is the same; full effort has more seeds, kills, sizes and variants of it."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

EFFORT: Final = "MMO_EFFORT"
"""The variable that chooses."""
EFFORTS: Final = ("quick", "full")


def is_quick(effort: str) -> bool:
    """Whether a value of the variable is quick effort. Raises ValueError for an unknown one."""
    if effort not in EFFORTS:
        raise ValueError(f"{EFFORT} is {effort!r}. Set it to quick or full, or leave it unset.")
    return effort == "quick"


QUICK: Final = is_quick(os.environ.get(EFFORT, "quick"))


def by_effort(quick: T, full: T) -> T:
    """Return what this run plays of the two."""
    return quick if QUICK else full
