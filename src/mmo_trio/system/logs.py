"""Configures the logs of a serving process: one line on standard error for each event.

The gateway's modules log with structlog; records of libraries, from `logging`, look the same. Exceptions are logged by
their types and places, never by their messages, which may contain a customer's number (P3)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import structlog
from attrs import frozen
from setproctitle import setproctitle
from structlog.typing import EventDict, Processor, WrappedLogger

from mmo_sansio.values.clock import format_with_microseconds
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.log_limit import RepetitionLimit
from mmo_trio.system.log_output import LogOutput

logger = structlog.get_logger(__name__)

OUTPUT: Final = LogOutput()
"""Where this process writes its log."""


def configure_logs(*, log_format: str, level: str) -> None:
    """Write events of at least this level in this format; see `LogSection`. The last call wins."""
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = _OutputHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_COMMON_PROCESSORS],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_final_processors(log_format)],
        )
    )
    logging.root.handlers = [handler]
    logging.root.setLevel(number)
    structlog.configure(
        processors=[RepetitionLimit(), *_COMMON_PROCESSORS, *_final_processors(log_format)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_OutputLogger,
    )


@contextmanager
def logs_in_background() -> Iterator[None]:
    """Let nothing wait for who reads the log while the block lasts; a process that forks must not be in it."""
    with OUTPUT.in_background(_report_dropped):
        yield


@contextmanager
def sandbox_time_in_logs(clock: GatewayClock) -> Iterator[None]:
    """Give each line the sandbox's time, too, as `sandbox_time`, while this clock is ahead of the machine's; for what
    this task and those that it starts write while the block lasts."""
    token = _SANDBOX_CLOCK.set(clock)
    try:
        yield
    finally:
        _SANDBOX_CLOCK.reset(token)


def name_process(name: str) -> None:
    """Name one of several processes of a service: in its lines of the log, and in what `ps` shows."""
    setproctitle(f"mmo: {name}")
    structlog.contextvars.bind_contextvars(process=name)


def _report_dropped(lines: int) -> None:
    logger.warning("log_lines_dropped", lines=lines)


class _OutputHandler(logging.Handler):
    """Writes the records of libraries."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
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
    exc_info: Any = event.pop("exc_info", None)
    if exc_info is True:
        exc_info = sys.exc_info()
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        event["fault"] = describe_fault(error)
    return event


_SANDBOX_CLOCK: ContextVar[GatewayClock | None] = ContextVar("sandbox_clock", default=None)


def add_sandbox_time(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the time of a sandbox whose clock was advanced; payments carry that time."""
    clock = _SANDBOX_CLOCK.get()
    if clock is not None and clock.offset:
        event["sandbox_time"] = format_with_microseconds(clock.now())
    return event


_COMMON_PROCESSORS: Sequence[Processor] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    add_sandbox_time,
    redact_exception,
)
