"""Measures slow readers of the largest pages of records: the memory they take, and how long others
wait."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

from attrs import frozen

from bench import machine, servers
from bench.generator import percentile
from bench.load import GONE
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import ROOT, Server

PAYMENTS_MOST = 5_000
LABELS = {f"label-{number}": "\N{GRINNING FACE}" * 1_000 for number in range(10)}
"""The largest labels (M4): 40 kB in UTF-8."""
CREATORS = 8
READERS = 100
HELD_S = 8.0
"""Seconds for which the readers do not read."""
PAUSE_S = 0.02
"""Seconds between two questions for health and two looks at the memory."""
RECORDS = f"{ROOT}/records?from=2020-01-01&to=2100-01-01&pageSize=5000"


@frozen
class Phase:
    """Holds what was seen for a time."""

    name: str
    peak_mib: float
    p50_ms: float
    p99_ms: float
    worst_ms: float


def run(options: Options) -> Outcome:
    """Fill a gateway with the largest payments, read one page, then let many readers stand
    still."""
    payments = min(options.rows, PAYMENTS_MOST)
    with servers.gateway(options.folder) as server:
        _create_all(server, payments)
        machine.wait_until_quiet(server.pid, timeout_s=60)
        alone = _watch(server, "alone", HELD_S)
        with ThreadPoolExecutor(1) as reader:
            reading = reader.submit(_read_page, server)
            one = _watch(server, "one page, read at once", 2.0)
            reading.result()
        with ExitStack() as readers:
            for _ in range(READERS):
                readers.enter_context(closing(_ask_and_do_not_read(server)))
            slow = _watch(server, f"{READERS} slow readers", HELD_S)
        time.sleep(2)
        after = _watch(server, "afterwards", 2.0)
    phases = (alone, one, slow, after)
    table = Table(
        f"{payments:,} payments with the largest labels; `/healthz` every {1_000 * PAUSE_S:g} ms "
        f"meanwhile",
        ("phase", "peak MiB", "p50 ms", "p99 ms", "worst ms"),
        [
            [p.name, f"{p.peak_mib:.0f}", f"{p.p50_ms:.1f}", f"{p.p99_ms:.1f}", f"{p.worst_ms:.1f}"]
            for p in phases
        ],
        "the bytes of a page, the pages that are read at once, and the bytes that wait to "
        "be written.",
    )
    return Outcome(
        "slow_readers",
        "Slow readers of records",
        f"{READERS} connections of one merchant ask for the largest page at once and read nothing "
        f"for {HELD_S:g} s.",
        [table],
        [
            Goal(
                f"memory that {READERS} slow readers take",
                150,
                slow.peak_mib - alone.peak_mib,
                " MiB",
                at_most=True,
            )
        ],
    )


def _create_all(server: Server, payments: int) -> None:
    parts = urlsplit(server.url)
    local = threading.local()

    def create(number: int) -> None:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        body = {
            "amount": {"value": 150, "currency": "KES"},
            "payer": {"id": "u1", "msisdn": "254712345678"},
            "country": "KE",
            "resultUrl": GONE,
            "merchantReference": f"large-{number}",
            "labels": LABELS,
        }
        headers = {"X-API-KEY": server.key, "Content-Type": "application/json"}
        text = json.dumps(body, ensure_ascii=False).encode()
        local.connection.request("POST", f"{ROOT}/direct/payin/mpesa_ke", text, headers)
        answer = local.connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status

    with ThreadPoolExecutor(CREATORS) as threads:
        list(threads.map(create, range(payments)))


def _read_page(server: Server) -> None:
    with closing(http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)) as connection:
        connection.request("GET", RECORDS, headers={"X-API-KEY": server.key})
        assert connection.getresponse().read()


def _ask_and_do_not_read(server: Server) -> socket.socket:
    parts = urlsplit(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((parts.hostname, parts.port))
    head = f"GET {RECORDS} HTTP/1.1\r\nHost: {parts.netloc}\r\nX-API-KEY: {server.key}\r\n\r\n"
    connection.sendall(head.encode("ascii"))
    return connection


def _watch(server: Server, name: str, seconds: float) -> Phase:
    """Ask for health all the time, and look at the memory."""
    waits_ms: list[float] = []
    peak_kib = 0
    until = time.monotonic() + seconds
    with closing(http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)) as connection:
        while time.monotonic() < until:
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            waits_ms.append(1_000 * (time.perf_counter() - began))
            peak_kib = max(peak_kib, machine.resident_kib(server.pid))
            time.sleep(PAUSE_S)
    return Phase(
        name, peak_kib / 1024, percentile(waits_ms, 50), percentile(waits_ms, 99), max(waits_ms)
    )
