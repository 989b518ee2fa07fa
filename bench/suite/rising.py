"""Measures throughput and latency of creates against rising load."""

from __future__ import annotations

from contextlib import ExitStack

from bench import servers
from bench.load import DIRECT, LoadResult, median, round_of
from bench.options import Options
from bench.report import Outcome, Table
from bench.suite.creates import SCHEMA, our_postgres, web_only

CONNECTIONS = (1, 2, 4, 8, 16, 32, 64, 256)
ROUNDS_MOST, SECONDS_MOST = 3, 3


def run(options: Options) -> Outcome:
    """Measure each number of connections on each server in turn."""
    rounds, seconds = min(options.rounds, ROUNDS_MOST), min(options.seconds, SECONDS_MOST)
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(options.folder))
        dsn = database.fresh("rivals", SCHEMA)
        ours = stack.enter_context(servers.gateway(options.folder / "sqlite"))
        on_postgres = stack.enter_context(our_postgres(options.folder, database))
        both = stack.enter_context(servers.rivals(options.folder, dsn, database))
        contenders = [web_only(ours), web_only(on_postgres), *((each, DIRECT) for each in both)]
        measured: dict[str, list[LoadResult]] = {server.name: [] for server, _ in contenders}
        for connections in CONNECTIONS:
            found: dict[str, list[LoadResult]] = {server.name: [] for server, _ in contenders}
            for number in range(rounds):
                for server, asked in contenders:
                    found[server.name].append(
                        round_of(server, asked, seconds=seconds, run=f"{connections}-{number}", connections=connections)
                    )
            for name, each in found.items():
                measured[name].append(median(each))
    cells = [
        [name, *(f"{one.per_s:,.0f} ({one.p50_ms:.1f}, {one.p99_ms:.1f})" for one in each)]
        for name, each in measured.items()
    ]
    table = Table(
        "creates a second (p50 ms, p99 ms) by number of connections",
        ["server", *map(str, CONNECTIONS)],
        cells,
        "with few connections the way there and back and the commit on the disk, with more the server's own core.",
    )
    return Outcome(
        "rising",
        "Rising load",
        f"Creates as above (ours: web pay-ins), {rounds} rounds of {seconds} s for each number of connections.",
        [table],
        series={
            name: {
                "connections": [float(each) for each in CONNECTIONS],
                "per_s": [one.per_s for one in each],
                "p50_ms": [one.p50_ms for one in each],
                "p99_ms": [one.p99_ms for one in each],
            }
            for name, each in measured.items()
        },
    )
