"""Measures creates with few requests at a time, with the database free on both cores."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack

from bench import servers
from bench.load import DIRECT, LoadResult, Requests, median, ratio, round_of
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import Server
from bench.suite.creates import SCHEMA, our_postgres, web_only

CONNECTIONS = (1, 2, 4, 8, 16, 32)
SECONDS_MOST = 3
GOAL_AT_32, GOAL_BELOW = 1.5, 1.0


def run(options: Options) -> Outcome:
    """Measure the gateway and the FastAPI rival in turn at each number of connections."""
    seconds = min(options.seconds, SECONDS_MOST)
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(options.folder, is_spread=True))
        ours = stack.enter_context(our_postgres(options.folder, database))
        dsn = database.fresh("rivals", SCHEMA)
        rival = stack.enter_context(servers.fastapi(options.folder, dsn, database))
        contenders = [web_only(ours), (rival, DIRECT)]
        found = {count: _rounds(contenders, count, options.rounds, seconds) for count in CONNECTIONS}
        about_database = database.version()
    rows = []
    for place, (server, _) in enumerate(contenders):
        each = [median(rounds[place]) for rounds in found.values()]
        rows.append([server.name, *(f"{one.per_s:,.0f} ({one.p50_ms:.1f}, {one.p99_ms:.1f})" for one in each)])
        rows.append(["... µs of server + database", *(f"{one.cpu_us:.0f} + {one.database_cpu_us:.0f}" for one in each)])
    ratios = {count: ratio(ours, theirs) for count, (ours, theirs) in found.items()}
    rows.append(["ours : FastAPI", *(f"{each:.2f} x" for each in ratios.values())])
    table = Table(
        "creates a second (p50 ms, p99 ms) by number of connections, medians",
        ["server", *map(str, CONNECTIONS)],
        rows,
        "with few connections the commit on the disk, which concurrent commits share; with more the server's core.",
    )
    small = statistics.median(ratios[count] for count in CONNECTIONS if count <= 16)
    return Outcome(
        "small_loads",
        "Few requests at a time",
        f"Creates (ours: web pay-ins), {options.rounds} rounds of {seconds} s in turn for each number of connections."
        f" Both servers on the first core, load on the second, {about_database} free on both.",
        [table],
        [
            Goal("32 connections : FastAPI", GOAL_AT_32, ratios[32], " x"),
            Goal("1 to 16 connections : FastAPI, median", GOAL_BELOW, small, " x"),
        ],
    )


def _rounds(
    contenders: Sequence[tuple[Server, Requests]], connections: int, rounds: int, seconds: int
) -> list[list[LoadResult]]:
    """Return the rounds of each contender."""
    found: list[list[LoadResult]] = [[] for _ in contenders]
    for number in range(rounds):
        for place, (server, asked) in enumerate(contenders):
            run = f"{connections}-{number}"
            found[place].append(round_of(server, asked, seconds=seconds, run=run, connections=connections))
    return found
