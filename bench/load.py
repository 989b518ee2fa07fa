"""Puts load on a server from the second core and reads rate, latency, and processor time per
request."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from bench import machine
from bench.servers import HERE, ROOT, Server

CONNECTIONS = 64
GONE = "https://127.0.0.1:9/results"
"""A resultUrl without a listener: callbacks fail, and the brand's breaker soon opens."""

BODY = (
    '{"amount":{"value":100.00,"currency":"KES"},"payer":{"id":"u1","msisdn":"254712345678"},'
    '"country":"KE","resultUrl":"RESULT_URL","merchantReference":"REFERENCE"}'
)


@frozen
class Requests:
    """Describes the repeated request."""

    path: str
    """The target, or the prefix of each reference of a look-up."""
    references: Path | None = None
    """The file of references to look up, one in each line; None for creates."""


DIRECT = Requests(f"{ROOT}/direct/payin/mpesa_ke")
WEB = Requests(f"{ROOT}/web/payin/mpesa_ke")


def look_ups(references: Path) -> Requests:
    """Return look-ups by gatewayReference."""
    return Requests(f"{ROOT}/status/", references)


@frozen
class LoadResult:
    """Holds the results of one round of load."""

    per_s: float
    p50_ms: float
    p99_ms: float
    bad: int
    """Requests without a 2xx."""
    requests: int
    cpu_us: float = 0.0
    """Processor time of the server per request, including its later work."""
    database_cpu_us: float = 0.0
    """Processor time of a database in its own processes, per request."""


def read_result(printed: str) -> LoadResult:
    """Parse the line `RESULT …` of either generator. Raises ValueError when it is missing."""
    for line in printed.splitlines():
        if line.startswith("RESULT "):
            per_s, p50_ms, p99_ms, bad, requests = line.split()[1:]
            return LoadResult(float(per_s), float(p50_ms), float(p99_ms), int(bad), int(requests))
    raise ValueError(f"no RESULT in {printed!r}")


def round_of(
    server: Server,
    asked: Requests,
    *,
    seconds: int,
    run: str,
    connections: int = CONNECTIONS,
    pause_s: float = 0.3,
) -> LoadResult:
    """Run one round, with wrk if it is installed, and wait until the server has been idle for three
    pauses. No request may fail."""
    before = _cpu(server)
    if machine.wrk() is None:
        child = start(server, asked, seconds=seconds, run=run, connections=connections)
    else:
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s"]
        environment = {
            "LOAD_KEY": server.key,
            "LOAD_RUN": run,
            "LOAD_PATH": asked.path,
            "LOAD_BODY": BODY.replace("RESULT_URL", GONE),
        }
        if asked.references is not None:
            environment["LOAD_REFERENCES"] = str(asked.references)
        child = _start([*command, "-s", str(HERE / "requests.lua"), server.url], environment)
    if server.is_spread:
        machine.spread(child.pid)
    measured = finish(child)
    assert measured.bad == 0, f"{server.name} refused {measured.bad} of {measured.requests}"
    machine.wait_until_quiet(server.pid, pause_s=pause_s)
    used, database_used = (after - was for after, was in zip(_cpu(server), before, strict=True))
    return with_cpu(measured, used, database_used)


def with_cpu(measured: LoadResult, used_s: float, database_used_s: float = 0.0) -> LoadResult:
    """Return the results with the processor time per request."""
    count = max(1, measured.requests)
    return LoadResult(
        measured.per_s,
        measured.p50_ms,
        measured.p99_ms,
        measured.bad,
        measured.requests,
        used_s / count * 1e6,
        database_used_s / count * 1e6,
    )


def start(
    server: Server,
    asked: Requests,
    *,
    seconds: float,
    run: str = "1",
    connections: int = CONNECTIONS,
    rate: float | None = None,
    merchants: Path | None = None,
    window: tuple[int, Path] | None = None,
    until: Path | None = None,
    latencies: Path | None = None,
) -> subprocess.Popen[str]:
    """Start the project's own generator in the background; `finish` waits for it. `window`: the
    number of payments and the file that counts them. `until`: a file whose appearance ends the load
    early. `latencies`: the file that the time of each request is written to, in milliseconds."""
    command = [sys.executable, "-m", "bench.generator", server.url + asked.path]
    command += ["--connections", str(connections), "--seconds", str(seconds)]
    command += ["--key", server.key, "--run", run]
    if asked.references is not None:
        command += ["--references", str(asked.references)]
    else:
        body = BODY if merchants else BODY.replace("RESULT_URL", GONE)
        command += ["--body", body]
    if merchants is not None:
        command += ["--merchants", str(merchants)]
    if rate is not None:
        command += ["--rate", str(rate)]
    if window is not None:
        command += ["--window", str(window[0]), "--counter", str(window[1])]
    if until is not None:
        command += ["--until", str(until)]
    if latencies is not None:
        command += ["--latencies", str(latencies)]
    return _start(command, {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *_python_path()])})


def finish(child: subprocess.Popen[str]) -> LoadResult:
    """Wait for the generator and return its results."""
    printed, _ = child.communicate()
    assert child.returncode == 0, printed
    return read_result(printed)


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, text=True
    )
    machine.pin(child.pid, machine.LOAD_CORE)
    return child


def _python_path() -> list[str]:
    return os.environ["PYTHONPATH"].split(os.pathsep) if os.environ.get("PYTHONPATH") else []


def _cpu(server: Server) -> tuple[float, float]:
    database = 0.0 if server.database_pid is None else machine.cpu_s(server.database_pid)
    return machine.cpu_s(server.pid), database


def median(rounds: Sequence[LoadResult]) -> LoadResult:
    """Return the median of each figure."""
    return LoadResult(
        statistics.median(each.per_s for each in rounds),
        statistics.median(each.p50_ms for each in rounds),
        statistics.median(each.p99_ms for each in rounds),
        sum(each.bad for each in rounds),
        sum(each.requests for each in rounds),
        statistics.median(each.cpu_us for each in rounds),
        statistics.median(each.database_cpu_us for each in rounds),
    )


def ratio(ours: Sequence[LoadResult], theirs: Sequence[LoadResult]) -> float:
    """Return the factor by which the first server is faster: the median over parallel rounds."""
    return statistics.median(a.per_s / b.per_s for a, b in zip(ours, theirs, strict=True))
