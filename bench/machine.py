"""This machine: which core does what, what a process has used, and what to say of it all beside a
figure."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SERVER_CORE, LOAD_CORE = 0, 1
"""The server has the first for itself; load and database share the second."""

QUIET_SHARE = 0.08
"""A process that uses less of its core than this is at rest."""

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
    """End the program where nothing can be measured."""
    if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
        sys.exit("The benchmarks need Linux and two cores.")


def pin(pid: int, core: int) -> None:
    """Keep a process, and all that it will start, on one core."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})


def spread(pid: int) -> None:
    """Let a process, and all that it will start, use both cores."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {SERVER_CORE, LOAD_CORE})


def family(pid: int) -> list[int]:
    """A process and its children, and theirs."""
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
    """Seconds of processor that a process and its children have used, those that have ended
    included."""
    ticks = 0
    for each in family(pid):
        fields = _stat(each)
        ticks += sum(map(int, fields[11:13]))
        if each == pid:
            ticks += sum(map(int, fields[13:15]))
    return ticks * _TICK_S


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold spaces; all zeros when it has
    ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return ["0"] * 50
    return text.rpartition(")")[2].split()


def resident_kib(pid: int) -> int:
    """Resident memory of one process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("Linux tells every process's resident memory")


def wait_until_quiet(pid: int, *, patience_s: float = 60.0) -> None:
    """Return once a process is at rest, or after the patience: what it still does isn't the next
    one's to bear."""
    until, quiet = time.monotonic() + patience_s, 0
    while quiet < 3 and time.monotonic() < until:
        before, begin = cpu_s(pid), time.monotonic()
        time.sleep(0.3)
        share = (cpu_s(pid) - before) / (time.monotonic() - begin)
        quiet = quiet + 1 if share <= QUIET_SHARE else 0


def raise_descriptor_limit(wanted: int) -> None:
    """As many open files as thousands of connections need; children inherit it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def describe() -> str:
    """The machine and the versions, in one line."""
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
    """Where wrk is, when it is installed."""
    return shutil.which("wrk")


def load_generator() -> str:
    """What makes the load."""
    if wrk() is None:
        return (
            "bench/generator.py, which takes more than wrk of the core that it shares with the"
            " rivals'"
            " database: only ratios measured with wrk are fair to them"
        )
    told = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
    return " ".join(told.split()[:2])


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
