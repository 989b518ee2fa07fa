"""The logs of a serving process: one line on standard error for each event, which nothing waits
for.

The gateway's modules log with structlog; records of libraries, from `logging`, look the same.
Exceptions are logged by their types and places, never by their messages, which may contain a
customer's number (P3)."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import structlog
from attrs import Factory, define, frozen
from setproctitle import setproctitle
from structlog.typing import EventDict, Processor, WrappedLogger

from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values.clock import SECOND, MonotonicInstant, format_with_microseconds
from mmo_sansio.values.model import Order
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

# Bytes of lines that may wait: some 4,000 lines.
QUEUE_BYTES_MAX: Final = 1024 * 1024

# Seconds that the end of a process waits for its last lines to be written.
FLUSH_TIMEOUT_S: Final = 1.0

# Bytes that a pipe takes at once when it says that it is writable.
ATOMIC_BYTES: Final = select.PIPE_BUF

_STDERR: Final = 2


def simulated_mark(order: Order) -> Mapping[str, bool]:
    """Return what a line of the log about one payment has besides where no money moves by it."""
    if order.is_simulated:
        return {"simulated": True}
    return {}


class LogOutput:
    """Writes lines to standard error, from any thread of this process, without ever holding up the
    gateway.

    A pipe that nobody reads blocks who writes to it. So lines wait in a bounded queue, and a thread
    of their own writes them; what finds the queue full is dropped and counted. The standard
    library's `QueueHandler` bounds the number of lines, not of bytes, and a line with a stack for
    each of many exceptions is large; its `QueueListener` ends only once all is written, which a
    pipe that nobody reads prevents."""

    def __init__(self, descriptor: int | None = None, *, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """Write to this descriptor; by default to standard error, if the process has one."""
        if descriptor is None:
            self._descriptor = _stderr_descriptor()
        else:
            self._descriptor = descriptor

        self._bytes_max = bytes_max
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._unreported = 0

        # Lines that were not written since the start.
        self.dropped = 0

    def write(self, line: str) -> None:
        """Take a line; never waits for who reads it."""
        # A lone surrogate of somebody's text must not stop the line.
        data = f"{line}\n".encode("utf-8", "backslashreplace")

        # A process that forks has no thread: its few lines are written at once or not at all.
        if self._thread is None:
            self._write_if_ready(data)
            return

        with self._changed:
            # An empty queue takes a line of any size.
            if self._bytes + len(data) > self._bytes_max and self._lines:
                self._drop(1)
                return

            self._lines.append(data)
            self._bytes += len(data)
            self._changed.notify()

    @contextmanager
    def in_background(self, report_dropped: Callable[[int], object]) -> Iterator[None]:
        """Write in a thread while the block lasts; then wait a limited time for the last lines.

        `report_dropped` is called in that thread, with the number of lines that were dropped, once
        lines are written again. Without the thread, e.g. in a process that forks, a line that
        cannot be written at once is dropped."""
        thread = threading.Thread(
            target=self._run, args=(report_dropped,), name="log output", daemon=True
        )
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

    def _run(self, report_dropped: Callable[[int], object]) -> None:
        while (lines := self._next_lines()) is not None:
            if not self._write_all(b"".join(lines)):
                self._drop(len(lines))
            elif self._unreported:
                with self._changed:
                    # Reported once lines get through again: before that the report would be dropped
                    # as well.
                    number, self._unreported = self._unreported, 0
                report_dropped(number)

    def _next_lines(self) -> list[bytes] | None:
        """Wait for lines and take them; None at the end."""
        with self._changed:
            while not self._lines:
                if self._is_ending:
                    return None
                self._changed.wait()
            # All that wait, in one write.
            lines = list(self._lines)
            self._lines.clear()
            self._bytes = 0
            return lines

    def _write_if_ready(self, data: bytes) -> None:
        poll = select.poll()
        if self._descriptor is not None:
            poll.register(self._descriptor, select.POLLOUT)
        # A pipe that says it is writable takes so many bytes, and might block at one more.
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
    """Return standard error's descriptor; None when the process began without one, as the number
    then belongs to some other file."""
    # Python leaves it out where the descriptor was closed before the start.
    if sys.__stderr__ is None:
        return None
    return _STDERR


# Where this process writes its log.
OUTPUT: Final = LogOutput()


def configure_logs(*, log_format: str, level: str) -> None:
    """Write events of at least this level in this format; see `LogSection`. The last call wins."""
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = _OutputHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_COMMON_PROCESSORS],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_final_processors(log_format),
            ],
        )
    )

    # One handler, whoever has configured logging before: each line once.
    logging.root.handlers = [handler]
    logging.root.setLevel(number)
    structlog.configure(
        processors=[RepetitionLimit(), *_COMMON_PROCESSORS, *_final_processors(log_format)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_OutputLogger,
    )


@contextmanager
def logs_in_background() -> Iterator[None]:
    """Let nothing wait for who reads the log while the block lasts; a process that forks must not
    be in it."""
    with OUTPUT.in_background(lambda lines: logger.warning("log_lines_dropped", lines=lines)):
        yield


@contextmanager
def sandbox_time_in_logs(clock: GatewayClock) -> Iterator[None]:
    """Give each line the sandbox's time, too, as `sandbox_time`, while this clock is ahead of the
    machine's; for what this task and those that it starts write while the block lasts."""
    token = _SANDBOX_CLOCK.set(clock)
    try:
        yield
    finally:
        _SANDBOX_CLOCK.reset(token)


