"""A service of several processes in which every worker has a SQLite file of its own, a copy of the
prepared one: for tests of the processes themselves, which need no store that is shared.

    python service_of_files.py DIRECTORY WORKERS

While there is a file `refused` in the directory, no worker can open its store.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import structlog

from mmo_trio.cli.commands.serve import announce, tune_interpreter
from mmo_trio.cli.support.errors import run_reporting_errors
from mmo_trio.service import process, store_recognition
from mmo_trio.service.supervisor import supervise
from mmo_trio.settings import Settings, load_settings
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store


def main(directory: Path, workers: int) -> int:
    """Serve what `mmo.toml` and `brands.toml` in the directory say; the exit code."""
    prepared = directory / "prepared.db"

    def read() -> Settings:
        return load_settings(
            file=directory / "mmo.toml", presets={"database.url": f"sqlite:///{prepared}"}
        )

    def open_own(url: str, *, serving: bool, **_: object) -> AbstractAsyncContextManager[Store]:
        if (directory / "refused").exists():
            raise StoreUnusable("this is refused")
        own = directory / f"{os.getpid()}.db"
        shutil.copy(prepared, own)
        return open_store(f"sqlite:///{own}", serving=serving)

    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    vars(process)["open_store"] = open_own
    # One mark for several stores would be that of another store.
    vars(store_recognition)["find_mark_file"] = lambda _: None
    config = ServiceConfig(read(), brands_file=directory / "brands.toml", workers=workers)
    return supervise(
        config,
        read_settings=read,
        run_reporting_errors=run_reporting_errors,
        on_ready=announce,
        on_serving=tune_interpreter,
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
