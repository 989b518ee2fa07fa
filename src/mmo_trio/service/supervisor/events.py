"""What can happen to a supervisor, and what it can do."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from attrs import frozen


class Order(Enum):
    """What a process can be told."""

    DRAIN = "drain"
    """End; what is under way is finished, and idle connections are closed."""
    RETIRE = "retire"
    """End, but leave idle connections time for one last request: somebody else serves already."""
    RELOAD = "reload"
    """Read the certificates again."""
    KILL = "kill"


@frozen
class Stop:
    """The service is to end."""


@frozen
class Roll:
    """Every worker is to be replaced, one after the other."""


@frozen
class Reload:
    """The certificates are to be read again."""


@frozen
class Forked:
    """A process was started for this post."""

    post: str
    pid: int


@frozen
class NotForked:
    """The system gives no process for this post now."""

    post: str


@frozen
class Serves:
    """The process says that it serves."""

    pid: int


@frozen
class Ended:
    """The process is gone: with this exit code, or by a signal, whose number is negative then."""

    pid: int
    code: int


@frozen
class TimePassed:
    """Nothing has happened but time."""


Event: TypeAlias = Stop | Roll | Reload | Forked | NotForked | Serves | Ended | TimePassed


@frozen
class Start:
    """Start a process for this post, and say `Forked`."""

    post: str


@frozen
class Tell:
    """Tell a process."""

    pid: int
    order: Order


@frozen
class Announce:
    """Say, once, that the service is ready."""


@frozen
class Note:
    """Write a line to the log."""

    text: str
    pid: int | None = None
    code: int | None = None


@frozen
class End:
    """All processes are gone: end with this exit code. `reason` is for a person, when there is something to say."""

    code: int
    reason: str | None = None


Action: TypeAlias = Start | Tell | Announce | Note | End
