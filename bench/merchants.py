"""Provides merchants for the benchmarks: brands, receivers in another process, and received
callbacks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

from attrs import frozen

from bench import machine
from bench.receivers import COUNT
from bench.servers import HERE, first_line, process
from mmo_trio.sandbox.local_ca import ensure_authority

_METHOD = """
[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "KE"
flows = ["direct/payin"]
limits.KES = { min = "10", max = "150000" }
"""


def key_of(number: int) -> str:
    """Return the API key of a merchant."""
    return f"the-api-key-of-merchant-{number}"


def brands(count: int) -> str:
    """Return the text of a brands.toml."""
    return "".join(
        f'[[brand]]\nid = "shop-{each}"\nname = "Shop {each}"\napi_keys = '
        f'["{key_of(each)}"]\n{_METHOD}'
        for each in range(count)
    )


@frozen
class ReceivedCallbacks:
    """Counts the callbacks to merchants with the same mark."""

    count: int
    p50_ms: float
    """Seconds since the result, whose time the callback states."""
    p99_ms: float


@frozen
class Receivers:
    """Holds running receivers."""

    well: str
    """A resultUrl with an answering receiver."""
    hangs: str
    """A resultUrl with a receiver that never answers."""
    counter: Path
    child: Popen[str]

    def so_far(self) -> int:
        """Return the number of received callbacks."""
        return int(COUNT.unpack(self.counter.read_bytes())[0])

    def end(self) -> dict[str, ReceivedCallbacks]:
        """Stop, and return the received callbacks by mark."""
        printed, _ = self.child.communicate()
        line = next(each for each in printed.splitlines() if each.startswith("RECEIVED "))
        results = json.loads(line.removeprefix("RECEIVED "))
        return {mark: ReceivedCallbacks(**each) for mark, each in results.items()}


@contextmanager
def receivers(folder: Path, keys: Sequence[str]) -> Iterator[Receivers]:
    """Run receivers on the second core; the authority in the gateway's folder issues their
    certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    ensure_authority(folder)
    counter, log = folder / "callbacks", folder / "receivers.log"
    command = [sys.executable, "-m", "bench.receivers", str(folder), str(counter), *keys]
    path = os.pathsep.join(
        each for each in (str(HERE.parent), os.environ.get("PYTHONPATH")) if each
    )
    with process(
        command, log=log, core=machine.LOAD_CORE, environment={"PYTHONPATH": path}
    ) as child:
        words = first_line(child, log).split()
        yield Receivers(words[1], words[3], counter, child)


def write(file: Path, merchants: Sequence[tuple[str, str, str]]) -> Path:
    """Write the file for the load generator, with key, resultUrl and mark of each merchant."""
    file.write_text("".join(f"{' '.join(each)}\n" for each in merchants))
    return file
