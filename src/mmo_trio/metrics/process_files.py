"""Where the processes of one service see each other's figures: a directory with a file for each, written anew every few
seconds. Whoever is asked tells of all, as nobody can choose which process answers."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import structlog
import trio
from attrs import frozen

logger = structlog.get_logger(__name__)

WRITE_INTERVAL_S: Final = 5.0
STALE_AFTER_S: Final = 20.0
"""Figures that are older are those of a process that has ended."""
SUFFIX: Final = ".prom"


@frozen
class ProcessMetricsFiles:
    """One process's place on it."""

    directory: Path
    process_name: str
    """Of this process among those of the service: `worker-1`. Whoever replaces it has its place."""

    async def run(self, render: Callable[[], Awaitable[bytes]]) -> None:
        """Write this text again and again, until cancelled; what can't be written is tried again."""
        while True:
            try:
                self.write(await render())
            except OSError as error:
                logger.warning("metrics_write_failed", error=error.strerror)
            await trio.sleep(WRITE_INTERVAL_S)

    def write(self, text: bytes) -> None:
        """Write this process's figures; raises OSError."""
        made = self.directory / f"{self.process_name}.new"
        made.write_bytes(text)
        os.replace(made, self.directory / f"{self.process_name}{SUFFIX}")

    def read_others(self) -> Iterator[str]:
        """The figures of the other processes that live."""
        for file in sorted(self.directory.glob(f"*{SUFFIX}")):
            try:
                if (
                    file.stem != self.process_name
                    and time.time() - file.stat().st_mtime < STALE_AFTER_S
                ):
                    yield file.read_text(encoding="utf-8")
            except OSError:
                continue  # It has just been taken away.
