"""Measures complete payments: create, submission, result, callback over TLS. The operator is the
sandbox's, in the gateway's own process."""

from __future__ import annotations

import sqlite3
import statistics
import time
from contextlib import closing
from pathlib import Path

from attrs import evolve, frozen

from bench import load, machine, merchants, servers
from bench.load import DIRECT
from bench.merchants import ReceivedCallbacks, Receivers
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import Server
from mmo_sansio.values import clock

WINDOW = 384
"""Simultaneous payments: a new one starts when a callback arrives. Each takes at least 0.2 s, like
the sandbox operator."""
CONNECTIONS = 32
STEADY_PER_S = 100.0
STEADY_S = 20.0
SAMPLE_S = 10.0
SAMPLES_PER_LINE = 6
"""How many samples of the memory follow each other before a line about the progress is printed."""
MERCHANTS = 20
LATE_MS = 1_000
"""What only one payment in a hundred may take from its request to the record of its callback."""
GOAL_LATE_PERCENT = 1.0


@frozen
class LifeResult:
    """Holds the results of one run."""

    seconds: float
    came: ReceivedCallbacks
    left: int
    """Payments without a callback at the end of the load; their callbacks arrived within the
    timeout."""
    cpu_us: float
    """Processor time of the server per payment."""
    memory_mib: list[float]
    """Memory at the start, then every 10 s."""
    late_percent: float | None = None
    """The percentage of the payments whose callback was recorded more than `LATE_MS` after their
    creation; None where nobody has looked."""

    @property
    def per_s(self) -> float:
        """Return the number of complete payments."""
        return (self.came.count - self.left) / self.seconds


