"""What can happen to a supervisor, and what it can do."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from attrs import frozen


class ProcessCommand(Enum):
    """What a process can be told."""

    DRAIN = "drain"
    """End; what is under way is finished, and idle connections are closed."""
    RETIRE = "retire"
    """End, but leave idle connections time for one last request: somebody else serves already."""
    RELOAD = "reload"
    """Read the certificates again."""
    KILL = "kill"


@frozen
class StopRequested:
    """The service is to end."""


@frozen
class RollingRestartRequested:
    """Every worker is to be replaced, one after the other."""


@frozen
class ReloadRequested:
    """The certificates are to be read again."""


@frozen
class ProcessForked:
    """A process was started for this post."""

    slot: str
    pid: int


@frozen
class ForkFailed:
    """The system gives no process for this post now."""

    slot: str


@frozen
class ProcessServing:
    """The process says that it serves."""

    pid: int


@frozen
class ProcessExited:
    """The process is gone: with this exit code, or by a signal, whose number is negative then."""

    pid: int
    exit_code: int


@frozen
class TimePassed:
    """Nothing has happened but time."""


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
    """Start a process for this post, and say `ProcessForked`."""

    slot: str


@frozen
class SendCommand:
    """Tell a process."""

    pid: int
    command: ProcessCommand


@frozen
class AnnounceReady:
    """Say, once, that the service is ready."""


@frozen
class LogMessage:
    """Write this event to the log."""

    event: str
    slot: str | None = None
    pid: int | None = None
    exit_code: int | None = None


@frozen
class ExitService:
    """All processes are gone: end with this exit code. `reason` is for a person, when there is something to say."""

    exit_code: int
    reason: str | None = None


SupervisorAction: TypeAlias = StartProcess | SendCommand | AnnounceReady | LogMessage | ExitService
