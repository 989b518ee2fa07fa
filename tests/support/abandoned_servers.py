"""Ends the servers that a process of tests has left behind because it was killed, and removes their
folders.

The process starts this module once, as a program, and keeps a pipe to it open; nobody can take that
from it but its end. The program gets the folders of servers through the pipe, and ends whatever
still runs in one of them."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_PAUSE_S = 0.05
_ATTEMPTS = 200


def end_with_this_process(folder: Path) -> None:
    """When this process has ended, and the folder is still there: kill all that runs in the folder,
    and remove it."""
    pipe = _watcher().stdin
    assert pipe is not None
    pipe.write(f"{folder}\n".encode())
    pipe.flush()


@functools.cache
def _watcher() -> subprocess.Popen[bytes]:
    """Return the program, in a session of its own: a key that interrupts the tests doesn't
    interrupt it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _processes_in(folder: Path) -> Iterator[int]:
    """Yield the ids of processes whose working directory is in this folder, as that of each process
    of a PostgreSQL."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if Path(os.readlink(each / "cwd").removesuffix(" (deleted)")).is_relative_to(folder):
                yield int(each.name)


def _end_servers(folders: Sequence[Path]) -> None:
    for folder in folders:
        for _ in range(_ATTEMPTS):
            running = list(_processes_in(folder))
            if not running:
                break
            for pid in running:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_S)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    named = [
        Path(line.rstrip("\n")) for line in sys.stdin
    ]  # To the end of the process that holds the pipe.
    _end_servers([each for each in named if each.exists()])
