"""Logs of a serving process: one line for each event on standard error, for people or for machines.

Structlog's events are written as they happen; what comes by way of `logging`, the libraries' above all, looks the same.
Exceptions are told by their kinds and lines, never by their messages, which may hold a customer's number (P3)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import structlog
from attrs import frozen
from structlog.typing import EventDict, Processor, WrappedLogger

from mmo_trio.system.fault_report import describe_fault

LOG_FORMATS = ("console", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


def configure_logs(*, log_format: str, level: str) -> None:
    """Write what is at least of this level (one of LEVELS) in this form (one of FORMATS). The last call holds."""
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_COMMON_PROCESSORS],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_final_processors(log_format),
            ],
        )
    )
    logging.root.handlers = [handler]
    logging.root.setLevel(number)
    structlog.configure(
        processors=[*_COMMON_PROCESSORS, *_final_processors(log_format)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_StderrLogger,
    )


@frozen
class _StderrLogger:
    """Where the events of one module are written."""

    name: str

    def write(self, line: str) -> None:
        """Write a line; a log that can't be written stops nobody's work."""
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{line}\n")

    debug = info = warning = error = critical = write


def _final_processors(log_format: str) -> Sequence[Processor]:
    if log_format == "json":
        return [structlog.processors.JSONRenderer(sort_keys=False)]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


def redact_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The exception of an event without its message."""
    told: Any = event.pop("exc_info", None)
    if told is True:
        told = sys.exc_info()
    error = told[1] if isinstance(told, tuple) else told
    if isinstance(error, BaseException):
        event["fault"] = describe_fault(error)
    return event


_COMMON_PROCESSORS: Sequence[Processor] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    redact_exception,
)
