"""Measures payments from create to callback beside what a team would write itself, and what each
loses when it is killed."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import evolve, frozen

from bench import life_contenders, load, machine, merchants, servers
from bench.life_contenders import CONTENDERS, OURS_ASKS, TASKS_ASK, Contender, Running
from bench.load import DIRECT, LoadResult
from bench.merchants import Receivers
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import Database, NotServed

WINDOW = 384
"""Simultaneous payments: a new one starts when a callback arrives. Each takes at least 0.2 s, as
the operator does."""
CONNECTIONS = 32
WARM_S, WARM_PER_S = 4.0, 50.0
RATES: Mapping[str, float | None] = {"100 a second": 100.0, "300 a second": 300.0, "most": None}
MARKS = dict(zip(RATES, "abc", strict=True))
"""The first letter of the references of each load, by which the receivers tell them apart."""
CALLBACKS_WITHIN_S = 30.0

KILLED_AFTER_S, KILLED_PER_S = 4.0, 60.0
LOST_AFTER_S = 45.0
"""A payment without a callback this long after a kill is lost: nothing else would send it."""


@frozen
class Lived:
    """Holds what one contender did under one load."""

    lives: int
    lives_per_s: float
    create_p99_ms: float
    server_us: float
    """Processor time of its processes for one life."""
    broker_us: float
    database_us: float
    memory_mib: float
    callback_p50_ms: float = 0.0
    """From the result to the callback."""
    callback_p99_ms: float = 0.0


@frozen
class Killed:
    """Counts the payments of a contender that was killed."""

    answered: int
    called_back_before: int
    called_back: int
    """In all, after it was started again."""
    took_s: float


Rounds = Mapping[str, Mapping[str, Sequence[Lived]]]
"""By contender and load, one for each round."""


def run(options: Options) -> Outcome:
    """Play all loads against each contender in turn, then kill each once."""
    rounds: dict[str, dict[str, list[Lived]]] = {}
    killed: dict[str, Killed] = {}
    notes: dict[str, str] = {}
    with servers.postgres(options.folder) as database:
        for number in range(options.rounds):
            for contender in CONTENDERS:
                folder = options.folder / f"{contender.key}-{number}"
                try:
                    played = play(contender, folder, database, options.seconds)
                except NotServed as reason:
                    notes[contender.key] = f"{contender.name} isn't there: {reason}"
                    continue
                for phase, lived in played.items():
                    rounds.setdefault(contender.key, {}).setdefault(phase, []).append(lived)
                print(f"  {number + 1}. {contender.name}", flush=True)

        for contender in CONTENDERS:
            if contender.key in rounds:
                folder = options.folder / f"{contender.key}-killed"
                killed[contender.key] = kill(contender, folder, database)
        about_database = database.version()

    tables = [_table(phase, rounds) for phase in RATES]
    return Outcome(
        "whole_life",
        "The whole life, beside what a team would write",
        f"A direct pay-in for one of {life_contenders.SHOPS} shops is created, submitted,"
        " notified, and called back over TLS through a breaker, each step kept in a row. Only the"
        " first two and the last speak HTTP with the operator and ask it before they believe its"
        " notification; the others' operator is inside or believed. The operator repeats a"
        f" notification for two seconds. Databases are {about_database}. All"
        f" processes of a server share the first core. {options.rounds} rounds of"
        f" {options.seconds} s for each load, in turn; medians.",
        [*tables, _killed_table(killed)],
        list(_goals(rounds)),
        notes=list(notes.values()),
    )


def play(
    contender: Contender, folder: Path, database: Database, seconds: float
) -> dict[str, Lived]:
    """Run all loads against one contender. Every payment must get its callback."""
    folder.mkdir(parents=True)
    lived: dict[str, Lived] = {}
    with (
        merchants.receivers(folder, life_contenders.shop_keys()) as receivers,
        contender.prepared(folder, database) as start,
        start() as running,
    ):
        _load(running, receivers, folder, "w", WARM_S, WARM_PER_S)
        _await_quiet(running)
        for phase, rate in RATES.items():
            database.ask(database.uri, "checkpoint")
            lived[phase] = _measure(
                running, receivers, folder, database, MARKS[phase], seconds, rate
            )
        came = receivers.end()
    return {
        phase: evolve(
            measured,
            callback_p50_ms=came[MARKS[phase]].p50_ms,
            callback_p99_ms=came[MARKS[phase]].p99_ms,
        )
        for phase, measured in lived.items()
    }


def _load(
    running: Running,
    receivers: Receivers,
    folder: Path,
    mark: str,
    seconds: float,
    rate: float | None,
    watch: Callable[[], None] = lambda: None,
) -> LoadResult:
    """Create payments at a rate, or as many as the window allows, and wait for their callbacks.
    `watch` is called twice a second meanwhile."""
    before = receivers.so_far()
    shops = [(key, receivers.well, mark) for key in life_contenders.shop_keys()]
    child = load.start(
        running.server,
        DIRECT,
        seconds=seconds,
        run=mark,
        connections=CONNECTIONS,
        merchants=merchants.write(folder / f"merchants-{mark}", shops),
        rate=rate,
        window=(WINDOW, receivers.counter),
    )
    while child.poll() is None:
        time.sleep(0.5)
        watch()
    measured = load.finish(child)
    assert measured.bad == 0, f"{measured.bad} creates were refused"
    wait_for(receivers, before + measured.requests, CALLBACKS_WITHIN_S)
    return measured


def _measure(
    running: Running,
    receivers: Receivers,
    folder: Path,
    database: Database,
    mark: str,
    seconds: float,
    rate: float | None,
) -> Lived:
    """Run one load and read what it cost."""
    memory_mib: list[float] = []

    def watch() -> None:
        memory_mib.append(sum(machine.pss_mib(pid) for pid in running.measured))

    before = _processor_s(running, database)
    callbacks_before = receivers.so_far()
    measured = _load(running, receivers, folder, mark, seconds, rate, watch)
    lives = receivers.so_far() - callbacks_before
    assert lives == measured.requests, f"{lives} callbacks for {measured.requests} payments"
    _await_quiet(running)
    server_s, broker_s, database_s = (
        after - was for after, was in zip(_processor_s(running, database), before, strict=True)
    )
    return Lived(
        lives,
        measured.per_s,
        measured.p99_ms,
        server_s / lives * 1e6,
        broker_s / lives * 1e6,
        database_s / lives * 1e6,
        max(memory_mib),
    )


def kill(contender: Contender, folder: Path, database: Database) -> Killed:
    """Kill all processes of a contender right after a load, start it again, and count."""
    folder.mkdir(parents=True)
    with (
        merchants.receivers(folder, life_contenders.shop_keys()) as receivers,
        contender.prepared(folder, database) as start,
    ):
        with start() as running:
            warm = _load(running, receivers, folder, "w", WARM_S, WARM_PER_S).requests
            shops = [(key, receivers.well, "k") for key in life_contenders.shop_keys()]
            child = load.start(
                running.server,
                DIRECT,
                seconds=KILLED_AFTER_S,
                connections=CONNECTIONS,
                merchants=merchants.write(folder / "merchants", shops),
                rate=KILLED_PER_S,
            )
            created = load.finish(child)
            before = receivers.so_far() - warm
            for pid in running.measured:
                for member in machine.family(pid):
                    with suppress(ProcessLookupError):
                        os.kill(member, signal.SIGKILL)

        answered = created.requests - created.bad
        with start():
            took_s = wait_for(receivers, warm + answered, LOST_AFTER_S)
            called_back = receivers.so_far() - warm
        receivers.end()
    return Killed(answered, before, called_back, took_s)


def wait_for(receivers: Receivers, callbacks: int, seconds: float) -> float:
    """Wait until this many callbacks arrived or the time is over; return how long it took."""
    begin = time.monotonic()
    while receivers.so_far() < callbacks and time.monotonic() < begin + seconds:
        time.sleep(0.1)
    return time.monotonic() - begin


def _processor_s(running: Running, database: Database) -> tuple[float, float, float]:
    """Return the processor seconds so far of a contender, its broker and its database."""
    return (
        sum(machine.cpu_s(pid) for pid in running.measured),
        sum(machine.cpu_s(pid) for pid in running.brokers),
        machine.cpu_s(database.pid),
    )


def _await_quiet(running: Running) -> None:
    for pid in running.measured:
        machine.wait_until_quiet(pid, timeout_s=10)


def _table(phase: str, rounds: Rounds) -> Table:
    """Return one load's medians."""
    rows = []
    for contender in CONTENDERS:
        if contender.key not in rounds:
            continue
        lived = rounds[contender.key][phase]

        def median(read: Callable[[Lived], float], lived: Sequence[Lived] = lived) -> float:
            return statistics.median(map(read, lived))

        database_us = f"{median(lambda one: one.database_us):,.0f}"
        rows.append(
            [
                contender.name,
                f"{median(lambda one: one.lives_per_s):,.0f}",
                f"{median(lambda one: one.server_us):,.0f}",
                f"{median(lambda one: one.broker_us):,.0f}"
                if contender.key == "queue_asks"
                else "",
                database_us if contender.has_database else "in the server's",
                f"{median(lambda one: one.create_p99_ms):.1f}",
                f"{median(lambda one: one.callback_p50_ms):.1f}",
                f"{median(lambda one: one.callback_p99_ms):.1f}",
                f"{median(lambda one: one.memory_mib):.0f}",
            ]
        )
    return Table(
        phase,
        (
            "server",
            "lives per s",
            "server µs each",
            "broker µs each",
            "database µs each",
            "create p99 ms",
            "result to callback p50 ms",
            "p99 ms",
            "memory MiB",
        ),
        rows,
        "the server's core at most; at the two rates nothing is: the processor's time tells what a"
        " life costs.",
    )


