"""Measures what one payment costs PostgreSQL: processor time, log, round trips, statements and
locks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import ModuleType

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
from attrs import frozen

from bench import machine, merchants, servers
from bench.options import Options
from bench.report import Outcome, Table
from bench.suite.life import MERCHANTS, LifeResult, live_on
from bench.suite.waits import Watched, median_of, watch
from mmo_trio.storage.postgres import batch_load, batch_statements, commits, shared_locks
from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement
from mmo_trio.storage.postgres.statements import BrandStatement, InsertStatement

SECONDS = 12.0
LOADS: Sequence[tuple[str, float | None]] = (("50 a second", 50.0), ("as many as can be", None))
SHOWN = 14
STATEMENT_LENGTH = 72
BEGINNING = 30
_HORIZON = "SELECT at, (SELECT string_agg(brand"
_COMMIT_RECORD = "INSERT INTO batches (id, stamp)"
"""Part of each commit, unless it is a part of the one statement that writes the batch."""
PRIMARY_CORES, PRIMARY_SHARE = 16, 0.6

_PRELOADED = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track_utility": "on",
}
_WAL = "SELECT wal_bytes::bigint, wal_records, wal_fpi FROM pg_stat_wal"
_STATEMENTS = """
    SELECT regexp_replace(query, '\\s+', ' ', 'g'), calls, total_exec_time * 1000,
        wal_bytes::bigint, wal_records
    FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
    WHERE d.datname = current_database() AND query !~ 'pg_(stat|locks)' ORDER BY 3 DESC
