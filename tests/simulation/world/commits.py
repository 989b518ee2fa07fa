"""Observes what is committed to the store of a simulated world: at which true time each payment
reached each stage and each callback was recorded, and which inputs were decided at which stage
while which faults lasted. What was decided is kept in a book of its own, whatever becomes of it in
the store."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from copy import deepcopy
from heapq import heappop, heappush
from typing import Final, get_args

import trio
from attrs import Factory, define, frozen

from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.messages.changes import (
    BreakerSaved,
    CallbackRecorded,
    JournalEntry,
    ReversalChanged,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.intents import PollEnded
from mmo_sansio.messages.reversals import ReversalInput
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import SECOND
from mmo_sansio.values.model import Stage
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, reversed_payment
from tests.simulation.clocks.virtual_clock import TRUE_TIME_AT_START
from tests.simulation.world.plan import FaultKind
from tests.simulation.world.trace import SimulationTrace

MET: Final = "met "
"""The beginning of the names under which `SimulationTrace.counts` holds decisions by fault, stage
and input."""
NO_FAULT: Final = "no_fault"
_ENDS: Final = frozenset(str(each) for each in Stage if each.is_terminal)
_OF_REVERSALS: Final = frozenset(each.__name__ for each in get_args(ReversalInput))


@frozen
class StoredStage:
    """Is a stage that a payment has reached."""

    at_s: float
    """The true time, in seconds after the beginning of the world."""
    stage: str
    input_name: str
    """What was decided."""


@frozen
class StoredReversal:
    """Is a change of a reversal."""

    at_s: float
    """The true time, in seconds after the beginning of the world."""
    before: Reversal | None
    """None: it was asked for."""
    after: Reversal
    known: tuple[Reversal, ...]
    """All of the payment after it."""
    paid: Money
    """What the payment had moved."""
    input_name: str
    """What was decided."""
    source: str | None
    """By which way a report came, as the journal has it."""
    version: int | None
    """What a report answers, as the journal has it."""


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


@frozen
class StoredBooks:
    """Is what a store holds at one time, by what was decided; see the fields of `WorldCommits`."""

    ledger: Ledger
    journal: dict[str, list[JournalEntry]]
    breakers: dict[str, BreakerSnapshot]
    callbacks: list[StoredCallback]
    wakes: list[tuple[int, str]]


@define(eq=False)
class WorldCommits:
    """Records every commit; nobody in the world knows of it."""

    trace: SimulationTrace
    ledger: Ledger = Factory(Ledger)
    """What all commits have decided."""
    journal: dict[str, list[JournalEntry]] = Factory(dict)
    """By gatewayReference, in their order."""
    breakers: dict[str, BreakerSnapshot] = Factory(dict)
    """The last of each brand."""
    lasting: Collection[FaultKind] = ()
    """The kinds of the faults that last at present."""
    stages: dict[str, list[StoredStage]] = Factory(dict)
    """The stages that each payment has gone through, by gatewayReference."""
    callbacks: list[StoredCallback] = Factory(list)
    """In the order in which they were recorded."""
    reversals: list[StoredReversal] = Factory(list)
    """The changes of reversals, in their order, also those that a restored backup does not have."""
    claims: list[StoredClaim] = Factory(list)
    """In the order in which channels were claimed."""
    conversations: dict[str, list[tuple[float, bool]]] = Factory(dict)
    """When processes began to talk with operators about each payment, by true time, and whether
    they submitted it or polled; by gatewayReference."""
    ended_polls: list[tuple[float, str]] = Factory(list)
    """When it was recorded that a payment which has ended is polled, with its gatewayReference."""
    forgotten_reversals: dict[str, list[Reversal]] = Factory(dict)
    """Those that a restored backup did not have, by the gatewayReference of their payments."""
    _wakes: list[tuple[int, str]] = Factory(list)
    """A heap of the times at which payments and reversals wake, or would have, with their
    references and ids."""
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
            self.ledger.apply(decision.changes, decision.intents)
            polls = (each for each in decision.intents if isinstance(each, PollEnded))
            self.ended_polls += [(trio.current_time(), each.gateway_reference) for each in polls]
            for change in decision.changes:
                match change:
                    case JournalEntry():
                        self._observe_entry(change)
                    case CallbackRecorded(
                        gateway_reference=reference, brand=brand, attempt=attempt
                    ):
                        self.callbacks.append(
                            StoredCallback(trio.current_time(), reference, brand, attempt)
                        )
                    case TransactionCreated(transaction) | TransactionAdvanced(_, transaction):
                        self._observe_wake(transaction.reference, transaction.progress.wake_at)
                    case ReversalChanged(after=reversal):
                        self._observe_wake(reversal.id, reversal.wake_at)
                        self._observe_reversal(change, decision)
                    case BreakerSaved(brand=brand, breaker=breaker):
                        self.breakers[brand] = breaker
                    case _:
                        pass

    def copy(self) -> StoredBooks:
        """Return what the store holds now, by what was decided."""
        return deepcopy(
            StoredBooks(self.ledger, self.journal, self.breakers, self.callbacks, self._wakes)
        )

    def go_back(self, kept: StoredBooks) -> None:
        """Forget what was decided since, as a backup of that time is restored; what has happened
        stays on record."""
        back = deepcopy(kept)
        for payment, known in self.ledger.reversals.items():
            kept_count = len(back.ledger.reversals.get(payment, ()))
            self.forgotten_reversals.setdefault(payment, []).extend(known[kept_count:])
        self.ledger, self.journal, self.breakers = back.ledger, back.journal, back.breakers
        self.callbacks, self._wakes = back.callbacks, back.wakes

    def observe_conversation(self, gateway_reference: str, *, is_submission: bool) -> None:
        """Record that a process begins to submit or to poll a payment."""
        self.conversations.setdefault(gateway_reference, []).append(
            (trio.current_time(), is_submission)
        )

    def next_wake_s(self) -> float:
        """Return when a payment wakes next, in seconds after the beginning of the world; infinity
        when none does."""
        wakes = self._wakes
        while wakes and self._wake_of(wakes[0][1]) != wakes[0][0]:
            heappop(wakes)
        return (wakes[0][0] - TRUE_TIME_AT_START) / SECOND if wakes else math.inf

    def _wake_of(self, id: str) -> int | None:
        """Return when the payment or reversal with this id wakes."""
        if id in self.ledger.transactions:
            return self.ledger.transactions[id].progress.wake_at
        known = self.ledger.reversals.get(reversed_payment(id), ())
        return next((each.wake_at for each in known if each.id == id), None)

    def _observe_wake(self, id: str, at: int | None) -> None:
        if at is not None:
            heappush(self._wakes, (at, id))

    def _observe_reversal(self, change: ReversalChanged, decision: Decision) -> None:
        after, payment = change.after, self.ledger.transactions[change.after.payment]
        paid = after.reported or payment.progress.final
        assert paid is not None
        (entry,) = (each for each in decision.changes if isinstance(each, JournalEntry))
        detail = json.loads(entry.detail)

        self.reversals.append(
            StoredReversal(
                at_s=trio.current_time(),
                before=change.before,
                after=after,
                known=change.reversals,
                paid=paid,
                input_name=entry.input_name,
                source=detail.get("source"),
                version=detail.get("version"),
            )
        )

    def _observe_entry(self, entry: JournalEntry) -> None:
        counts, met = self.trace.counts, f"{entry.stage_before or '-'} {entry.input_name}"
        for kind in self.lasting or (NO_FAULT,):
            counts[f"{MET}{kind} {met}"] += 1
        if entry.gateway_reference is not None:
            self.journal.setdefault(entry.gateway_reference, []).append(entry)
        is_stage_of_payment = entry.stage_after is not None and described_reversal(entry) is None
        if entry.gateway_reference is not None and is_stage_of_payment:
            stored = StoredStage(trio.current_time(), str(entry.stage_after), entry.input_name)
            self.stages.setdefault(entry.gateway_reference, []).append(stored)
            if entry.stage_after in _ENDS:
                self._ended.set()
                self._ended = trio.Event()


def described_reversal(entry: JournalEntry) -> str | None:
    """Return the id of the reversal whose states an entry of a payment's journal tells; None for
    the payment's own."""
    if entry.input_name not in _OF_REVERSALS:
        return None
    id: str | None = json.loads(entry.detail).get("reversal")
    return id