def _killed_table(killed: Mapping[str, Killed]) -> Table:
    """Return what became of the payments that were answered before a kill."""
    rows = [
        [
            contender.name,
            f"{seen.answered}",
            f"{seen.called_back_before}",
            f"{seen.called_back}",
            f"{seen.answered - seen.called_back}",
            f"{seen.took_s:.0f}",
        ]
        for contender in CONTENDERS
        if (seen := killed.get(contender.key)) is not None
    ]
    columns = (
        "server",
        "answered",
        "called back before the kill",
        "in all",
        "lost",
        "s until then",
    )
    return Table(
        f"killed after {KILLED_AFTER_S:g} s of {KILLED_PER_S:g} a second, and started again",
        columns,
        rows,
        f"what is kept outside of the process; {LOST_AFTER_S:g} s were waited for the rest.",
    )


def _goals(rounds: Rounds) -> list[Goal]:
    """Return how the gateway stands to the rival that does the same with its operator."""
    ours, theirs = rounds.get(OURS_ASKS.key), rounds.get(TASKS_ASK.key)
    if ours is None or theirs is None:
        return []

    def ratio(phase: str, read: Callable[[Lived], float]) -> float:
        pairs = zip(ours[phase], theirs[phase], strict=True)
        return statistics.median(read(our) / read(their) for our, their in pairs)

    goals = []
    for phase in ("100 a second", "300 a second"):
        processor = ratio(phase, lambda one: one.server_us)
        goals.append(
            Goal(f"processor for a life at {phase} : tasks", 1.1, processor, " x", at_most=True)
        )
    database = ratio("100 a second", lambda one: one.database_us)
    goals.append(Goal("database for a life : tasks", 1.3, database, " x", at_most=True))
    memory = ratio("100 a second", lambda one: one.memory_mib)
    goals.append(Goal("memory at 100 a second : tasks", 1.2, memory, " x", at_most=True))
    goals.append(Goal("lives : tasks", 1.5, ratio("most", lambda one: one.lives_per_s), " x"))
    return goals
