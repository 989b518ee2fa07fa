"""Runs `mmo` and ends this process without warning at a moment of its writing: before or after a
commit, or a step by which a file takes the place of another.

python -m tests.support.killed_command MOMENT db restored --config mmo.toml"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from mmo_trio.cli.group import main
from mmo_trio.storage.sqlite.writer import SqliteWriter


def kill_at(moment: int) -> None:
    """Let this process end at that moment, the first of which is 0."""
    moments = count()

    def note_moment() -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def surround(owner: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def call_surrounded(*arguments: Any, **options: Any) -> Any:
            note_moment()
            result = call(*arguments, **options)
            note_moment()
            return result

        setattr(owner, name, call_surrounded)

    surround(SqliteWriter, "_commit")
    surround(Path, "replace")
    surround(Path, "unlink")
    surround(os, "fsync")


if __name__ == "__main__":
    kill_at(int(sys.argv.pop(1)))
    main(prog_name="mmo")
