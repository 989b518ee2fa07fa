"""Measures the removal of old payments: how it slows others, how fast it is, and what it frees."""

from __future__ import annotations

import datetime as dt
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from bench import load, machine, old_payments, servers
from bench.generator import percentile
from bench.load import DIRECT
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import MMO, Server
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
_SIZES = """
    SELECT coalesce(parent.relname, c.relname), sum(pg_total_relation_size(c.oid))
    FROM pg_class AS c LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid LEFT JOIN pg_class AS parent ON
        parent.oid = i.inhparent
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
    GROUP BY 1 HAVING sum(pg_total_relation_size(c.oid)) > 1000000
    UNION ALL SELECT 'the database', pg_database_size(current_database())
"""
_IS_HELD = "SELECT count(*) FROM retention_lease WHERE held_until > extract(epoch FROM clock_timestamp()) * 1000000"
_COUNT = "SELECT count(*) FROM transactions WHERE created_at < %s"


def run(options: Options) -> Outcome:
    """Load a gateway on a store of old payments with and without retention in turn; then let retention work without
    pauses until its end, or for some minutes. The store is filled first, or was by an earlier run."""
    with ExitStack() as stack:
        if options.url is None:
            database = stack.enter_context(servers.postgres(options.folder))
            url, folder, database_pid = database.fresh("retention"), options.folder / "node", database.pid
            began = time.monotonic()
            old_payments.fill(url, options.rows, Instant(time.time_ns() // 1000))
            print(f"filled with {options.rows:,} payments in {time.monotonic() - began:.0f} s", flush=True)
        else:
            url, folder, database_pid = options.url, options.saved / "retention", None
        configuration = folder / "mmo.toml"
        if not configuration.exists():
            servers.configured(folder, url)
            with configuration.open("a") as file:
                file.write(_SETTINGS.format(archive=folder / "archive"))
        full, cutoff = _sizes(url), time.time_ns() // 1000 - old_payments.ARCHIVED_FROM
        old, rows = _ask(url, _COUNT, cutoff), _ask(url, _COUNT, time.time_ns() // 1000)
        print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {rows:,} payments, {old:,} of them old: {full}", flush=True)
        quiet, beside = list[list[float]](), list[list[float]]()
        with _serving(folder, configuration, database_pid) as server:
            for nth in range(options.rounds):
                run = secrets.token_hex(3)
                latencies = folder / "latencies"
                if nth % 2 == 0:
                    quiet.append(_load(server, options.seconds, f"q{run}", latencies))
                with _retention(configuration, url):
                    beside.append(_load(server, options.seconds, f"r{run}", latencies))
                if nth % 2:  # What is measured second sees the checkpoints of the first: each is first as often.
                    quiet.append(_load(server, options.seconds, f"q{run}", latencies))
                p99_ms = [round(percentile(each, 99), 1) for each in (quiet[-1], beside[-1])]
                print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} p99 ms without and with: {p99_ms}", flush=True)
        left, began = _ask(url, _COUNT, cutoff), time.monotonic()
        while (
            removed := _remove_at_once(configuration, options.minutes - (time.monotonic() - began) / 60)
        ) is not None:
            print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} old: {_ask(url, _COUNT, cutoff):,} {_sizes(url)}", flush=True)
            if removed:
                break
        still = _ask(url, _COUNT, cutoff)
        per_s = (left - still) / (time.monotonic() - began)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
        emptied = _sizes(url)
        if options.url is None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("VACUUM FULL")
        packed = _sizes(url)
        archived = sum(each.stat().st_size for each in (folder / "archive").rglob("*") if each.is_file())
    # p99 of one window varies by ten times with the disk alone, so it is that of all windows together.
    slowed = percentile([*chain(*beside)], 99) / percentile([*chain(*quiet)], 99)
    return Outcome(
        "retention",
        "Removing old payments",
        f"{rows:,} payments on PostgreSQL, each with its use of a reference, receipt, five lines of the"
        f" journal and a callback; {old:,} of them are old, and are masked and archived, {old - still:,} in the time"
        f" of the measurement. {RATE:g} creates a second meanwhile.",
        [
            Table(
                "creates beside it, in turn",
                ("", "requests", "p50 ms", "p99 ms", "median of the windows' p99 ms"),
                [_cells("without", quiet), _cells("while old payments are removed", beside)],
                "the tenth of the time that it may take.",
            ),
            Table(
                "sizes in MB",
                ("", "before", "after, VACUUM", "VACUUM FULL" if options.url is None else "after"),
                [
                    [name, *(f"{sizes.get(name, 0) / 1e6:,.0f}" for sizes in (full, emptied, packed))]
                    for name in sorted({*full, *emptied, *packed})
                ],
                "rows that stay: the uses of references, and the newer half.",
            ),
            Table(
                "archive",
                ("", ""),
                [
                    ["MB of the archive", f"{archived / 1e6:,.0f}"],
                    ["payments removed in a second, without pauses", f"{per_s:,.0f}"],
                ],
                "reading, masking and encoding each payment, and its removal from five tables.",
            ),
        ],
        [Goal("p99 beside retention : without", 1.2, slowed, " x", at_most=True)],
    )


def _remove_at_once(configuration: Path, minutes: float) -> bool | None:
    """Remove old payments without pauses, for a minute at most; return whether nothing is left to remove, and None when
    the time is over."""
    if minutes <= 0:
        return None
    child = subprocess.Popen([*MMO, "db", "retention", "--at-once", "--config", str(configuration)])
    try:
        code = child.wait(timeout=min(60.0, minutes * 60))
        assert code == 0, "the command has said why"
        return True
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        return False


def _sizes(url: str) -> Mapping[str, int]:
    """Return the bytes of the tables of payments with their partitions and indexes, and of the database."""
    with psycopg.connect(url) as connection:
        return {str(name): int(size) for name, size in connection.execute(_SIZES).fetchall()}


def _cells(name: str, windows: list[list[float]]) -> list[str]:
    times_ms = [*chain(*windows)]
    median_ms = statistics.median(percentile(each, 99) for each in windows)
    figures_ms = percentile(times_ms, 50), percentile(times_ms, 99), median_ms
    return [name, f"{len(times_ms):,}", *(f"{each:.1f}" for each in figures_ms)]


def _ask(url: str, statement: str, *values: object) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute(statement.encode(), values).fetchone()
    assert found is not None
    return int(found[0])


@contextmanager
def _serving(folder: Path, configuration: Path, database_pid: int | None) -> Iterator[Server]:
    """Run one worker on the filled database."""
    key = secrets.token_hex(12)
    (folder / "brands.toml").write_text(servers.BRAND.format(key=key))
    command = [*MMO, "serve", "--config", str(configuration), "--brands", str(folder / "brands.toml")]
    log, begin = folder / "gateway.log", time.monotonic()
    with servers.process(command, log=log, core=machine.SERVER_CORE) as child:
        words = dict(word.split("=", 1) for word in servers.first_line(child, log).split()[1:])
        took_s = time.monotonic() - begin
        yield Server("mmo-gateway, PostgreSQL", servers.OURS_DOES, words["api"], key, child.pid, took_s, database_pid)


def _load(server: Server, seconds: int, run: str, latencies: Path) -> list[float]:
    """Create payments for so long; return the time of each request in milliseconds."""
    child = load.start(
        server, DIRECT, seconds=seconds, connections=CONNECTIONS, rate=RATE, run=run, latencies=latencies
    )
    measured = load.finish(child)
    assert measured.bad == 0, f"{measured.bad} creates were refused"
    return [float(line) for line in latencies.read_text().split()]


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