def name_process(name: str) -> None:
    """Name one of several processes of a service: in its lines of the log, and in what `ps`
    shows."""
    setproctitle(f"mmo: {name}")
    structlog.contextvars.bind_contextvars(process=name)


class _OutputHandler(logging.Handler):
    """Writes the records of libraries."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            OUTPUT.write(self.format(record))
        except Exception:
            self.handleError(record)


@frozen
class _OutputLogger:
    """Writes the events of one module."""

    name: str

    def write(self, line: str) -> None:
        """Write a line; one that cannot be written is counted, so that no work stops."""
        OUTPUT.write(line)

    debug = info = warning = error = critical = write


def _final_processors(log_format: str) -> Sequence[Processor]:
    if log_format == "json":
        return [structlog.processors.JSONRenderer(sort_keys=False)]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


def redact_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace the exception of an event by a description without its message."""
    # `logger.exception` gives True, libraries give an exception or a tuple.
    exc_info: Any = event.pop("exc_info", None)
    if exc_info is True:
        exc_info = sys.exc_info()

    if isinstance(exc_info, tuple):
        error = exc_info[1]
    else:
        error = exc_info

    if isinstance(error, BaseException):
        event["fault"] = describe_fault(error)

    return event


_SANDBOX_CLOCK: ContextVar[GatewayClock | None] = ContextVar("sandbox_clock", default=None)


def add_sandbox_time(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the time of a sandbox whose clock was advanced; payments carry that time."""
    clock = _SANDBOX_CLOCK.get()
    if clock is not None and clock.offset:
        event["sandbox_time"] = format_with_microseconds(clock.wall_time())
    return event


_COMMON_PROCESSORS: Sequence[Processor] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    add_sandbox_time,
    redact_exception,
)

# An event with one of these keys set is written so many times a second; the others are counted.
MARKS: Final = {"once_a_second": 1.0, "once_a_minute": 1 / 60}


@define(eq=False)
class LogRateLimit(TokenBucket):
    """Limits the lines of one kind, and counts those that it suppresses."""

    _suppressed: int = 0

    def acquire(self, now_s: float) -> int | None:
        """Return how many lines were suppressed before this one; None to suppress it as well.

        `now_s` is a monotonic time in seconds."""
        if self.take(MonotonicInstant(round(now_s * SECOND))):
            self._suppressed += 1
            return None
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


@define(eq=False)
class RepetitionLimit:
    """Processes events: one that is marked, as it repeats while the store fails, passes once in the
    time that its mark names."""

    now: Callable[[], float] = time.monotonic
    _limits: dict[str, LogRateLimit] = Factory(dict)
    """The limits by event and mark; the names of events are few."""

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        """Return the event, with the number of those `suppressed` before it. Raises DropEvent to
        suppress it."""
        # The marks never reach the line.
        marks = [mark for mark in MARKS if event.pop(mark, False)]
        if not marks:
            return event

        key = f"{event['event']} {marks[0]}"
        if (limit := self._limits.get(key)) is None:
            limit = self._limits[key] = LogRateLimit(per_second=MARKS[marks[0]], burst=1)

        suppressed = limit.acquire(self.now())
        if suppressed is None:
            raise structlog.DropEvent

        if suppressed:
            event["suppressed"] = suppressed

        return event
