"""Tells a write-ahead log that belongs to its database file from one that was left beside it.

After a crash the log has the last commits. Where somebody puts a backup in the place of the
database file, and leaves the log, SQLite lays the one over the other: new pages beside old ones,
with payments missing between them. The log has the newest epoch, so no mark shows it.

So each log says from which epoch on it was written. All that was committed before that had been
copied into the database file: one that lacks it is an older one, but for what was committed in the
second before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.sqlite.open_files import log_name, log_path

# In the statements that note the log. The commit that begins a log has read the name of the one
# before, and the next one notes it: the epoch before that one is in the database file, unless it
# was raised by the commit that began the log. Its parameters are the log's name, whether the last
# commit may have raised the epoch, and the name once more.
NOTE_LOG: Final = "log_epoch = iif(log_name = ?, log_epoch, epoch - ?), log_name = ?"


def require_own_log(path: Path) -> None:
    """Raise StoreUnusable where the log is not that of this database file, before SQLite reads it:
    with its last connection it would copy the log into the file.

    It may be asked while another process serves the file: what is copied into that meanwhile only
    makes its epoch larger."""
    # Without a log the file has everything.
    if not log_name(path):
        return

    location = f"file:{quote(str(path))}?mode=ro"
    try:
        # Read-only, so that closing copies nothing; `immutable` reads the file without the log.
        with closing(sqlite3.connect(location, uri=True)) as whole:
            (begun,) = whole.execute("SELECT log_epoch FROM store_state").fetchone()
        with closing(sqlite3.connect(f"{location}&immutable=1", uri=True)) as file_alone:
            (epoch,) = file_alone.execute("SELECT epoch FROM store_state").fetchone()
    except (sqlite3.Error, TypeError):
        # A store that is being made, or one that can't be read, which its opening tells.
        return

    if epoch < begun:
        raise StoreUnusable(
            f"{log_path(path)} is the log of a newer file than {path}: if a backup was put in its "
            "place, move its -wal and -shm away, and run `mmo db restored`"
        )