"""


def _beginnings(*modules: ModuleType) -> Iterator[str]:
    """Yield how the statements of these modules begin, as pg_stat_statements shows them."""
    for module in modules:
        for each in vars(module).values():
            if isinstance(each, BrandStatement | InsertStatement):
                each = each.on_one_server
            elif isinstance(each, BoundStatement):
                each = each.statement
            if isinstance(each, PreparedStatement):
                yield _beginning(each.text.decode())


def _beginning(text: str) -> str:
    return " ".join(text.split())[:BEGINNING]


_SENT_WITH_ANOTHER = tuple(
    {*_beginnings(batch_load, batch_statements, commits, shared_locks)}
    - {_beginning(_COMMIT_RECORD), _beginning(_HORIZON)}
)
"""The statements of a batch, but for one of its load and one of its commit. One that writes all of
it begins otherwise."""


@frozen
class Statement:
    """Holds what the server counted of one statement."""

    text: str
    calls: int
    execution_us: float
    wal_bytes: int
    wal_records: int


@frozen
class Cost:
    """Holds what payments have cost the database."""

    lived: LifeResult
    cpu_us: float
    wal: tuple[int, int, int]
    """Bytes, records and full pages of the log."""
    statements: Sequence[Statement]
    watched: Watched

    def each(self, amount: float) -> float:
        """Return an amount for each payment."""
        return amount / self.lived.came.count

    def round_trips(self) -> int:
        """Return how often the gateway waited for an answer: what is sent together counts once."""
        return sum(
            each.calls for each in self.statements if not each.text.startswith(_SENT_WITH_ANOTHER)
        )


def run(options: Options) -> Outcome:
    """Lead payments through their lives at a steady rate, then as many as can be."""
    costs: dict[str, Cost] = {}
    keys = [merchants.key_of(number) for number in range(MERCHANTS)]
    for nth, (name, rate) in enumerate(LOADS):
        folder = options.folder / f"{nth}"
        folder.mkdir()
        with ExitStack() as stack:
            database = stack.enter_context(
                servers.postgres(folder, is_spread=True, settings=_PRELOADED)
            )
            dsn = database.fresh("capacity")
            connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            connection.execute("CREATE EXTENSION pg_stat_statements")
            receivers = stack.enter_context(merchants.receivers(folder, keys))
            server = stack.enter_context(
                servers.gateway(
                    folder,
                    brands=merchants.brands(MERCHANTS),
                    environment={"MMO_DATABASE_URL": dsn},
                )
            )
            costs[name] = _cost(
                connection,
                dsn,
                database.pid,
                partial(live_on, server, receivers, folder, SECONDS, rate=rate),
            )
            about_database = database.version()
    most = costs[LOADS[-1][0]]
    return Outcome(
        "capacity",
        "What a payment costs PostgreSQL",
        f"Direct pay-ins of {MERCHANTS} brands from the create to the delivered callback, "
        f"{SECONDS:g} s at each"
        f" load, one process; {about_database}, gateway, receivers and load share both cores. "
        f"Statements of"
        " the last load, by pg_stat_statements; those of the sampling itself are left out.",
        [_totals(costs), _reckoned(most), _by_statement(most)],
    )


def _cost(
    connection: psycopg.Connection, dsn: str, database_pid: int, live: Callable[[], LifeResult]
) -> Cost:
    connection.execute("SELECT pg_stat_statements_reset()")
    wal, cpu_s = _wal(connection), machine.cpu_s(database_pid)
    with watch(dsn) as watched:
        lived = live()
    used_s = machine.cpu_s(database_pid) - cpu_s
    bytes_, records, pages = (now - then for now, then in zip(_wal(connection), wal, strict=True))
    statements = [Statement(*row) for row in connection.execute(_STATEMENTS).fetchall()]
    return Cost(
        lived, used_s / lived.came.count * 1e6, (bytes_, records, pages), statements, watched
    )


def _wal(connection: psycopg.Connection) -> tuple[int, int, int]:
    time.sleep(1.2)  # Sessions report what they have done once a second.
    row = connection.execute(_WAL).fetchone()
    assert row is not None
    return row


def _totals(costs: Mapping[str, Cost]) -> Table:
    every = list(costs.values())
    rows = [
        ["payments a second, whole lives", *(f"{each.lived.per_s:,.0f}" for each in every)],
        ["processor time of the database, µs", *(f"{each.cpu_us:,.0f}" for each in every)],
        [
            "... of which statements, µs",
            *(f"{each.each(_execution_us(each)):,.0f}" for each in every),
        ],
        ["processor time of the gateway, µs", *(f"{each.lived.cpu_us:,.0f}" for each in every)],
        ["write-ahead log, bytes", *(f"{each.each(each.wal[0]):,.0f}" for each in every)],
        ["write-ahead log, records", *(f"{each.each(each.wal[1]):.1f}" for each in every)],
        ["write-ahead log, full pages", *(f"{each.each(each.wal[2]):.2f}" for each in every)],
        ["commits", *(f"{each.each(each.watched.commits):.2f}" for each in every)],
        ["rollbacks", *(f"{each.each(each.watched.rollbacks):.4f}" for each in every)],
        ["round trips", *(f"{each.each(each.round_trips()):.2f}" for each in every)],
        [
            "statements",
            *(f"{each.each(sum(one.calls for one in each.statements)):.1f}" for each in every),
        ],
        ["locks held by a commit, median", *(f"{median_of(each.watched.held)}" for each in every)],
        [
            "samples that wait for a lock, %",
            *(f"{each.watched.share('Lock'):.2f}" for each in every),
        ],
    ]
    return Table(
        "measured, for each payment",
        ["what", *costs],
        rows,
        "at the higher load the cores, which database, gateway, receivers and load share.",
    )


def _reckoned(cost: Cost) -> Table:
    by_processor = PRIMARY_CORES * PRIMARY_SHARE / cost.cpu_us * 1e6
    log_mb = by_processor * cost.each(cost.wal[0]) / 1e6
    rows = [
        [
            f"payments a second of {PRIMARY_CORES} cores that are {PRIMARY_SHARE:.0%} busy",
            f"{by_processor:,.0f}",
        ],
        ["write-ahead log then, MB a second", f"{log_mb:,.0f}"],
        ["a link to the standby for it, Gbit/s", f"{log_mb * 8 / 1000:.2f}"],
        ["cores of gateways for it", f"{by_processor * cost.lived.cpu_us / 1e6:.0f}"],
    ]
    return Table(
        "reckoned from the higher load", ["what", "amount"], rows, "see docs/internals/capacity.md."
    )


def _by_statement(cost: Cost) -> Table:
    rows = [
        [
            f"`{each.text[:STATEMENT_LENGTH]}`".replace("|", "/"),
            f"{cost.each(each.calls):.3f}",
            f"{each.execution_us / each.calls:.0f}",
            f"{cost.each(each.execution_us):.1f}",
            f"{cost.each(each.wal_bytes):,.0f}",
            f"{cost.each(each.wal_records):.1f}",
        ]
        for each in cost.statements[:SHOWN]
    ]
    return Table(
        "statements at the higher load, those that take most time first",
        [
            "statement",
            "for each payment",
            "µs each",
            "µs a payment",
            "log bytes a payment",
            "records a payment",
        ],
        rows,
        "the indexes with random keys.",
    )


def _execution_us(cost: Cost) -> float:
    return sum(each.execution_us for each in cost.statements)
