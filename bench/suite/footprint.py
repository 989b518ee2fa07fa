"""Measures the start-up time of a sandbox and its memory: idle, per idle connection, under load."""

from __future__ import annotations

import socket
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from bench import load, machine, servers
from bench.load import DIRECT
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.servers import ROOT, Server

ROOM = {
    "MMO_LIMITS_CONNECTIONS": "8192",
    "MMO_LIMITS_CONNECTIONS_PER_ADDRESS": "8192",
    "MMO_LIMITS_IDLE_TIMEOUT": "30m",
}


def run(options: Options) -> Outcome:
    """Start sandboxes in a row on one folder, then one with connections and one with load."""
    machine.raise_descriptor_limit(2 * options.idle + 1024)
    folder = options.folder / "sandbox"
    with servers.gateway(folder) as server:
        first_s = server.started_in_s
    starts = []
    for _ in range(max(5, options.rounds)):
        with servers.gateway(folder) as server:
            starts.append(server.started_in_s)
    again_s = statistics.median(starts)
    idle_kib = []
    for asks in (False, True):
        with servers.gateway(folder, environment=ROOM) as server:
            machine.wait_until_quiet(server.pid)
            rest_mib = machine.resident_kib(server.pid) / 1024
            idle_kib.append(_each_idle(server, options.idle, asks=asks))
    silent_kib, asked_kib = idle_kib
    under_load = _under_load(folder, max(5, options.seconds))
    start = Table(
        "from the start of the process to READY",
        ("start", "s"),
        [
            ["the first, which makes keys, authority and store", f"{first_s:.2f}"],
            [
                f"after that, median of {len(starts)} ({min(starts):.2f} to {max(starts):.2f})",
                f"{again_s:.2f}",
            ],
        ],
        "importing modules, most of them for the pages (Quart, Hypercorn) and for TLS "
        "(cryptography).",
    )
    memory = Table(
        "resident memory of the one process",
        ("when", "memory"),
        [
            ["at rest", f"{rest_mib:.0f} MiB"],
            [f"for each of {options.idle:,} idle connections, new", f"{silent_kib:.1f} KiB"],
            [
                f"for each of {options.idle:,} idle connections, after one request each",
                f"{asked_kib:.1f} KiB",
            ],
            [f"under {load.CONNECTIONS} connections' direct pay-ins", f"{under_load:.0f} MiB"],
        ],
        "Python and its modules; for a connection, its task, streams and buffers (the kernel's "
        "part isn't counted).",
    )
    return Outcome(
        "footprint",
        "Start-up and memory",
        "`mmo sandbox` as it is, in the clear. Idle connections are opened by one client and "
        "kept open.",
        [start, memory],
        [
            Goal("ready after a first start", 1.5, again_s, " s", at_most=True),
            Goal("an idle connection", 24, max(silent_kib, asked_kib), " KiB", at_most=True),
        ],
    )


def _each_idle(server: Server, count: int, *, asks: bool) -> float:
    """Return KiB per connection beyond the first hundred, which warm up; all connections are
    served."""
    parts = urlsplit(server.url)
    address = (parts.hostname or "", parts.port or 80)
    with ExitStack() as stack:
        for _ in range(100):
            _ask(stack.enter_context(socket.create_connection(address)), parts.netloc, server.key)
        machine.wait_until_quiet(server.pid)
        before = machine.resident_kib(server.pid)
        idle = []
        for _ in range(count):
            idle.append(stack.enter_context(socket.create_connection(address, timeout=30)))
            if asks:
                _ask(idle[-1], parts.netloc, server.key)
        machine.wait_until_quiet(server.pid)
        used = machine.resident_kib(server.pid) - before
        for each in idle:
            _ask(each, parts.netloc, server.key)
    return used / count


def _ask(opened: socket.socket, host: str, key: str) -> None:
    """Send one look-up of an unknown reference on this connection, which stays open."""
    target = f"{ROOT}/status/00000000000000000000000000"
    opened.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Api-Key: {key}\r\n\r\n".encode())
    assert opened.recv(65_536).startswith(b"HTTP/1.1 404")


def _under_load(folder: Path, seconds: int) -> float:
    """Return the maximum in MiB."""
    with servers.gateway(folder) as server:
        child = load.start(server, DIRECT, seconds=seconds)
        most = 0
        while child.poll() is None:
            most = max(most, machine.resident_kib(server.pid))
            time.sleep(0.1)
        assert load.finish(child).bad == 0
        return most / 1024
