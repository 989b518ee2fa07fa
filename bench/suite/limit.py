"""Measures how near the gateway's creates come to the least that its rules and rows cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack

from bench import servers
from bench.load import WEB, LoadResult, median, ratio, round_of
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.suite.creates import OUR_SQLITE, web_only

CONNECTIONS = (1, 4, 16, 32, 64, 256)
SECONDS_MAX = 1
PAUSE_S = 0.2
GOAL = 0.85


def run(options: Options) -> Outcome:
    """Measure both servers in turn at each number of connections."""
    seconds = min(options.seconds, SECONDS_MAX)
    with ExitStack() as stack:
        ours, asked = web_only(stack.enter_context(servers.gateway(options.folder / "sqlite", name=OUR_SQLITE)))
        bare = stack.enter_context(servers.bare_gateway(options.folder))
        found: dict[int, list[tuple[LoadResult, LoadResult]]] = {count: [] for count in CONNECTIONS}
        for count in CONNECTIONS:
            for number in range(options.rounds):
                run = f"{count}-{number}"
                mine = round_of(ours, asked, seconds=seconds, run=run, connections=count, pause_s=PAUSE_S)
                least = round_of(bare, WEB, seconds=seconds, run=run, connections=count, pause_s=PAUSE_S)
                found[count].append((mine, least))
    ratios = {count: ratio(*_columns(rounds)) for count, rounds in found.items()}
    return Outcome(
        "limit",
        "How near creates come to their limit",
        "Web pay-ins on SQLite: the gateway, and a program of its own payment rules, rows and statements with only"
        " what the contract asks besides: keys by digest, request ids, a bound on the wait for a commit, files in their"
        " places. It has no limits, deadlines of connections, hosts, rates, metrics or recovery, and trusts every"
        " client's framing."
        f" {options.rounds} rounds of {seconds} s for each in turn.",
        [
            Table(
                "creates a second, and µs of processor time for each; medians",
                ["", *map(str, CONNECTIONS)],
                [
                    ["the gateway", *(_cell(median(_columns(rounds)[0])) for rounds in found.values())],
                    ["rules and rows only", *(_cell(median(_columns(rounds)[1])) for rounds in found.values())],
                    ["ratio of the rates", *(f"{each:.2f} x" for each in ratios.values())],
                ],
                "the server's core; with few connections the flush of the disk besides.",
            )
        ],
        [Goal("creates : rules and rows only, the median", GOAL, statistics.median(ratios.values()), " x")],
    )


def _columns(rounds: Sequence[tuple[LoadResult, LoadResult]]) -> tuple[list[LoadResult], list[LoadResult]]:
    return [each[0] for each in rounds], [each[1] for each in rounds]


def _cell(result: LoadResult) -> str:
    return f"{result.per_s:,.0f} ({result.cpu_us:.0f})"
