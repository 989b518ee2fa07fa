"""Defines the events that a supervisor reacts to, and its actions."""

from __future__ import annotations

import signal
from enum import Enum
from typing import TypeAlias

from attrs import frozen


class ProcessCommand(Enum):
    """Defines the commands to a process, each with its signal."""

    DRAIN = signal.SIGTERM
    """Finish active requests and deliveries, close idle connections, and end."""
    RETIRE = signal.SIGUSR2
    """Drain, but leave idle connections time for one last request: a successor serves already."""
    RELOAD = signal.SIGHUP
    """Read the certificates again."""
    KILL = signal.SIGKILL


@frozen
class StopRequested:
    """The service shall end."""


@frozen
class RollingRestartRequested:
    """Every worker shall be replaced, one after the other."""


@frozen
class ReloadRequested:
    """The certificates shall be read again."""


@frozen
class ProcessForked:
    """A process was started for this slot."""

    slot: str
    pid: int


@frozen
class ForkFailed:
    """The system can start no process for this slot now."""

    slot: str


@frozen
class ProcessServing:
    """The process reports that it serves."""

    pid: int


@frozen
class ProcessExited:
    """The process has ended with this exit code, negative if a signal ended it."""

    pid: int
    exit_code: int


@frozen
class TimePassed:
    """Time has passed without another event."""


SupervisorEvent: TypeAlias = (
    StopRequested
    | RollingRestartRequested
    | ReloadRequested
    | ProcessForked
    | ForkFailed
    | ProcessServing
    | ProcessExited
    | TimePassed
)


@frozen
class StartProcess:
    """Start a process for this slot; `ProcessForked` or `ForkFailed` follows."""

    slot: str


@frozen
class SendCommand:
    """Send a command to a process."""

    pid: int
    command: ProcessCommand


@frozen
class AnnounceReady:
    """Announce, once, that the service is ready."""


@frozen
class LogMessage:
    """Write this event to the log."""

    event: str
    slot: str | None = None
    pid: int | None = None
    exit_code: int | None = None


@frozen
class ExitService:
    """End the service, as all processes have ended; `reason` explains a failure to a person."""

    exit_code: int
    reason: str | None = None


SupervisorAction: TypeAlias = StartProcess | SendCommand | AnnounceReady | LogMessage | ExitService
