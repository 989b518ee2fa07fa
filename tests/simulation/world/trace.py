"""Keeps what happens in a simulation: a digest of all of it, counts by kind, and the latest lines
for people."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import structlog
import trio
from attrs import Factory, define

from tests.simulation.clocks.task_order import CURRENT_PROCESS

UNKNOWN_OUTCOME: Final = "internal_server_error"
"""Stands as the fault of a request whose outcome could not be learnt from the store (P5), which is
no fault of ours."""
LINES_KEPT: Final = 2_000
"""Lines that are kept for the report of a failure; the digest has all of them."""
LINES_HASHED_AT_ONCE: Final = 500
"""Lines that the digest takes at once, as each call of it costs more than a line."""


@define(eq=False)
class SimulationTrace:
    """Two runs of one seed have the same trace, on every version of Python and in any process."""

    counts: Counter[str] = Factory(Counter)
    """How often something of each kind has happened."""
    last_at: float = 0.0
    """When something has happened last."""
    lines_kept: int = Factory(lambda: LINES_KEPT)
    faults: list[str] = Factory(list)
    """Log lines about faults of the program itself: there should be none."""
    _digest: hashlib._Hash = Factory(hashlib.sha256)
    _not_hashed: list[str] = Factory(list)
    """The lines that the digest does not have yet."""
    _lines: deque[str] = Factory(lambda self: deque(maxlen=self.lines_kept), True)

    def add(self, kind: str, *about: object) -> None:
        """Record that something has happened now. Its texts must be the same in each run: no
        address of an object, and no order of a set."""
        self.last_at = trio.current_time()
        self.add_routine(kind, *about)

    def add_routine(self, kind: str, *about: object) -> None:
        """Record what happens also when the world is at rest; see `add`."""
        self.counts[kind] += 1
        line = f"{trio.current_time():.6f} {kind} {' '.join(map(str, about))}\n"
        self._lines.append(line)
        self._not_hashed.append(line)
        if len(self._not_hashed) == LINES_HASHED_AT_ONCE:
            self._hash_lines()

    def digest(self) -> str:
        """Return the digest of all that was recorded."""
        self._hash_lines()
        return self._digest.hexdigest()

    def latest(self, containing: str = "") -> Sequence[str]:
        """Return the latest lines that contain this text, the oldest first."""
        return [each.removesuffix("\n") for each in self._lines if containing in each]

    def _hash_lines(self) -> None:
        self._digest.update("".join(self._not_hashed).encode())
        self._not_hashed.clear()


@contextmanager
def logs_in_trace(trace: SimulationTrace) -> Iterator[None]:
    """Let the log lines of all gateways go to the trace while the block lasts: each is counted by
    its event, and one with a `fault` of the program is kept. A process that was killed writes none,
    though its tasks are still ending."""

    def take(logger: Any, level: str, event: MutableMapping[str, Any]) -> NoReturn:
        process = CURRENT_PROCESS.get()
        if process is not None and process.is_killed:
            raise structlog.DropEvent
        name = str(event.get("event"))
        trace.add_routine(f"log {name}")
        if event.get("fault", UNKNOWN_OUTCOME) != UNKNOWN_OUTCOME:
            trace.faults.append(f"{name}: {event['fault']}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[take],
        wrapper_class=structlog.BoundLogger,
        # It is called for each line, and opens nothing.
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
