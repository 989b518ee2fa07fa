"""Measures how soon creates are answered again after three times as many as the gateway can take,
and what it has created for clients who had given up."""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from attrs import frozen

from bench import load, machine, servers
from bench.impatient import PATIENCE_S
from bench.load import BODY, GONE, WEB
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import HERE, Database, Server
from bench.suite.creates import our_postgres

OTHERS = 3
"""Busy processes beside the server, which leave it a part of its core, so that three times its
capacity is not more than one client process can send."""
CAPACITY_S = 4.0
OVERLOAD, OVERLOAD_S = 3.0, 10.0
AFTER, AFTER_S = 0.9, 10.0
GOAL_S = 2.0
ANSWERED_SHARE = 0.99
"""Of the requests of a tenth of a second: from then on all are answered."""


@frozen
class Request:
    """Holds what became of one request."""

    due_s: float
    reference: str
    status: str
    """`0` where its client gave up, `none` where no client came through."""
    took_ms: float

    @property
    def is_created(self) -> bool:
        """Tell whether its client knows that it was created."""
        return self.status == "200"


@frozen
class Overloaded:
    """Holds what was seen on one store."""

    capacity_per_s: float
    answered_per_s: float
    """While it was overloaded."""
    refused: int
    """With a 503 or 429 in time."""
    given_up: int
    recovered_s: float
    """From the end of the overload until all are answered and stay so."""
    after_p99_ms: float
    created_for_nobody: int
    """For clients who had given up."""
    oldest_created_ms: float
    """The oldest request that was created, by its client's clock."""


def run(options: Options) -> Outcome:
    """Measure both stores."""
    found: dict[str, Overloaded] = {}
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(options.folder))
        sqlite = stack.enter_context(servers.gateway(options.folder / "sqlite"))
        on_postgres = stack.enter_context(our_postgres(options.folder, database))
        stack.enter_context(busy_core())
        for server, created in (
            (sqlite, lambda: _created_in_file(options.folder / "sqlite" / "gateway.db")),
            (on_postgres, lambda: _created_in_database(database)),
        ):
            found[server.name] = overload(server, options.folder, created)
    return Outcome(
        "overload",
        "After three times as much as it can",
        f"Web pay-ins, beside {OTHERS} busy processes on the server's core, first as many as 64"
        f" connections can, then {OVERLOAD:g} times as many for {OVERLOAD_S:g} s, then"
        f" {AFTER:g} of them. Each request comes when it is due, and its client closes the"
        f" connection after {PATIENCE_S:g} s without an answer.",
        [_table(found)],
        [
            Goal(
                f"all answered again after an overload ({name})",
                GOAL_S,
                seen.recovered_s,
                " s",
                at_most=True,
            )
            for name, seen in found.items()
        ],
    )


def overload(server: Server, folder: Path, created: Callable[[], set[str]]) -> Overloaded:
    """Measure the capacity of one gateway, then overload it."""
    alone = load.finish(load.start(server, WEB, seconds=CAPACITY_S, run="c"))
    capacity = alone.per_s
    results = folder / f"requests-{server.pid}"
    command = [sys.executable, "-m", "bench.impatient", server.url + WEB.path]
    stages = [f"{capacity * OVERLOAD}:{OVERLOAD_S}", f"{capacity * AFTER}:{AFTER_S}"]
    asked = ["--key", server.key, "--body", BODY.replace("RESULT_URL", GONE)]
    child = subprocess.Popen(
        [*command, *asked, "--to", str(results)] + [f"--stage={stage}" for stage in stages],
        env=os.environ | {"PYTHONPATH": str(HERE.parent)},
    )
    machine.pin(child.pid, machine.LOAD_CORE)
    assert child.wait() == 0
    machine.wait_until_quiet(server.pid)

    requests = [_request(line) for line in results.read_text().splitlines()]
    during = [request for request in requests if request.due_s < OVERLOAD_S]
    after = [request for request in requests if request.due_s >= OVERLOAD_S]
    recovered_s = _recovered_s(after)
    calm = [one.took_ms for one in after if one.due_s >= OVERLOAD_S + recovered_s]
    unknown = {one.reference for one in requests if one.status in ("0", "none")}
    return Overloaded(
        capacity,
        sum(one.is_created for one in during) / OVERLOAD_S,
        sum(one.status in ("429", "503") for one in during),
        sum(one.status in ("0", "none") for one in during),
        recovered_s,
        statistics.quantiles(calm, n=100)[-1] if len(calm) > 1 else float("inf"),
        len(unknown & created()),
        max((one.took_ms for one in requests if one.is_created), default=0.0),
    )


def _recovered_s(after: Sequence[Request]) -> float:
    """Return when all are answered and stay so, from the end of the overload."""
    recovered_s = 0.0
    tenths: dict[int, list[bool]] = {}
    for request in after:
        tenths.setdefault(int((request.due_s - OVERLOAD_S) * 10), []).append(request.is_created)
    for tenth, answered in tenths.items():
        if sum(answered) < ANSWERED_SHARE * len(answered):
            recovered_s = max(recovered_s, (tenth + 1) / 10)
    return recovered_s


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep the server's core busy with other processes."""
    command = [sys.executable, "-c", "while True: pass"]
    children = [subprocess.Popen(command) for _ in range(OTHERS)]
    try:
        for child in children:
            machine.pin(child.pid, machine.SERVER_CORE)
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def _request(line: str) -> Request:
    due_s, reference, status, took_ms = line.split()
    return Request(float(due_s), reference, status, float(took_ms))


_CREATED = "SELECT merchant_reference FROM reference_uses"


def _created_in_file(file: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return {reference for (reference,) in connection.execute(_CREATED)}


def _created_in_database(database: Database) -> set[str]:
    return set(database.ask(database.beside("gateway"), _CREATED).splitlines())


def _table(found: dict[str, Overloaded]) -> Table:
    return Table(
        "creates while overloaded, and afterwards",
        (
            "server",
            "capacity per s",
            "created per s while overloaded",
            "refused in time",
            "given up",
            "created for them",
            "all answered again after s",
            "p99 ms then",
            "oldest created ms",
        ),
        [
            [
                name,
                f"{seen.capacity_per_s:,.0f}",
                f"{seen.answered_per_s:,.0f}",
                f"{seen.refused:,}",
                f"{seen.given_up:,}",
                f"{seen.created_for_nobody:,}",
                f"{seen.recovered_s:.1f}",
                f"{seen.after_p99_ms:.0f}",
                f"{seen.oldest_created_ms:,.0f}",
            ]
            for name, seen in found.items()
        ],
        "the part of a core that is left to the server.",
    )
