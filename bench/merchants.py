"""Merchants for the benchmarks: their brands, their receivers in another process, and what came
back to them."""

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
    """The API key of a merchant."""
    return f"the-key-of-merchant-{number}"


def brands(count: int) -> str:
    """The text of a brands.toml."""
    return "".join(
        f'[[brand]]\nid = "shop-{each}"\nname = "Shop {each}"\n'
        f'api_keys = ["{key_of(each)}"]\n{_METHOD}'
        for each in range(count)
    )


@frozen
class Came:
    """Callbacks that came to merchants with the same mark."""

    count: int
    p50_ms: float
    """From the result, as the callback itself states it."""
    p99_ms: float


@frozen
class Receivers:
    """Receivers that run."""

    well: str
    """A resultUrl that is answered."""
    hangs: str
    """One that isn't, ever."""
    counter: Path
    child: Popen[str]

    def so_far(self) -> int:
        """Callbacks that have come."""
        return int(COUNT.unpack(self.counter.read_bytes())[0])

    def end(self) -> dict[str, Came]:
        """Stop, and say what came, by mark."""
        printed, _ = self.child.communicate()
        line = next(each for each in printed.splitlines() if each.startswith("RECEIVED "))
        told = json.loads(line.removeprefix("RECEIVED "))
        return {mark: Came(**each) for mark, each in told.items()}


@contextmanager
def receivers(folder: Path, keys: Sequence[str]) -> Iterator[Receivers]:
    """On the second core. The folder is the gateway's, whose authority signs for them."""
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
    """The file for the load generator: key, resultUrl and mark of each."""
    file.write_text("".join(f"{' '.join(each)}\n" for each in merchants))
    return file
