"""Measures what a whole life costs at everyday rates, and how soon after its result a callback has
been received."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from bench import servers
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.suite.creates import OUR_POSTGRES, OUR_SQLITE
from bench.suite.life import MERCHANTS, LifeResult, live

RATES = (10.0, 100.0, 300.0)
"""Payments a second."""
SECONDS = 20.0
ROUNDS_MOST = 5
GOAL_P99_MS = 10.0
GOAL_COST_US: Mapping[float, float] = {100.0: 2_500.0, 300.0: 1_800.0}
"""Processor time of the server for each life, by rate."""

Found: TypeAlias = Mapping[tuple[str, float], Sequence[LifeResult]]
"""The rounds by store and rate."""


def run(options: Options) -> Outcome:
    """Lead payments through their lives at steady rates, the stores in turn, each round on a
    gateway of its own."""
    found: dict[tuple[str, float], list[LifeResult]] = {
        (store, rate): [] for store in _STORES for rate in RATES
    }
    with servers.postgres(options.folder, is_spread=True) as database:
        for number in range(min(options.rounds, ROUNDS_MOST)):
            for store, rate in found:
                name = f"{_STORES[store]}_{number}_{rate:g}"
                url = database.fresh(name) if store == OUR_POSTGRES else None
                found[store, rate].append(
                    live(options.folder / name, SECONDS, rate=rate, database_url=url)
                )
    rounds = len(found[OUR_SQLITE, RATES[0]])
    table = Table(
        f"{MERCHANTS} brands; medians of {rounds} rounds of {SECONDS:g} s",
        ("store", "payments a second", "callbacks", "p50 ms", "p99 ms", "server µs each"),
        [[store, f"{rate:g}", *_cells(each)] for (store, rate), each in found.items()],
        "the server's core, whose caches are cold whenever it wakes: the fewer payments arrive "
        "together, the more each"
        " costs.",
    )
    return Outcome(
        "callbacks",
        "Everyday load, and from the result to the callback",
        "The lives of payments as above, but at steady rates. The time is from completedAt to the "
        "receiver's having"
        " read the body of the callback.",
        [table],
        _goals(found),
    )


_STORES = {OUR_SQLITE: "sqlite", OUR_POSTGRES: "postgres"}


def _cells(rounds: Sequence[LifeResult]) -> list[str]:
    return [
        f"{sum(each.came.count for each in rounds):,}",
        f"{statistics.median(each.came.p50_ms for each in rounds):.1f}",
        f"{_p99_ms(rounds):.1f}",
        f"{_cost_us(rounds):,.0f}",
    ]


def _goals(found: Found) -> list[Goal]:
    goals = []
    for (store, rate), rounds in found.items():
        if rate in GOAL_COST_US:
            at = f"{store}, {rate:g} lives a second"
            goals.append(
                Goal(
                    f"{at}: result to callback, p99",
                    GOAL_P99_MS,
                    _p99_ms(rounds),
                    " ms",
                    at_most=True,
                )
            )
            goals.append(
                Goal(
                    f"{at}: server", GOAL_COST_US[rate], _cost_us(rounds), " µs each", at_most=True
                )
            )
    return goals


def _p99_ms(rounds: Sequence[LifeResult]) -> float:
    return statistics.median(each.came.p99_ms for each in rounds)


def _cost_us(rounds: Sequence[LifeResult]) -> float:
    return statistics.median(each.cpu_us for each in rounds)
