"""Writes log lines to standard error without ever holding up the gateway.

A pipe that nobody reads blocks who writes to it. So lines wait in a bounded queue, and a thread of their own writes
them; what finds the queue full is dropped and counted."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

QUEUE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of lines that may wait: some 4,000 lines."""
FLUSH_TIMEOUT_S: Final = 1.0
"""Seconds that the end of a process waits for its last lines to be written."""
ATOMIC_BYTES: Final = select.PIPE_BUF
"""Bytes that a pipe takes at once when it says that it is writable."""

_STDERR: Final = 2


class LogOutput:
    """Takes lines from any thread of this process."""

    def __init__(self, descriptor: int | None = None, *, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """Write to this descriptor; by default to standard error, if the process has one."""
        self._descriptor = _stderr_descriptor() if descriptor is None else descriptor
        self._bytes_max = bytes_max
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._unreported = 0
        self.dropped = 0
        """Lines that were not written since the start."""

    def write(self, line: str) -> None:
        """Take a line; never waits for who reads it."""
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        if self._thread is None:
            self._write_if_ready(data)
            return
        with self._changed:
            if self._bytes + len(data) > self._bytes_max and self._lines:
                self._drop(1)
                return
            self._lines.append(data)
            self._bytes += len(data)
            self._changed.notify()

    @contextmanager
    def in_background(self, report_dropped: Callable[[int], None]) -> Iterator[None]:
        """Write in a thread while the block lasts; then wait a limited time for the last lines.

        `report_dropped` is called in that thread, with the number of lines that were dropped, once lines are written
        again. Without the thread, e.g. in a process that forks, a line that cannot be written at once is dropped."""
        thread = threading.Thread(target=self._run, args=(report_dropped,), name="log output", daemon=True)
        self._is_ending = False
        self._thread = thread
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_ending = True
                self._changed.notify()
            thread.join(FLUSH_TIMEOUT_S)
            self._thread = None

    def _run(self, report_dropped: Callable[[int], None]) -> None:
        while (lines := self._next_lines()) is not None:
            if not self._write_all(b"".join(lines)):
                self._drop(len(lines))
            elif self._unreported:
                with self._changed:
                    number, self._unreported = self._unreported, 0
                report_dropped(number)

    def _next_lines(self) -> list[bytes] | None:
        """Wait for lines and take them; None at the end."""
        with self._changed:
            while not self._lines:
                if self._is_ending:
                    return None
                self._changed.wait()
            lines = list(self._lines)
            self._lines.clear()
            self._bytes = 0
            return lines

    def _write_if_ready(self, data: bytes) -> None:
        poll = select.poll()
        if self._descriptor is not None:
            poll.register(self._descriptor, select.POLLOUT)
        for start in range(0, len(data), ATOMIC_BYTES):
            if not poll.poll(0) or not self._write_all(data[start : start + ATOMIC_BYTES]):
                self._drop(1)
                return

    def _write_all(self, data: bytes) -> bool:
        """Write the bytes, however long that takes; return False when they cannot be written."""
        if self._descriptor is None:
            return False
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # Somebody has made the descriptor non-blocking.
                time.sleep(0.01)
            except OSError:
                return False
        return True

    def _drop(self, number: int) -> None:
        self.dropped += number
        self._unreported += number


def _stderr_descriptor() -> int | None:
    """Return standard error's descriptor; None when the process began without one, as the number then belongs to some
    other file."""
    return None if sys.__stderr__ is None else _STDERR