def run(options: Options) -> Outcome:
    """Run at full load for the given time, then at a steady lower rate."""
    most = live(options.folder / "most", options.minutes * 60)
    steady = live(options.folder / "steady", STEADY_S, rate=STEADY_PER_S)
    table = Table(
        "one process; receiver, load and TLS of the merchants on the other core",
        (
            "load",
            "whole lives per s",
            "result to callback p50 ms",
            "p99 ms",
            "over 1 s from creation to the callback's record %",
            "server µs each",
            "minutes",
        ),
        [
            [f"as many as can be, {WINDOW} under way", *_cells(most)],
            [f"{STEADY_PER_S:g} a second", *_cells(steady)],
        ],
        "the server's core: four decisions for each payment, two conversations, the sandbox's"
        " operator, and a TLS handshake where no kept connection is free.",
    )
    third = max(1, len(most.memory_mib) // 3)
    early, late = (
        statistics.mean(part) for part in (_middle(most, third), most.memory_mib[-third:])
    )
    grown_kib = max(0.0, late - early) * 1024 / max(1.0, most.per_s * SAMPLE_S * third)
    memory = Table(
        "resident memory of the server, MiB, every 10 s",
        ("start", "every 10 s from then on", "growth from middle to last third, for each payment"),
        [
            [
                f"{most.memory_mib[0]:.0f}",
                ", ".join(f"{each:.0f}" for each in most.memory_mib[1:]) or "(too short)",
                f"{grown_kib:.2f} KiB",
            ]
        ],
        "SQLite's page cache (16 MiB for the writer and for each of four readers) and the last"
        " 10,000 payments that"
        " the sandbox operator remembers, until both are full.",
    )
    return Outcome(
        "life",
        "The whole life",
        f"A direct pay-in for one of {MERCHANTS} brands is created and submitted to the sandbox's"
        " operator in the same process, which takes 0.2 s and notifies; the callback goes to a"
        " receiver in another process over TLS 1.3. Receivers"
        " announce that they keep connections for 5 s, so an idle one is used again for half of "
        "that, and sessions for"
        " five minutes. Receivers and load share the other core. The time is from"
        " completedAt to the"
        " receiver's having read the body.",
        [table, memory],
        [
            Goal("whole lives", 1000, most.per_s, " per s"),
            Goal(
                "over 1 s to the record of the callback",
                GOAL_LATE_PERCENT,
                _late_percent(most),
                " %",
                at_most=True,
            ),
            Goal("memory, last third : middle third", 1.1, late / early, " x", at_most=True),
        ],
    )


def live(
    folder: Path, seconds: float, *, rate: float | None = None, database_url: str | None = None
) -> LifeResult:
    """Run payments from create to callback for this many seconds, on a file or a database. Every
    payment must get its callback."""
    keys = [merchants.key_of(number) for number in range(MERCHANTS)]
    environment = {} if database_url is None else {"MMO_DATABASE_URL": database_url}
    with (
        merchants.receivers(folder, keys) as receivers,
        servers.gateway(
            folder, brands=merchants.brands(MERCHANTS), environment=environment
        ) as server,
    ):
        lived = live_on(server, receivers, folder, seconds, rate=rate)
    if database_url is not None:
        return lived
    return evolve(lived, late_percent=_count_late(folder / "gateway.db") / lived.came.count * 100)


def live_on(
    server: Server, receivers: Receivers, folder: Path, seconds: float, *, rate: float | None = None
) -> LifeResult:
    """Do the same with a running gateway, whose receivers end."""
    keys = [merchants.key_of(number) for number in range(MERCHANTS)]
    results = [(key, receivers.well, "w") for key in keys]
    file = merchants.write(folder / "merchants", results)
    memory_mib = [machine.resident_kib(server.pid) / 1024]
    before, begin = machine.cpu_s(server.pid), time.monotonic()
    child = load.start(
        server,
        DIRECT,
        seconds=seconds,
        connections=CONNECTIONS,
        merchants=file,
        rate=rate,
        window=(WINDOW, receivers.counter),
    )
    while child.poll() is None:
        time.sleep(min(0.25, SAMPLE_S))
        if time.monotonic() >= begin + SAMPLE_S * len(memory_mib):
            memory_mib.append(machine.resident_kib(server.pid) / 1024)
            if len(memory_mib) % SAMPLES_PER_LINE == 1:
                after_s, lives = SAMPLE_S * (len(memory_mib) - 1), receivers.so_far()
                print(
                    f"  after {after_s:.0f} s: {lives:,} callbacks, {memory_mib[-1]:.0f} MiB",
                    flush=True,
                )
    measured = load.finish(child)
    took_s, so_far = time.monotonic() - begin, receivers.so_far()
    assert measured.bad == 0, f"{measured.bad} creates were refused"
    machine.wait_until_quiet(server.pid)
    used_s = machine.cpu_s(server.pid) - before
    came = receivers.end()["w"]
    assert came.count == measured.requests, (
        f"{came.count} callbacks for {measured.requests} payments"
    )
    return LifeResult(took_s, came, came.count - so_far, used_s / came.count * 1e6, memory_mib)


_SELECT_LATE = """
    SELECT COUNT(*) FROM callbacks JOIN transactions USING (gateway_reference)
    WHERE callbacks.at - transactions.created_at > ?
"""


def _count_late(file: Path) -> int:
    """Return how many payments took longer than `LATE_MS`, by the times that the gateway has
    recorded."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        (late,) = connection.execute(_SELECT_LATE, [LATE_MS * clock.MILLISECOND]).fetchone()
    return int(late)


def _late_percent(lived: LifeResult) -> float:
    assert lived.late_percent is not None, "only a payment in SQLite has been looked at"
    return lived.late_percent


def _cells(lived: LifeResult) -> list[str]:
    return [
        f"{lived.per_s:,.0f}",
        f"{lived.came.p50_ms:.1f}",
        f"{lived.came.p99_ms:.1f}",
        f"{_late_percent(lived):.2f}",
        f"{lived.cpu_us:,.0f}",
        f"{lived.seconds / 60:.1f}",
    ]


def _middle(lived: LifeResult, third: int) -> list[float]:
    return lived.memory_mib[third : 2 * third] or lived.memory_mib
