"""Measures creates by number of connections against both rivals, with the database free and beside
the load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from bench import servers
from bench.load import DIRECT, LoadResult, Requests, median, ratio, round_of
from bench.options import Options
from bench.report import Comparison, Goal, Outcome, Table, setting
from bench.servers import Database, Server
from bench.suite.creates import (
    OUR_POSTGRES,
    OUR_SQLITE,
    SCHEMA,
    our_postgres,
    outbox_only,
    web_only,
)

FREE, BESIDE = "database free on both cores", "database on the load's core"
CONNECTIONS: Mapping[str, Sequence[int]] = {
    FREE: (1, 2, 4, 8, 16, 32, 64, 128, 256),
    BESIDE: (1, 8, 64, 256),
}
ROUNDS_MOST, SECONDS_MOST = 5, 1
PAUSE_S = 0.2
"""Nothing follows most of these creates, so a server is idle soon."""
MANY, FLOOR_AT = 16, 64
"""From so many connections on the first goal holds; at so many the floor is the measure."""
GOAL_MANY, GOAL_FLOOR = 2.0, 1.0
GOAL_TAIL_MANY, GOAL_TAIL_FEW = 1.0, 1.3
"""The p99 compared with FastAPI's: from `FLOOR_AT` connections on, and with fewer."""
GOAL_FEW: Mapping[str, float] = {OUR_SQLITE: 1.0, OUR_POSTGRES: 0.8}

Found = Mapping[int, Sequence[Sequence[LoadResult]]]
"""The rounds of each contender by number of connections."""


@frozen
class Contender:
    """Names a server and what it is asked for."""

    server: Server
    asked: Requests


def run(options: Options) -> Outcome:
    """Measure all servers in turn at each number of connections, once for each place of the
    database."""
    rounds, seconds = min(options.rounds, ROUNDS_MOST), min(options.seconds, SECONDS_MOST)
    tables, comparisons = list[Table](), list[Comparison]()
    series: dict[str, dict[str, list[float]]] = {}
    with _contenders(options.folder) as (contenders, database):
        names = [each.server.name for each in contenders]
        for turn, (place, counts) in enumerate(CONNECTIONS.items()):
            database.place(is_spread=place == FREE)
            found = {
                count: _rounds(
                    contenders, count, rounds=rounds, seconds=seconds, run=f"{turn}-{count}"
                )
                for count in counts
            }
            compared = _compare(place, names, found)
            tables += _tables(place, names, found, compared)
            comparisons += compared
            if place == FREE:
                series = {name: _series(found, number) for number, name in enumerate(names)}
        about_database = database.version()
    return Outcome(
        "rising",
        "Creates by number of connections",
        f"{rounds} rounds of {seconds} s for each number of connections, every server in turn, so "
        f"that each ratio is"
        f" the median of rounds side by side. Servers on the first core, load on the second. "
        f"Everything runs on one"
        f" interpreter; the rivals and our PostgreSQL use {about_database}. The operator of "
        f"direct pay-ins takes 9 s"
        " for each, in a process of its own.",
        tables,
        [*_goals(comparisons), *_tail_goals(names, series)],
        series=series,
        comparisons=comparisons,
        setting=setting(),
    )


@contextmanager
def _contenders(folder: Path) -> Iterator[tuple[list[Contender], Database]]:
    """Run the gateway in four ways, then FastAPI, then the floor, and their database."""
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(folder))
        on_sqlite = stack.enter_context(servers.gateway(folder / "sqlite", name=OUR_SQLITE))
        patient = stack.enter_context(servers.patient_gateway(folder / "patient", name=OUR_SQLITE))
        on_postgres = stack.enter_context(our_postgres(folder, database))
        patient_on_postgres = stack.enter_context(
            servers.patient_gateway(
                folder / "patient-on-postgres",
                name=OUR_POSTGRES,
                environment={"MMO_DATABASE_URL": database.fresh("patient")},
                database_pid=database.pid,
            )
        )
        both = stack.enter_context(
            servers.rivals(folder, database.fresh("rivals", SCHEMA), database)
        )
        ours = [
            web_only(on_sqlite),
            outbox_only(patient),
            web_only(on_postgres),
            outbox_only(patient_on_postgres),
        ]
        yield [Contender(*each) for each in (*ours, *((rival, DIRECT) for rival in both))], database


def _rounds(
    contenders: Sequence[Contender], connections: int, *, rounds: int, seconds: int, run: str
) -> list[list[LoadResult]]:
    """Return the rounds of each contender. The rivals share a table, where no reference may come
    again."""
    found: list[list[LoadResult]] = [[] for _ in contenders]
    for number in range(rounds):
        for place, each in enumerate(contenders):
            measured = round_of(
                each.server,
                each.asked,
                seconds=seconds,
                run=f"{run}-{number}-{place}",
                connections=connections,
                pause_s=PAUSE_S,
            )
            found[place].append(measured)
    return found


