"""Measures pages of records from a large table: their speed, memory, and effect on other
requests."""

from __future__ import annotations

import http.client
import statistics
import subprocess
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from attrs import frozen

from bench import load, machine, servers
from bench.generator import percentile
from bench.load import LoadResult, Requests
from bench.million import EVERY, our_million, their_million
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import ROOT, Server
from mmo_sansio.testing import START
from mmo_sansio.values import clock

SIZES = (50, 5_000)
OTHERS_PER_S = 100.0
OTHERS_CONNECTIONS = 8
LEAST_S = 10
"""Seconds of other requests for their p99."""


@frozen
class Page:
    """Holds the timing of one page."""

    first_byte_ms: float
    last_byte_ms: float
    octets: int


@frozen
class Paging:
    """Holds the results of consecutive pages and of simultaneous look-ups."""

    pages: list[Page]
    others: LoadResult
    before_mib: float
    after_mib: float
    peak_mib: float
    cpu_ms: float
    """Processor time of the server per page."""

    def last_byte_ms(self) -> float:
        """Median."""
        return statistics.median(each.last_byte_ms for each in self.pages)


def run(options: Options) -> Outcome:
    """Measure each server alone: consecutive pages on one connection, with look-ups at a low
    rate."""
    seconds = max(LEAST_S, options.seconds * options.rounds // 2)
    found: list[tuple[Server, int, Paging]] = []
    alone: dict[str, LoadResult] = {}
    with ExitStack() as stack:
        ours = our_million(options.saved, options.rows)
        theirs = stack.enter_context(their_million(options.saved, options.rows))
        contenders = [
            (stack.enter_context(servers.gateway(ours.folder)), ours.references),
            (
                stack.enter_context(servers.fastapi(options.folder, theirs.dsn, theirs.database)),
                theirs.references,
            ),
        ]
        for server, references in contenders:
            asked = load.look_ups(references)
            alone[server.name] = load.finish(_others(server, asked, seconds))
            for size in SIZES:
                found.append((server, size, _page(server, asked, size, options.rows, seconds)))
    table = Table(
        f"pages back to back on one connection over {options.rows:,} rows; medians",
        (
            "server",
            "pageSize",
            "first byte ms",
            "last byte ms",
            "p99 ms",
            "kB",
            "server ms each",
            "others' p50, p99 ms",
            "others alone",
            "resident MiB before, peak, after",
        ),
        [_row(server, size, paging, alone[server.name]) for server, size, paging in found],
        "the server's own core while it puts a page together; for the others, the longest step in"
        " which it does"
        " nothing else.",
    )
    mine, fastapi = (each[2] for each in found if each[1] == SIZES[-1])
    return Outcome(
        "records",
        "Pages of records",
        f"Windows that begin all over the table. Meanwhile {OTHERS_PER_S:g} look-ups a second from"
        f" {OTHERS_CONNECTIONS} other connections for {seconds} s, timed from when each was due."
        " Our objects also hold"
        " providerData, which the rival leaves null.",
        [table],
        [
            Goal(
                "records of 5,000 : FastAPI, to the last byte",
                3.0,
                fastapi.last_byte_ms() / mine.last_byte_ms(),
                " x",
            ),
            Goal("others' p99 meanwhile", 50, mine.others.p99_ms, " ms", at_most=True),
        ],
    )


def _others(server: Server, asked: Requests, seconds: float) -> subprocess.Popen[str]:
    return load.start(
        server, asked, seconds=seconds, connections=OTHERS_CONNECTIONS, rate=OTHERS_PER_S
    )


def _page(server: Server, asked: Requests, size: int, rows: int, seconds: float) -> Paging:
    before_mib = machine.resident_kib(server.pid) / 1024
    _one_page(server, size, rows, 0)
    others = _others(server, asked, seconds + 1)
    time.sleep(0.5)
    pages: list[Page] = []
    used_s, until = machine.cpu_s(server.pid), time.monotonic() + seconds
    while time.monotonic() < until:
        pages.append(_one_page(server, size, rows, len(pages) + 1))
    cpu_ms = (machine.cpu_s(server.pid) - used_s) / len(pages) * 1000
    measured = load.finish(others)
    assert measured.bad == 0
    return Paging(
        pages,
        measured,
        before_mib,
        machine.resident_kib(server.pid) / 1024,
        _peak_mib(server.pid),
        cpu_ms,
    )


def _one_page(server: Server, size: int, rows: int, number: int) -> Page:
    """Request one page; its window starts where enough rows follow."""
    skipped = number * 7919 * 13 % max(1, rows - size)
    begin, end = (_moment(START + count * EVERY) for count in (skipped, rows))
    target = f"{ROOT}/records?from={begin}&to={end}&pageSize={size}"
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.connect()
    since = time.perf_counter()
    connection.request("GET", target, headers={"X-Api-Key": server.key})
    answer = connection.getresponse()
    first = answer.read(1)
    first_at = time.perf_counter()
    octets = len(first) + len(answer.read())
    last_at = time.perf_counter()
    connection.close()
    assert answer.status == 200, answer.status
    assert octets > 200 * min(size, rows), octets
    return Page((first_at - since) * 1000, (last_at - since) * 1000, octets)


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / clock.SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _row(server: Server, size: int, paging: Paging, alone: LoadResult) -> list[str]:
    pages = paging.pages
    return [
        server.name,
        f"{size:,}",
        f"{statistics.median(each.first_byte_ms for each in pages):.1f}",
        f"{paging.last_byte_ms():.1f}",
        f"{percentile([each.last_byte_ms for each in pages], 99):.1f}",
        f"{pages[0].octets / 1000:,.0f}",
        f"{paging.cpu_ms:.1f}",
        f"{paging.others.p50_ms:.1f}, {paging.others.p99_ms:.1f}",
        f"{alone.p50_ms:.1f}, {alone.p99_ms:.1f}",
        f"{paging.before_mib:.0f}, {paging.peak_mib:.0f}, {paging.after_mib:.0f}",
    ]
