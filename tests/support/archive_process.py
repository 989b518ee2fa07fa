"""Archives the payments of a SQLite file, and kills itself at the point that it is given: each call that writes to the
disk or to the store is two points, one before and one after it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from mmo_trio.admin import archiving
from mmo_trio.admin.retention_pace import RetentionPace
from mmo_trio.admin.retention_run import RetentionRun
from mmo_trio.storage.sql.retention_store import SqlRetentionStore
from mmo_trio.storage.sqlite import open_sqlite
from tests.support.aged_payments import NOW, retention_section


class Points:
    """Counts the points, and kills the process at one of them."""

    def __init__(self, killed_at: int) -> None:
        self.killed_at = killed_at
        self.passed = 0

    def here(self) -> None:
        self.passed += 1
        if self.passed == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.here()
            result = call(*args, **kwargs)
            self.here()
            return result

        return run

    def around_async(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def run(*args: Any, **kwargs: Any) -> Any:
            self.here()
            result = await call(*args, **kwargs)
            self.here()
            return result

        return run


async def main(path: str, archive: str, killed_at: int) -> None:
    """Archive everything, in small parts; print how many points there were."""
    points = Points(killed_at)
    archiving.PART_PAYMENTS, archiving.REMOVED_AT_ONCE, archiving.REMOVED_MAX = 4, 2, 2
    async with open_sqlite(path, serving=False) as store:
        os.fsync = points.around(os.fsync)
        os.rename = points.around(os.rename)
        for name in ("advance_archive", "remove_archived", "remove_history", "age"):
            setattr(SqlRetentionStore, name, points.around_async(getattr(SqlRetentionStore, name)))
        pace = RetentionPace(store.retention, share=1, holder="one")
        assert await pace.begin()
        report = await RetentionRun(
            store.retention, retention_section(Path(archive)), pace, lambda duty, changed: None
        ).run(NOW)
        assert report.archive_fault is None
    print(points.passed)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
