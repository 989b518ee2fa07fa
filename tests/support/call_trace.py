"""Traces which task, or thread, enters which files of the source while a gateway serves."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import trio
from attrs import define

import mmo_trio

# Where the packages were imported from: tests play what is installed.
SOURCE = Path(mmo_trio.__file__).parents[1]


class Entry(NamedTuple):
    """Names a file that was entered, and who entered it."""

    task: str
    """The name of a task of Trio, or of a thread."""
    file: str
    """The path of a module from the root of the source, such as `mmo_trio/engine/engine.py`."""


@define
class CallTrace:
    """Counts the calls of functions of the source, by who calls and by file.

    A file is entered when a function, property, generator or comprehension of it runs; an import,
    and reading an attribute or a constant, enters nothing. What is kept in a cache isn't entered
    again."""

    _calls: Counter[Entry] | None = None
    """None while nothing is recorded."""
    _until: Entry | None = None
    """What ends the present record."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch each call of this thread, and of those that begin within the block."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        yield
        sys.setprofile(None)
        threading.setprofile(None)

    @contextmanager
    def recording(self, *, until: Entry | None = None) -> Iterator[Counter[Entry]]:
        """Record the calls within the block, or only those before the first one of this kind."""
        self._calls = calls = Counter[Entry]()
        self._until = until
        yield calls
        self._calls = None

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        calls = self._calls
        if event != "call" or calls is None or frame.f_code.co_name == "<module>":
            return
        file = _file_of(frame.f_code.co_filename)
        if file is None:
            return
        try:
            task = trio.lowlevel.current_task().name
        except RuntimeError:
            task = threading.current_thread().name
        entry = Entry(task, file)
        if entry == self._until:
            self._calls = None
        else:
            calls[entry] += 1


@cache
def _file_of(file_name: str) -> str | None:
    """Return the path of a module from the root of the source; None for what is none of its."""
    file = Path(file_name)
    if SOURCE not in file.parents or file.suffix != ".py":
        return None
    inner = file.relative_to(SOURCE)
    # Where they are installed, the packages of others stand beside them.
    if not inner.parts[0].startswith("mmo_"):
        return None
    return inner.as_posix()
