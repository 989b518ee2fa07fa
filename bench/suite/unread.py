"""Measures how long a payment page takes while connections hold the largest page and do not read
it."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from urllib.parse import urlsplit

from attrs import frozen
from tests.support.unread_answers import unread_answers

from bench import machine, servers
from bench.load import BODY, GONE, WEB
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import Server
from bench.suite.flood import PRODUCTION
from mmo_trio.settings import Settings

COUNTS = (4, 40, 400)
LARGEST = "/openapi.json"
BUDGET_MIB = Settings().limits.pages_listener_limits.write_buffer_bytes / 2**20
BESIDES_MIB = 8
"""What 400 connections take besides the bytes that wait."""
ROUNDS_MOST = 5
ASKED = 20
"""Payment pages in each half of a round."""
PAUSE_S = 0.05
"""Between two of them, so that they stay below the pages' share of the process's time."""
TIMEOUT_S = 60.0


@frozen
class Round:
    """Holds what a payer and the process saw without and with the connections."""

    alone_ms: float
    held_ms: float
    grown_mib: float

    @property
    def ratio(self) -> float:
        """Return the factor by which the connections lengthen the wait."""
        return self.held_ms / self.alone_ms


def run(options: Options) -> Outcome:
    """Measure each number of connections in turn, on one gateway."""
    machine.raise_descriptor_limit(2 * max(COUNTS))
    with servers.gateway(options.folder, environment=PRODUCTION) as server:
        page = _payment_page(server)
        _first_byte_ms(page)
        turns = [
            [_round(server, page, count) for count in COUNTS]
            for _ in range(min(options.rounds, ROUNDS_MOST))
        ]
    found = dict(zip(COUNTS, zip(*turns, strict=True), strict=True))
    return Outcome(
        "unread",
        "Connections that do not read the largest page",
        f"So many connections, each from an address of its own and with a receive buffer of 2 KB, "
        f"ask for `{LARGEST}`"
        f" and read nothing. Once the process is quiet, a payer asks for a payment page every "
        f"{1_000 * PAUSE_S:g} ms;"
        f" medians of {len(turns)} rounds of {ASKED} pages, without and with the "
        f"connections in turn.",
        [
            Table(
                f"the first byte of a payment page; the bytes that wait may take "
                f"{BUDGET_MIB:g} MiB",
                ("connections", "alone ms", "with them ms", "ratio", "resident MiB more"),
                [_cells(count, rounds) for count, rounds in found.items()],
                "the server's core; beyond the budget the answers that are broken off.",
            )
        ],
        [
            *(
                Goal(
                    f"payment page with {count} connections that do not read",
                    2,
                    _ratio(rounds),
                    " x",
                    at_most=True,
                )
                for count, rounds in found.items()
            ),
            Goal(
                "memory that answers nobody reads take",
                BUDGET_MIB + BESIDES_MIB,
                max(each.grown_mib for rounds in found.values() for each in rounds),
                " MiB",
                at_most=True,
            ),
        ],
    )


def _round(server: Server, page: str, count: int) -> Round:
    machine.wait_until_quiet(server.pid)
    alone_ms, before_kib = _first_byte_ms(page), machine.resident_kib(server.pid)
    with unread_answers(server.pages + LARGEST, count, timeout_s=TIMEOUT_S):
        machine.wait_until_quiet(server.pid)
        held_ms, held_kib = _first_byte_ms(page), machine.resident_kib(server.pid)
    return Round(alone_ms, held_ms, (held_kib - before_kib) / 1024)


def _payment_page(server: Server) -> str:
    body = BODY.replace("RESULT_URL", GONE).replace("REFERENCE", "unread")
    with closing(
        http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT_S)
    ) as connection:
        headers = {"X-API-KEY": server.key, "Content-Type": "application/json"}
        connection.request("POST", WEB.path, body, headers)
        return str(json.loads(connection.getresponse().read())["pageUrl"])


def _first_byte_ms(page: str) -> float:
    """Return the median time from the request for a page to its first byte."""
    parts = urlsplit(page)
    head = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode(
        "ascii"
    )
    waits_ms = []
    for _ in range(ASKED):
        time.sleep(PAUSE_S)
        with socket.create_connection(
            (parts.hostname, parts.port), timeout=TIMEOUT_S
        ) as connection:
            began = time.perf_counter()
            connection.sendall(head)
            assert connection.recv(12) == b"HTTP/1.1 200"
            waits_ms.append(1_000 * (time.perf_counter() - began))
            while connection.recv(64 * 1024):
                pass
    return statistics.median(waits_ms)


def _ratio(rounds: Sequence[Round]) -> float:
    return statistics.median(each.ratio for each in rounds)


def _cells(count: int, rounds: Sequence[Round]) -> Sequence[str]:
    return [
        str(count),
        f"{statistics.median(each.alone_ms for each in rounds):.1f}",
        f"{statistics.median(each.held_ms for each in rounds):.1f}",
        f"{_ratio(rounds):.2f} x (of each round: "
        f"{', '.join(f'{each.ratio:.2f}' for each in rounds)})",
        f"{statistics.median(each.grown_mib for each in rounds):.1f}",
    ]
