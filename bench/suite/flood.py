"""Measures the merchant API while the pages and the console are flooded with connections."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, frozen

from bench import load, machine, servers
from bench.load import DIRECT, LoadResult
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import HERE, Server
from mmo_trio.settings import Settings

IDLE = 1000
UNREAD = 50
"""Clients that ask for large pages and read nothing."""
ASKING = 50
"""Clients that ask again as soon as they are answered."""
PER_S = 100.0
CONNECTIONS = 8
ROUNDS_MOST = 5
SETTLED_S = 8.0
"""Longer than a closed connection lingers, and than the short idle timeout."""
SAMPLE_S = 0.05
PRODUCTION = {"MMO_LIMITS_PAGES_SHARE": str(Settings().limits.pages_share)}
"""A sandbox has no limit on the share of its pages."""


@frozen
class Round:
    """Holds the results of one round without and with the flood, on the same gateway."""

    alone: LoadResult
    flooded: LoadResult
    grown_mib: float
    left_mib: float

    @property
    def ratio(self) -> float:
        """Return the factor by which the flood raises the p99."""
        return self.flooded.p99_ms / self.alone.p99_ms


def run(options: Options) -> Outcome:
    """Run rounds, each on a gateway of its own."""
    machine.raise_descriptor_limit(IDLE + UNREAD + ASKING)
    rounds = []
    for number in range(min(options.rounds, ROUNDS_MOST)):
        with servers.gateway(options.folder / f"flood-{number}", environment=PRODUCTION) as server:
            rounds.append(_round(server, options.seconds))
    ratio = statistics.median(each.ratio for each in rounds)
    grown = statistics.median(each.grown_mib for each in rounds)
    table = Table(
        f"{PER_S:g} creates a second over {CONNECTIONS} connections; medians of "
        f"{len(rounds)} rounds",
        (
            "pages and console",
            "p50 ms",
            "p99 ms",
            "p99 ratio",
            "resident MiB more",
            "MiB left afterwards",
        ),
        [
            ["quiet", *_cells([each.alone for each in rounds]), "1.00 x", "", ""],
            [
                "flooded",
                *_cells([each.flooded for each in rounds]),
                f"{ratio:.2f} x (of each round: "
                f"{', '.join(f'{each.ratio:.2f}' for each in rounds)})",
                f"{grown:.0f}",
                f"{statistics.median(each.left_mib for each in rounds):.0f}",
            ],
        ],
        "the server's core: pages and merchants share one event loop.",
    )
    return Outcome(
        "flood",
        "A flood on the pages and the console",
        f"{IDLE:,} idle connections, {UNREAD} that ask for large pages and read nothing, and "
        f"{ASKING} that ask again as"
        " soon as they are answered, half of each on the pages and half on the console. What is "
        "closed comes again"
        " after a second.",
        [table],
        [
            Goal("API's p99 under the flood", 1.5, ratio, " x", at_most=True),
            Goal("memory that the flood takes", 120, grown, " MiB", at_most=True),
        ],
    )


def _round(server: Server, seconds: int) -> Round:
    _load(server, 1)
    alone = _load(server, seconds)
    before = machine.resident_kib(server.pid)
    with _flood(server), _peak(server) as peak:
        flooded = _load(server, seconds)
    time.sleep(SETTLED_S)
    left = machine.resident_kib(server.pid)
    return Round(alone, flooded, (peak.kib - before) / 1024, (left - before) / 1024)


def _load(server: Server, seconds: int) -> LoadResult:
    run = str(time.monotonic_ns())
    result = load.finish(
        load.start(server, DIRECT, seconds=seconds, run=run, connections=CONNECTIONS, rate=PER_S)
    )
    assert result.bad == 0
    return result


@contextmanager
def _flood(server: Server) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "bench.flooder",
        f"{server.pages}/openapi.json",
        f"{server.console}/metrics",
    ]
    command += ["--idle", str(IDLE), "--unread", str(UNREAD), "--asking", str(ASKING)]
    child = subprocess.Popen(
        command, cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    machine.pin(child.pid, machine.LOAD_CORE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "FLOODING\n"
        yield
    finally:
        child.stdin.close()
        child.wait(10)
        child.stdout.close()


@define
class _Peak:
    """Holds the largest resident size that was seen."""

    kib: int = 0


@contextmanager
def _peak(server: Server) -> Iterator[_Peak]:
    """Watch the resident size of the server while the block lasts."""
    peak, ended = _Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            peak.kib = max(peak.kib, machine.resident_kib(server.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _cells(results: list[LoadResult]) -> list[str]:
    return [
        f"{statistics.median(each.p50_ms for each in results):.1f}",
        f"{statistics.median(each.p99_ms for each in results):.1f}",
    ]
