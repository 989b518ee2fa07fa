"""Measures how busy a gateway at rest keeps its database."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench import machine, servers
from bench.options import Options
from bench.report import Goal, Outcome, Table

WORKERS = (1, 2, 4)
SETTLED_AFTER_S = 8.0
WATCHED_S = 30.0
GOAL_PERCENT = 1.0


def run(options: Options) -> Outcome:
    """Let gateways of one, two and four processes rest in turn."""
    rows, shares = [], []
    for workers in WORKERS:
        folder = options.folder / f"{workers}"
        folder.mkdir()
        with ExitStack() as stack:
            database = stack.enter_context(servers.postgres(folder))
            alone = _busy_percent(database.pid, WATCHED_S / 2)
            stack.enter_context(servers.node(folder / "node", database, workers=workers))
            time.sleep(SETTLED_AFTER_S)
            statements = _statements(database, f"workers_{workers}")
            busy = _busy_percent(database.pid, WATCHED_S)
            statements = (_statements(database, f"workers_{workers}") - statements) / WATCHED_S
            about_database = database.version()
        share = max(0.0, busy - alone) / workers
        shares.append(share)
        rows.append(
            [
                f"{workers}",
                f"{busy:.2f} %",
                f"{alone:.2f} %",
                f"{share:.2f} %",
                f"{statements / workers:.1f}",
            ]
        )
    table = Table(
        "processor time of the database, of one core",
        [
            "processes",
            "with the gateway",
            "alone before",
            "for each process",
            "transactions a second of each",
        ],
        rows,
        "how often each process looks for callbacks, for payments that are due, and for work of "
        "processes that died.",
    )
    return Outcome(
        "rest",
        "At rest",
        f"`mmo serve` with no requests on {about_database}: {WATCHED_S:g} s, from "
        f"{SETTLED_AFTER_S:g} s after READY.",
        [table],
        [Goal("database of a process at rest", GOAL_PERCENT, max(shares), " %", at_most=True)],
    )


def _busy_percent(pid: int, seconds: float) -> float:
    before, begin = machine.cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return (machine.cpu_s(pid) - before) / (time.monotonic() - begin) * 100


def _statements(database: servers.Database, name: str) -> float:
    """Return the transactions that a database has seen."""
    asked = f"select xact_commit + xact_rollback from pg_stat_database where datname = '{name}'"
    return float(database.ask(database.uri, asked))
