"""Measures how soon after its result a callback has been received, at a steady rate."""

from __future__ import annotations

import statistics

from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.suite.life import MERCHANTS, LifeResult, live

PER_S = 300.0
SECONDS = 20.0
ROUNDS_MOST = 3
GOAL_P99_MS = 25.0


def run(options: Options) -> Outcome:
    """Lead payments through their lives at a steady rate, each round on a gateway of its own."""
    rounds = [
        live(options.folder / f"{number}", SECONDS, rate=PER_S) for number in range(min(options.rounds, ROUNDS_MOST))
    ]
    p99_ms = statistics.median(each.came.p99_ms for each in rounds)
    table = Table(
        f"{PER_S:g} payments a second of {MERCHANTS} brands; rounds of {SECONDS:g} s",
        ("round", "callbacks", "p50 ms", "p99 ms", "server µs each"),
        [[f"{number}", *_cells(each)] for number, each in enumerate(rounds, 1)],
        "the server's core: the decision, two commits on the disk, and the conversation with the receiver.",
    )
    return Outcome(
        "callbacks",
        "From the result to the callback",
        "The lives of payments as above, but at a steady rate. The time is from completedAt to the receiver's having"
        " read the body of the callback.",
        [table],
        [Goal(f"result to callback at {PER_S:g} per s, p99", GOAL_P99_MS, p99_ms, " ms", at_most=True)],
    )


def _cells(lived: LifeResult) -> list[str]:
    came = lived.came
    return [f"{came.count:,}", f"{came.p50_ms:.1f}", f"{came.p99_ms:.1f}", f"{lived.cpu_us:,.0f}"]
