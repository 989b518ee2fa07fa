"""Files in one directory, by which the processes of one service exchange their metrics.

Each process writes its file every few seconds, and exports the metrics of all, as a scrape can't
choose its process."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import structlog
import trio
from attrs import frozen

from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

WRITE_INTERVAL_S: Final = 5.0

# A file that is older belongs to a process that has ended.
STALE_AFTER_S: Final = 20.0

SUFFIX: Final = ".prom"


@frozen
class ProcessMetricsFiles:
    """Writes the metrics of one process and reads those of the others."""

    directory: Path
    process_name: str
    """The name of this process in the service, `worker-1`; its replacement has the same name."""

    async def run(self, render: Callable[[], Awaitable[bytes]]) -> None:
        """Write the metrics every few seconds until cancelled, also after a failure."""
        while True:
            try:
                self.write(await render())
            except OSError as error:
                logger.warning("metrics_write_failed", error=error.strerror, once_a_minute=True)
            except Exception as error:
                logger.error(
                    "metrics_write_failed", fault=describe_fault(error), once_a_minute=True
                )
            await trio.sleep(WRITE_INTERVAL_S)

    def write(self, text: bytes) -> None:
        """Write the metrics of this process. Raises OSError."""
        # Replaced as a whole: another process may read it now.
        draft = self.directory / f"{self.process_name}.new"
        draft.write_bytes(text)
        os.replace(draft, self.directory / f"{self.process_name}{SUFFIX}")

    def read_others(self) -> Iterator[str]:
        """Yield the metrics of the other processes that are alive."""
        for file in sorted(self.directory.glob(f"*{SUFFIX}")):
            try:
                # Its own file is older than what it counts now.
                if (
                    file.stem != self.process_name
                    and time.time() - file.stat().st_mtime < STALE_AFTER_S
                ):
                    yield file.read_text(encoding="utf-8")
            except OSError:
                continue  # The file was removed meanwhile.
