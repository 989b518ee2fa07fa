"""Runs `mmo` under a wall clock that a test sets wrong: `python -m tests.support.wrong_clock FILE
ARGUMENT...`.

FILE contains by how many seconds the wall clock is ahead; it is read again at each look at the
clock. The other clocks of the machine stay as they are, as they do when a time server or a person
sets the clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from attrs import frozen


@frozen
class ClockError:
    """How far a process's wall clock is ahead, as a test sets it."""

    file: Path

    def set(self, ahead: timedelta = timedelta(0)) -> None:
        """Set the clock this far ahead of true time; a negative span sets it back."""
        draft = self.file.with_suffix(".new")
        draft.write_text(str(ahead.total_seconds()), encoding="ascii")
        draft.replace(self.file)

    @property
    def command(self) -> Sequence[str]:
        """The command that runs `mmo` under this clock."""
        return (sys.executable, "-m", "tests.support.wrong_clock", str(self.file))


def main(file: Path) -> None:
    """Replace Python's readings of the wall clock, then run `mmo` with the other arguments."""
    true_seconds, true_nanoseconds = time.time, time.time_ns

    def ahead_s() -> float:
        return float(file.read_text(encoding="ascii"))

    time.time = lambda: true_seconds() + ahead_s()
    time.time_ns = lambda: true_nanoseconds() + int(ahead_s() * 1e9)
    sys.argv[0] = "mmo"
    import_module("mmo_trio.cli.group").main()


if __name__ == "__main__":
    main(Path(sys.argv.pop(1)))
