"""Gives each simulated machine its clocks: a boot clock that nobody sets, and a wall clock that may
be wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from attrs import define, field

from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant, Span, later
from mmo_trio.system.clock import GatewayClock
from tests.simulation.clocks.virtual_clock import VirtualClock

CURRENT_MACHINE: ContextVar[MachineClocks | None] = ContextVar("CURRENT_MACHINE", default=None)
"""The clocks of the machine on which the running task's process runs; None for the simulation's own
tasks."""


@define(eq=False)
class MachineClocks:
    """Shows the time of one machine."""

    machine: str
    """Its name, part of the name of each of its starts."""
    _clock: VirtualClock
    _booted_at: float = field(default=0.0, init=False)
    _starts: int = field(default=1, init=False)
    _wall_ahead: Span = field(default=Span(0), init=False)

    @property
    def wall_ahead(self) -> Span:
        """Return by how much the wall clock is ahead of true time; negative when it is behind."""
        return self._wall_ahead

    def step(self, span: Span) -> None:
        """Move the wall clock; a negative span sets it back."""
        self._wall_ahead = Span(self._wall_ahead + span)

    def set_right(self) -> None:
        """Let the wall clock show true time."""
        self._wall_ahead = Span(0)

    def boot(self) -> None:
        """Start the machine again: its boot clock begins at 0, and the start has a new name."""
        self._booted_at = self._clock.current_time()
        self._starts += 1

    def wall(self) -> Instant:
        """Return what the wall clock shows."""
        return Instant(self._clock.true_time() + self._wall_ahead)

    def boot_time(self) -> MonotonicInstant:
        """Return the microseconds since the machine was started."""
        return MonotonicInstant(round((self._clock.current_time() - self._booted_at) * SECOND))

    def rested_s(self) -> float:
        """Return the seconds in all for which nothing was played, as the world was at rest."""
        return self._clock.rested_s

    def boot_id(self) -> str:
        """Return the name of the machine's current start."""
        return f"{self.machine}, start {self._starts}"


class MachineGatewayClock(GatewayClock):
    """Is the clock of a gateway that runs on a simulated machine."""

    def __init__(self, clocks: MachineClocks, rested_s: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self._clocks = clocks

        # For how many seconds in all the process was not played while it ran, and how many of them
        # are accounted for.
        self._rested_s = rested_s
        self._noted_rest_s = 0.0

    def _note_running(self) -> None:
        """Notice whether the process has run lately: it does where the world is only at rest."""
        rested_s = self._rested_s()
        if self._ran_at is not None:
            rest = Span(round((rested_s - self._noted_rest_s) * SECOND))
            self._ran_at = later(self._ran_at, rest)
        self._noted_rest_s = rested_s
        super()._note_running()

    def raw_wall_time(self) -> Instant:
        """Return what the machine's wall clock shows, right or wrong."""
        return self._clocks.wall()

    def monotonic(self) -> MonotonicInstant:
        """Return the time since the machine started."""
        return self._clocks.boot_time()

    def boot_id(self) -> str:
        """Return the name of the machine's current start."""
        return self._clocks.boot_id()
