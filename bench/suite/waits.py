"""Measures what the processes of a gateway wait for in PostgreSQL, and what they roll back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
from attrs import Factory, define

from bench import servers
from bench.load import DIRECT, LoadResult, round_of
from bench.options import Options
from bench.report import Goal, Outcome, Table

WORKERS = (1, 2, 4)
ROUND_S = 8
INTERVAL_S = 0.01
SHOWN = 8
GOAL_LOCK_PERCENT, GOAL_ROLLBACKS = 1.0, 1.0

_SAMPLE = """
    SELECT a.wait_event_type, a.wait_event, left(regexp_replace(a.query, '\\s+', ' ', 'g'), 60),
        (SELECT string_agg(l.locktype || ' ' || l.mode || coalesce(
            ' of ' || l.relation::regclass::text, ''), ', ')
            FROM pg_locks AS l WHERE l.pid = a.pid AND NOT l.granted)
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND a.backend_type = 'client backend'
        AND a.state = 'active'
"""
_HELD = """
    SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid() AND granted
    AND locktype <> 'virtualxid'
        AND virtualtransaction IN (SELECT virtualtransaction FROM pg_locks
        WHERE locktype = 'advisory')
    GROUP BY virtualtransaction
"""
_TRANSACTIONS = (
    "SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = current_database()"
)


@define
class Watched:
    """Holds what was sampled during a load."""

    waits: Counter[str] = Factory(Counter)
    """Samples of active sessions by what they waited for."""
    locks: Counter[str] = Factory(Counter)
    """Samples of sessions that waited for a lock, by the lock and the statement."""
    held: list[int] = Factory(list)
    """Locks that a commit held."""
    questions: int = 0
    """Those of the sampling itself."""
    commits: int = 0
    rollbacks: int = 0

    def share(self, kind: str) -> float:
        """Return the percentage of samples whose wait begins with this word."""
        found = sum(count for wait, count in self.waits.items() if wait.startswith(kind))
        return 100 * found / max(1, self.waits.total())


def run(options: Options) -> Outcome:
    """Put direct pay-ins, with all that follows them, on gateways of one, two and four processes in
    turn."""
    found: dict[int, tuple[LoadResult, Watched]] = {}
    for workers in WORKERS:
        folder = options.folder / f"{workers}"
        folder.mkdir()
        with servers.postgres(folder, is_spread=True) as database:
            with servers.node(folder / "node", database, workers=workers) as server:
                with watch(database.beside(f"workers_{workers}")) as watched:
                    measured = round_of(server, DIRECT, seconds=ROUND_S, run="waits")
                found[workers] = measured, watched
            about_database = database.version()
    names = [
        name
        for name, _ in sum((each.waits for _, each in found.values()), Counter[str]()).most_common(
            SHOWN
        )
    ]
    columns = ["", *(f"{workers} process{'es' * (workers > 1)}" for workers in found)]
    rows = [
        ["creates a second", *(f"{measured.per_s:,.0f}" for measured, _ in found.values())],
        [
            "rollbacks for 1,000 payments",
            *(
                f"{each.rollbacks / measured.requests * 1000:.2f}"
                for measured, each in found.values()
            ),
        ],
        [
            "commits for each payment",
            *(f"{each.commits / m.requests:.2f}" for m, each in found.values()),
        ],
        [
            "locks held by a commit, median",
            *(f"{median_of(each.held)}" for _, each in found.values()),
        ],
        [
            "samples that wait for a lock",
            *(f"{each.share('Lock'):.2f} %" for _, each in found.values()),
        ],
        *([name, *(f"{each.share(name):.1f} %" for _, each in found.values())] for name in names),
    ]
    locks = [
        [f"{workers}", lock, f"{count}"]
        for workers, (_, e) in found.items()
        for lock, count in e.locks.items()
    ]
    most = found[WORKERS[-1]]
    return Outcome(
        "waits",
        "Waits and locks",
        f"Direct pay-ins with their submissions, results and callbacks, 64 connections for "
        f"{ROUND_S} s;"
        f" {about_database}, gateway and load share both cores. Active sessions are sampled every"
        f" {INTERVAL_S * 1000:g} ms.",
        [
            Table(
                "share of the samples of active sessions",
                columns,
                rows,
                "the disk, then the processors.",
            ),
            Table(
                "samples that waited for a lock",
                ["processes", "lock and statement", "samples"],
                locks,
                "nothing.",
            ),
        ],
        [
            Goal(
                f"{WORKERS[-1]} processes wait for a lock",
                GOAL_LOCK_PERCENT,
                most[1].share("Lock"),
                " %",
                True,
            ),
            Goal(
                f"rollbacks of {WORKERS[-1]} processes for 1,000 payments",
                GOAL_ROLLBACKS,
                most[1].rollbacks / most[0].requests * 1000,
                "",
                True,
            ),
        ],
    )


@contextmanager
def watch(dsn: str) -> Iterator[Watched]:
    """Sample the sessions of a database within the block, from a thread."""
    watched, is_over = Watched(), Event()

    def sample() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not is_over.wait(INTERVAL_S):
                for kind, event, statement, lock in connection.execute(_SAMPLE).fetchall():
                    watched.waits[f"{kind} {event}" if kind else "processor"] += 1
                    if lock:
                        watched.locks[f"{lock}: {statement}"] += 1
                watched.questions += 2
                watched.held += [count for (count,) in connection.execute(_HELD).fetchall()]

    with psycopg.connect(dsn, autocommit=True) as connection:
        before = _transactions(connection)
        thread = Thread(target=sample)
        thread.start()
        try:
            yield watched
        finally:
            is_over.set()
            thread.join()
        after = _transactions(connection)
    watched.commits, watched.rollbacks = (
        now - then for now, then in zip(after, before, strict=True)
    )
    watched.commits -= watched.questions


def _transactions(connection: psycopg.Connection) -> tuple[int, int]:
    time.sleep(1.2)  # Sessions report what they have done once a second.
    row = connection.execute(_TRANSACTIONS).fetchone()
    assert row is not None
    return row


def median_of(counts: list[int]) -> int:
    """Return the median of these counts; 0 when there are none."""
    return sorted(counts)[len(counts) // 2] if counts else 0
