"""Observes what is committed to the store of a simulated world: at which true time each payment reached each stage and
each callback was recorded, and which inputs were decided at which stage while which faults lasted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import trio
from attrs import Factory, define, frozen

from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.messages.intents import PollEnded
from mmo_sansio.payments.decision import Decision
from mmo_sansio.values.model import Stage
from mmo_trio.storage.memory.state import MemoryState
from tests.simulation.world.plan import FaultKind
from tests.simulation.world.trace import SimulationTrace

MET: Final = "met "
"""The beginning of the names under which `SimulationTrace.counts` holds decisions by fault, stage and input."""
NO_FAULT: Final = "no_fault"
_ENDS: Final = frozenset(str(each) for each in Stage if each.is_terminal)


@frozen
class StoredStage:
    """Is a stage that a payment has reached."""

    at_s: float
    """The true time, in seconds after the beginning of the world."""
    stage: str
    input_name: str
    """What was decided."""


@frozen
class StoredCallback:
    """Is the outcome of a callback that was recorded."""

    at_s: float
    """The true time, in seconds after the beginning of the world."""
    gateway_reference: str
    brand: str
    attempt: DeliveryAttempt


@frozen
class StoredClaim:
    """Is a merchant's channel that a process was given."""

    at_s: float
    """The true time, in seconds after the beginning of the world."""
    brand: str
    machine: str
    """The machine on which the process ran."""


@define(eq=False)
class WorldCommits:
    """Records every commit; nobody in the world knows of it."""

    trace: SimulationTrace
    lasting: Collection[FaultKind] = ()
    """The kinds of the faults that last at present."""
    stages: dict[str, list[StoredStage]] = Factory(dict)
    """The stages that each payment has gone through, by gatewayReference."""
    callbacks: list[StoredCallback] = Factory(list)
    """In the order in which they were recorded."""
    claims: list[StoredClaim] = Factory(list)
    """In the order in which channels were claimed."""
    conversations: dict[str, list[tuple[float, bool]]] = Factory(dict)
    """When processes began to talk with operators about each payment, by true time, and whether they submitted it or
    polled; by gatewayReference."""
    ended_polls: list[tuple[float, str]] = Factory(list)
    """When it was recorded that a payment which has ended is polled, with its gatewayReference."""
    _ended: trio.Event = Factory(trio.Event)
    """Set, and replaced, when a payment ends."""

    async def wait_for_end(self) -> None:
        """Return when the next payment ends."""
        await self._ended.wait()

    def observe_claim(self, process: str, brand: str) -> None:
        """Record that a process has claimed a merchant's channel."""
        self.claims.append(StoredClaim(trio.current_time(), brand, process.partition(",")[0]))

    def observe(self, decisions: Sequence[Decision]) -> None:
        """Record what is stored now."""
        for decision in decisions:
            polls = (each for each in decision.intents if isinstance(each, PollEnded))
            self.ended_polls += [(trio.current_time(), each.gateway_reference) for each in polls]
            for change in decision.changes:
                if isinstance(change, JournalEntry):
                    self._observe_entry(change)
                elif isinstance(change, CallbackRecorded):
                    reference, brand = change.gateway_reference, change.brand
                    self.callbacks.append(StoredCallback(trio.current_time(), reference, brand, change.attempt))

    def observe_conversation(self, gateway_reference: str, *, is_submission: bool) -> None:
        """Record that a process begins to submit or to poll a payment."""
        self.conversations.setdefault(gateway_reference, []).append((trio.current_time(), is_submission))

    def _observe_entry(self, entry: JournalEntry) -> None:
        counts, met = self.trace.counts, f"{entry.stage_before or '-'} {entry.input_name}"
        for kind in self.lasting or (NO_FAULT,):
            counts[f"{MET}{kind} {met}"] += 1
        if entry.gateway_reference is not None and entry.stage_after is not None:
            stored = StoredStage(trio.current_time(), str(entry.stage_after), entry.input_name)
            self.stages.setdefault(entry.gateway_reference, []).append(stored)
            if entry.stage_after in _ENDS:
                self._ended.set()
                self._ended = trio.Event()


@define
class ObservedState(MemoryState):
    """Is the state of a world's store, whose commits are observed."""

    commits: WorldCommits | None = None

    def apply(self, decisions: Sequence[Decision], holder: int) -> None:
        """Store a batch of decisions."""
        super().apply(decisions, holder)
        if self.commits is not None:
            self.commits.observe(decisions)
