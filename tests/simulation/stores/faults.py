"""Draws the faults of a simulated store, each of which can be left out by its number."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Protocol

from attrs import Factory, define, frozen


class Trace(Protocol):
    """Takes what happens, in order."""

    def __call__(self, event: str, /, **details: object) -> None:
        """Record an event; its details are plain values that are the same in each run."""
        ...


def trace_nothing(event: str, /, **details: object) -> None:
    """Record nothing."""


@frozen
class StoreFaults:
    """Says which faults exist and how often they occur; each is a probability unless its name ends
    in a unit.

    The two figures of a time are the least and the most of what is drawn.
    """

    latency_s: tuple[float, float] = (0.0, 0.0)
    """How long a statement, and its reply, is on its way."""
    commit_s: tuple[float, float] = (0.0, 0.0)
    """How long the disk, and a standby, take for a commit."""
    refused: float = 0.0
    """A statement fails and does nothing, as where memory is short, a lock is not to be had, or the
    file is busy."""
    conflict: float = 0.0
    """A commit fails as if another process had been quicker."""
    lost_before: float = 0.0
    """The connection is lost before the statement arrives."""
    lost_after: float = 0.0
    """The connection is lost before the reply arrives, although the statement was done; or the disk
    fails in a commit, which was written or was not."""
    late: float = 0.0
    """A statement takes long until it arrives, so that others overtake it."""
    late_s: tuple[float, float] = (0.5, 15.0)
    stall: float = 0.0
    """A commit stalls."""
    stall_s: tuple[float, float] = (0.5, 30.0)

    @property
    def are_instant(self) -> bool:
        """Tell whether every statement takes no time and succeeds."""
        return self == NO_FAULTS


NO_FAULTS = StoreFaults()


@define(eq=False)
class FaultDraws:
    """Draws from one generator, numbers what occurs and counts it."""

    random: Random
    trace: Trace = trace_nothing
    skipped: frozenset[int] = frozenset()
    """The numbers of faults that are drawn and do not occur: so a course of events is repeated
    without one of them."""
    counts: Counter[str] = Factory(Counter)
    """How often each kind has occurred."""
    drawn: int = 0
    """Faults that were drawn, which number them from 1."""

    def happens(self, kind: str, probability: float, **details: object) -> bool:
        """Draw whether a fault of this kind occurs now."""
        if probability <= 0.0 or self.random.random() >= probability:
            return False
        self.drawn += 1
        if self.drawn in self.skipped:
            return False
        self.note(kind, number=self.drawn, **details)
        return True

    def note(self, kind: str, **details: object) -> None:
        """Count and record a fault that somebody else has decided upon."""
        self.counts[kind] += 1
        self.trace("store_fault", kind=kind, **details)

    def time_s(self, bounds: tuple[float, float]) -> float:
        """Draw a time between these bounds; nothing is drawn where they are equal."""
        low, high = bounds
        return low if low == high else self.random.uniform(low, high)

    def either(self) -> bool:
        """Draw one of two equally likely outcomes."""
        return self.random.random() < 0.5
