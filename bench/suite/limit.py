"""Measures how near the gateway's creates come to the least that its rules and rows cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from bench import servers
from bench.load import DIRECT, WEB, LoadResult, Requests, median, ratio, round_of
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import Server
from bench.suite.creates import OUR_POSTGRES, OUR_SQLITE, our_postgres, outbox_only, web_only

CONNECTIONS = (1, 4, 16, 64, 256)
SECONDS_MAX = 1
PAUSE_S = 0.2
GOAL = 0.85


@frozen
class Pair:
    """Is the gateway, and the program of its rules and rows, on databases of the same kind."""

    ours: Server
    asked: Requests
    bare: Server
    bare_asked: Requests

    def rounds(
        self, connections: int, *, rounds: int, seconds: int
    ) -> Sequence[tuple[LoadResult, LoadResult]]:
        """Measure both in turn."""
        return [
            (
                self._round(self.ours, self.asked, connections, number, seconds),
                self._round(self.bare, self.bare_asked, connections, number, seconds),
            )
            for number in range(rounds)
        ]

    def _round(
        self, server: Server, asked: Requests, connections: int, number: int, seconds: int
    ) -> LoadResult:
        run = f"{self.ours.name}-{connections}-{number}".replace(" ", "")
        return round_of(
            server, asked, seconds=seconds, run=run, connections=connections, pause_s=PAUSE_S
        )


def run(options: Options) -> Outcome:
    """Measure each pair in turn at each number of connections."""
    seconds = min(options.seconds, SECONDS_MAX)
    with _pairs(options.folder) as pairs:
        found = {
            pair.ours.name: {
                count: pair.rounds(count, rounds=options.rounds, seconds=seconds)
                for count in CONNECTIONS
            }
            for pair in pairs
        }
    return Outcome(
        "limit",
        "How near creates come to their limit",
        "The gateway, and a program of its own payment rules, rows and statements with only what "
        "the contract asks"
        " besides: keys by digest, request ids, a bound on the wait for a commit, files in their "
        "places. It has no"
        " limits, deadlines of connections, hosts, rates, metrics or recovery, trusts every "
        "client's framing, and"
        f" submits nothing to operators. {options.rounds} rounds of {seconds} s for each in turn, "
        f"the database free on"
        " both cores.",
        [_table(name, rounds) for name, rounds in found.items()],
        [
            Goal(
                f"{name} : rules and rows only, the median",
                GOAL,
                statistics.median(_ratios(rounds)),
                " x",
            )
            for name, rounds in found.items()
        ],
    )


@contextmanager
def _pairs(folder: Path) -> Iterator[Sequence[Pair]]:
    """Run the gateway in four ways, and the program on a file and on PostgreSQL."""
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(folder, is_spread=True))
        bare = stack.enter_context(servers.bare_gateway(folder / "bare", name="bare, SQLite"))
        on_sqlite = stack.enter_context(servers.gateway(folder / "sqlite", name=OUR_SQLITE))
        patient = stack.enter_context(servers.patient_gateway(folder / "patient", name=OUR_SQLITE))
        bare_on_postgres = stack.enter_context(
            servers.bare_gateway(
                folder / "bare-on-postgres", name="bare, PostgreSQL", database=database
            )
        )
        on_postgres = stack.enter_context(our_postgres(folder, database))
        patient_on_postgres = stack.enter_context(
            servers.patient_gateway(
                folder / "patient-on-postgres",
                name=OUR_POSTGRES,
                environment={"MMO_DATABASE_URL": database.fresh("patient")},
                database_pid=database.pid,
            )
        )
        yield [
            Pair(*web_only(on_sqlite), bare, WEB),
            Pair(*outbox_only(patient), bare, DIRECT),
            Pair(*web_only(on_postgres), bare_on_postgres, WEB),
            Pair(*outbox_only(patient_on_postgres), bare_on_postgres, DIRECT),
        ]


def _table(name: str, found: Mapping[int, Sequence[tuple[LoadResult, LoadResult]]]) -> Table:
    return Table(
        f"{name}: creates a second, and µs of processor time for each; medians",
        ["", *map(str, CONNECTIONS)],
        [
            ["the gateway", *(_cell([mine for mine, _ in rounds]) for rounds in found.values())],
            [
                "rules and rows only",
                *(_cell([least for _, least in rounds]) for rounds in found.values()),
            ],
            ["ratio of the rates", *(f"{each:.2f} x" for each in _ratios(found))],
        ],
        "the server's core; with few connections the flush of the disk besides.",
    )


def _ratios(found: Mapping[int, Sequence[tuple[LoadResult, LoadResult]]]) -> Sequence[float]:
    return [
        ratio([mine for mine, _ in rounds], [least for _, least in rounds])
        for rounds in found.values()
    ]


def _cell(results: Sequence[LoadResult]) -> str:
    result = median(results)
    return f"{result.per_s:,.0f} ({result.cpu_us:.0f})"