def _compare(place: str, names: Sequence[str], found: Found) -> list[Comparison]:
    """Compare each of our servers with both rivals, which are the last two."""
    return [
        Comparison(
            place, name, count, ratio(rounds[number], rounds[-2]), ratio(rounds[number], rounds[-1])
        )
        for number, name in enumerate(names[:-2])
        for count, rounds in found.items()
    ]


def _tables(
    place: str, names: Sequence[str], found: Found, compared: Sequence[Comparison]
) -> list[Table]:
    counts = list(map(str, found))
    speeds, costs = list[list[str]](), list[list[str]]()
    for number, name in enumerate(names):
        each = [median(rounds[number]) for rounds in found.values()]
        speeds.append(
            [name, *(f"{one.per_s:,.0f} ({one.p50_ms:.1f}, {one.p99_ms:.1f})" for one in each)]
        )
        costs.append([name, *(f"{one.cpu_us:.0f} + {one.database_cpu_us:.0f}" for one in each)])
    ratios = []
    for name in names[:-2]:
        mine = [each for each in compared if each.server == name]
        ratios.append([f"{name} : FastAPI", *(f"{each.to_fastapi:.2f} x" for each in mine)])
        ratios.append([f"{name} : raw ASGI", *(f"{each.to_raw:.2f} x" for each in mine)])
    return [
        Table(
            f"{place}: ratios by number of connections",
            ["ours : theirs", *counts],
            ratios,
            "with few connections the commit on the disk and the turns of the event loop for one "
            "request; with many"
            " the server's own core.",
        ),
        Table(
            f"{place}: creates a second (p50 ms, p99 ms), medians",
            ["server", *counts],
            speeds,
            "with few connections the way there and back and one commit on the disk, with many "
            "the server's own core.",
        ),
        Table(
            f"{place}: µs of processor time for each create, server + database",
            ["server", *counts],
            costs,
            "what a batch costs is shared by the creates in it; the rivals send one statement "
            "for each.",
        ),
    ]


def _series(found: Found, number: int) -> dict[str, list[float]]:
    each = [median(rounds[number]) for rounds in found.values()]
    return {
        "connections": [float(count) for count in found],
        "per_s": [one.per_s for one in each],
        "p50_ms": [one.p50_ms for one in each],
        "p99_ms": [one.p99_ms for one in each],
    }


def _tail_goals(
    names: Sequence[str], series: Mapping[str, Mapping[str, Sequence[float]]]
) -> list[Goal]:
    """Return the goals for the p99 of each of our servers, where the database has both cores."""
    theirs, goals = series[names[-2]], list[Goal]()
    for name in names[:-2]:
        of_counts = zip(
            series[name]["connections"], series[name]["p99_ms"], theirs["p99_ms"], strict=True
        )
        tails = [(count, ours / other) for count, ours, other in of_counts]
        many = max(each for count, each in tails if count >= FLOOR_AT)
        few = max(each for count, each in tails if count < FLOOR_AT)
        at_most = f"{name}, p99 : FastAPI's, the most"
        goals.append(
            Goal(
                f"{at_most}, {FLOOR_AT} connections and more",
                GOAL_TAIL_MANY,
                many,
                " x",
                at_most=True,
            )
        )
        goals.append(Goal(f"{at_most}, fewer", GOAL_TAIL_FEW, few, " x", at_most=True))
    return goals


def _goals(comparisons: Sequence[Comparison]) -> list[Goal]:
    """Return the goals of each of our servers, where the database has both cores."""
    goals = []
    free = [each for each in comparisons if each.place == FREE]
    for name in dict.fromkeys(each.server for each in free):
        mine = [each for each in free if each.server == name]
        many = min(each.to_fastapi for each in mine if each.connections >= MANY)
        few = min(each.to_fastapi for each in mine if each.connections < MANY)
        asked = next(goal for store, goal in GOAL_FEW.items() if name.startswith(store))
        floor = next(each.to_raw for each in mine if each.connections == FLOOR_AT)
        goals.append(
            Goal(f"{name}, {MANY} connections and more : FastAPI, the least", GOAL_MANY, many, " x")
        )
        goals.append(Goal(f"{name}, fewer connections : FastAPI, the least", asked, few, " x"))
        goals.append(Goal(f"{name}, {FLOOR_AT} connections : raw ASGI", GOAL_FLOOR, floor, " x"))
    return goals
