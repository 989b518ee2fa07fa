"""Measures what a text costs a parser, compared with a harmless text of the same length, in CPU time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define

from tests.support.expressions import best_time

Text = TypeVar("Text")

COST_MAX = 3.0
"""A hostile text may cost so many times as much as a harmless one of its length."""
NEGLIGIBLE_S = 100e-6
"""Below it the fixed costs of a call and the clock itself outweigh what the text costs."""
ROUNDS = 15


@define
class Cost:
    """Holds the least CPU time of a hostile and a harmless text, in seconds."""

    hostile_s: float
    harmless_s: float

    @property
    def ratio(self) -> float:
        """Return how many times the harmless text the hostile one costs; 0 for a negligible one."""
        return 0.0 if self.hostile_s < NEGLIGIBLE_S else self.hostile_s / self.harmless_s


def measure(parse: Callable[[Text], object], hostile: Text, harmless: Text, *, enough: float = COST_MAX) -> Cost:
    """Return what both texts cost, in turn and as often as needed until the ratio is small enough, so that what else
    the machine does has no part in it."""
    cost = Cost(float("inf"), float("inf"))
    for number in range(ROUNDS):
        cost.harmless_s = min(cost.harmless_s, best_time(lambda: parse(harmless), rounds=1))
        cost.hostile_s = min(cost.hostile_s, best_time(lambda: parse(hostile), rounds=1))
        if cost.ratio <= enough and number > 1:
            break
    return cost


def growth(parse: Callable[[Text], object], half: Text, whole: Text) -> float:
    """Return how many times more the whole costs than its half; 0 for a negligible text."""
    return measure(parse, whole, half).ratio
