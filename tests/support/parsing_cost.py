"""Measures what a text costs a parser, compared with a harmless text of the same length, in CPU
time."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import TypeVar

from attrs import define

from tests.support.expressions import best_time

Text = TypeVar("Text")

COST_MAX = 3.0
"""A hostile text may cost so many times as much as a harmless one of its length."""
NEGLIGIBLE_S = 100e-6
"""Below it the fixed costs of a call and the clock itself outweigh what the text costs."""
ROUNDS_MIN = 3
PATIENCE_S = 2.0
"""CPU time for which a ratio that is too large is measured again: a machine that is shared may be
slow for a second."""


@define
class Cost:
    """Holds the least CPU time of a hostile and a harmless text, in seconds."""

    hostile_s: float
    harmless_s: float

    @property
    def ratio(self) -> float:
        """Return how many times the harmless text the hostile one costs; 0 for a negligible one."""
        return 0.0 if self.hostile_s < NEGLIGIBLE_S else self.hostile_s / self.harmless_s


def measure(
    parse: Callable[[Text], object],
    hostile: Text,
    harmless: Text,
    *,
    enough: float = COST_MAX,
    patience_s: float = PATIENCE_S,
) -> Cost:
    """Return what both texts cost, in turn and as often as needed until the ratio is small enough,
    so that what else the machine does has no part in it."""
    cost = Cost(float("inf"), float("inf"))
    ends_at, rounds = process_time() + patience_s, 0
    while rounds < ROUNDS_MIN or (cost.ratio > enough and process_time() < ends_at):
        cost.harmless_s = min(cost.harmless_s, best_time(lambda: parse(harmless), rounds=1))
        cost.hostile_s = min(cost.hostile_s, best_time(lambda: parse(hostile), rounds=1))
        rounds += 1
    return cost


def growth(
    parse: Callable[[Text], object], quarter: Text, half: Text, whole: Text, *, enough: float
) -> float:
    """Return how many times more a text costs than its half, at two sizes the smaller: memory of
    another kind, which a larger text needs, costs once. 0 for a negligible text."""
    ratio = measure(parse, whole, half, enough=enough).ratio
    return (
        ratio if ratio <= enough else min(ratio, measure(parse, half, quarter, enough=enough).ratio)
    )
