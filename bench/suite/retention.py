"""Measures the removal of old payments: how it slows others, how fast it is, and what it frees."""

from __future__ import annotations

import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import load, machine, old_payments, servers
from bench.load import DIRECT, LoadResult
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import MMO, Database, Server
from mmo_sansio.values.clock import Instant

# isort: split
import psycopg

RATE = 60.0
"""Creates in a second: others that are to notice nothing."""
CONNECTIONS = 16
_SETTINGS = """
[retention]
personal_data = "380d"
archive_after = "380d"
archive_directory = "{archive}"
"""
_SIZE = "SELECT pg_database_size(current_database())"
_IS_HELD = "SELECT count(*) FROM retention_lease WHERE held_until > extract(epoch FROM clock_timestamp()) * 1000000"
_COUNT = "SELECT count(*) FROM transactions WHERE created_at < %s"


def run(options: Options) -> Outcome:
    """Fill a database, load a gateway with and without retention in turn, then let retention come to its end."""
    with servers.postgres(options.folder) as database:
        url = database.fresh("retention")
        now = Instant(time.time_ns() // 1000)
        began = time.monotonic()
        old_payments.fill(url, options.rows, now)
        print(f"filled with {options.rows:,} payments in {time.monotonic() - began:.0f} s", flush=True)
        folder = options.folder / "node"
        configuration = servers.configured(folder, url)
        with configuration.open("a") as file:
            file.write(_SETTINGS.format(archive=folder / "archive"))
        full = _ask(url, _SIZE)
        quiet, beside = list[LoadResult](), list[LoadResult]()
        with _serving(folder, configuration, database) as server:
            for nth in range(options.rounds):
                quiet.append(_load(server, options.seconds, f"q{nth}"))
                with _retention(configuration, url):
                    beside.append(_load(server, options.seconds, f"r{nth}"))
        print(f"p99 ms: {[each.p99_ms for each in quiet]} {[each.p99_ms for each in beside]}", flush=True)
        cutoff = int(now) - old_payments.ARCHIVED_FROM
        left, began = _ask(url, _COUNT, cutoff), time.monotonic()
        subprocess.run([*MMO, "db", "retention", "--at-once", "--config", str(configuration)], check=True)
        per_s = (left - _ask(url, _COUNT, cutoff)) / (time.monotonic() - began)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
        emptied = _ask(url, _SIZE)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM FULL")
        packed = _ask(url, _SIZE)
        archived = sum(each.stat().st_size for each in (folder / "archive").rglob("*") if each.is_file())
    slowed = statistics.median(with_it.p99_ms / without.p99_ms for with_it, without in zip(beside, quiet, strict=True))
    rows = options.rows
    return Outcome(
        "retention",
        "Removing old payments",
        f"{rows:,} payments of 760 days on PostgreSQL, each with its use of a reference, receipt, five lines of the"
        " journal and a callback; those of the older half are masked and archived."
        f" {RATE:g} creates a second meanwhile.",
        [
            Table(
                "creates beside it, in turn",
                ("", "p50 ms", "p99 ms"),
                [_cells("without", quiet), _cells("while old payments are removed", beside)],
                "the tenth of the time that it may take.",
            ),
            Table(
                "sizes",
                ("", "MB"),
                [
                    ["database, full", f"{full / 1e6:,.0f}"],
                    ["database, half of the payments archived, VACUUM", f"{emptied / 1e6:,.0f}"],
                    ["the same, VACUUM FULL", f"{packed / 1e6:,.0f}"],
                    ["archive", f"{archived / 1e6:,.0f}"],
                    ["payments removed in a second, without pauses", f"{per_s:,.0f}"],
                ],
                "the statements of each payment: it is masked, archived and deleted.",
            ),
        ],
        [Goal("p99 beside retention : without", 1.2, slowed, " x", at_most=True)],
    )


def _cells(name: str, rounds: list[LoadResult]) -> list[str]:
    return [
        name,
        f"{statistics.median(each.p50_ms for each in rounds):.1f}",
        f"{statistics.median(each.p99_ms for each in rounds):.1f}",
    ]


def _ask(url: str, statement: str, *values: object) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute(statement.encode(), values).fetchone()
    assert found is not None
    return int(found[0])


@contextmanager
def _serving(folder: Path, configuration: Path, database: Database) -> Iterator[Server]:
    """Run one worker on the filled database."""
    key = secrets.token_hex(12)
    (folder / "brands.toml").write_text(servers.BRAND.format(key=key))
    command = [*MMO, "serve", "--config", str(configuration), "--brands", str(folder / "brands.toml")]
    log, begin = folder / "gateway.log", time.monotonic()
    with servers.process(command, log=log, core=machine.SERVER_CORE) as child:
        words = dict(word.split("=", 1) for word in servers.first_line(child, log).split()[1:])
        took_s = time.monotonic() - begin
        yield Server("mmo-gateway, PostgreSQL", servers.OURS_DOES, words["api"], key, child.pid, took_s, database.pid)


def _load(server: Server, seconds: int, run: str) -> LoadResult:
    measured = load.finish(load.start(server, DIRECT, seconds=seconds, connections=CONNECTIONS, rate=RATE, run=run))
    assert measured.bad == 0, f"{measured.bad} creates were refused"
    return measured


@contextmanager
def _retention(configuration: Path, url: str) -> Iterator[None]:
    """Remove old payments in a process of its own, at its usual pace; the block begins once that has begun."""
    command = [*MMO, "db", "retention", "--config", str(configuration)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    machine.pin(child.pid, machine.LOAD_CORE)
    try:
        while not _ask(url, _IS_HELD):
            assert child.poll() is None
            time.sleep(0.2)
        yield
        assert child.poll() is None, "it ended before the load: fill in more rows"
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
