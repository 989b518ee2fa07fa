"""Assigns cores, measures the resources of processes, and describes the machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SERVER_CORE, LOAD_CORE = 0, 1
"""The server has the first core; load and database share the second, unless the database is free on
both."""

QUIET_SHARE = 0.08
"""A process that uses less of its core than this is idle."""

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PACKAGES = (
    "trio",
    "h11",
    "attrs",
    "fastapi",
    "pydantic",
    "uvicorn",
    "uvloop",
    "httptools",
    "asyncpg",
    "msgspec",
)


def check() -> None:
    """End the program on a machine that is unsuitable."""
    if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
        sys.exit("The benchmarks need Linux and two cores.")


def pin(pid: int, core: int) -> None:
    """Keep a process and its later children on one core."""
    _set_cores(pid, {core})


def spread(pid: int) -> None:
    """Let a process and its later children use both cores."""
    _set_cores(pid, {SERVER_CORE, LOAD_CORE})


def _set_cores(pid: int, cores: set[int]) -> None:
    with suppress(
        FileNotFoundError, ProcessLookupError
    ):  # A process of the database may end at any time.
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cores)


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for each in found:
        try:
            for thread in os.listdir(f"/proc/{each}/task"):
                text = Path(f"/proc/{each}/task/{thread}/children").read_text()
                found += map(int, text.split())
        except FileNotFoundError:
            continue
    return found


def cpu_s(pid: int) -> float:
    """Return the processor seconds of a process and its children, including ended ones."""
    ticks = 0
    for each in family(pid):
        fields = _stat(each)
        ticks += sum(map(int, fields[11:13]))
        if each == pid:
            ticks += sum(map(int, fields[13:15]))
    return ticks * _TICK_S


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; zeros when the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return ["0"] * 50
    return text.rpartition(")")[2].split()


def resident_kib(pid: int) -> int:
    """Return the resident memory of one process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("Linux tells every process's resident memory")


def pss_mib(pid: int) -> float:
    """Return the memory of a process and its descendants, where what they share counts once."""
    kib = 0
    for member in family(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
            kib += sum(
                int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")
            )
    return kib / 1024


def wait_until_quiet(pid: int, *, pause_s: float = 0.3, timeout_s: float = 60.0) -> None:
    """Return once a process was idle in three pauses, or after the timeout, so that it does not
    disturb the next round."""
    until, quiet = time.monotonic() + timeout_s, 0
    while quiet < 3 and time.monotonic() < until:
        before, begin = cpu_s(pid), time.monotonic()
        time.sleep(pause_s)
        share = (cpu_s(pid) - before) / (time.monotonic() - begin)
        quiet = quiet + 1 if share <= QUIET_SHARE else 0


def raise_descriptor_limit(count: int) -> None:
    """Raise the limit of open files for thousands of connections; children inherit it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def describe() -> str:
    """Return the machine and the versions in one line."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [
        f"{os.cpu_count()} cores of {_processor()}",
        f"{memory_gib:.0f} GiB",
        f"Linux {platform.release()}",
        f"Python {platform.python_version()}",
        *(f"{name} {found}" for name in _PACKAGES if (found := _version(name))),
        _sqlite(),
    ]
    return ", ".join(parts)


def wrk() -> str | None:
    """Return the path of wrk, or None."""
    return shutil.which("wrk")


def load_generator() -> str:
    """Return the name of the load generator."""
    if wrk() is None:
        return (
            "bench/generator.py, which takes more than wrk of the core that it shares with the"
            " rivals'"
            " database: only ratios measured with wrk are fair to them"
        )
    results = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
    return " ".join(results.split()[:2])


def _processor() -> str:
    names: Iterable[str] = Path("/proc/cpuinfo").read_text().splitlines()
    found = [line.partition(":")[2].strip() for line in names if line.startswith("model name")]
    return found[0] if found else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _sqlite() -> str:
    import sqlite3

    return f"SQLite {sqlite3.sqlite_version}"
