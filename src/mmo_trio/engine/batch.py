"""Decides the inputs of a batch one after the other, and hands each caller its reply once all of it is durable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import outcome
import structlog
from attrs import Factory, define, field

from mmo_sansio.messages.changes import TransactionAdvanced, TransactionCreated
from mmo_sansio.messages.inputs import CreatePayment, Input
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads, TransactionLocked
from mmo_sansio.values.clock import Instant, MonotonicInstant
from mmo_sansio.values.model import Transaction
from mmo_trio.engine.queue import conflict_keys
from mmo_trio.storage.interface.store import StoreUnavailable, WorkItem
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.waiting import ParkingSpot

logger = structlog.get_logger(__name__)

DEFERRALS_MAX = 64
"""Deferrals of one input, in about 10 s, before its caller learns that nothing was stored."""

_MAY_HAVE_WAITED = "this process was suspended, and the request may have waited as long"
"""Why nothing is created."""


class DecisionFailed(Exception):
    """The payment rules failed on this input, by an error in this program; nothing was stored."""


@define(eq=False)
class PendingInput(ParkingSpot[Reply]):
    """An input on its way through the engine. The engine decides it even if no task waits for the reply."""

    input: Input
    received_at: MonotonicInstant
    """When its request was read, as time since the machine started; when the engine got it where there is none."""
    reads: Reads = field(init=False)
    keys: frozenset[Hashable] = field(init=False)
    deferrals: int = 0
    """How often it was put back because another process was deciding about its payment."""
    _outcome: outcome.Outcome[Reply] | None = None

    def __attrs_post_init__(self) -> None:
        self.reads = reads(self.input)
        self.keys = conflict_keys(self.input, self.reads)

    async def reply(self) -> Reply:
        """Return the reply once what the input changed is durable; one task may call this, once. Raises what
        `Engine.submit` does."""
        if self._outcome is not None:
            return self._outcome.unwrap()
        return await self.park()

    def complete(self, result: outcome.Outcome[Reply]) -> None:
        """Hand over the reply to the task that waits for it, now or later."""
        if not self.unpark(result):
            self._outcome = result


@define(eq=False)
class Batch:
    """Holds inputs that are decided in one commit, and the result of each."""

    pending_inputs: Sequence[PendingInput]
    clock: GatewayClock
    results: list[Decision | Exception] = Factory(list)

    def decide(self, ledger: Ledger) -> Sequence[Decision]:
        """Decide one after the other, each at a moment of its own, so that later inputs see what earlier ones changed.
        An error in the payment rules fails only its own input, of which nothing is applied. What shares a key with an
        input that has to wait waits, too. Nothing is created for a request that may be as old as a suspension: its
        sender may have given it up, and paid otherwise."""
        requests_count_since = self.clock.requests_count_since()
        moments = self.clock.next_moments(len(self.pending_inputs), after=ledger.not_before)
        self.results = []
        waiting: set[Hashable] = set()
        for call, (now, utc) in zip(self.pending_inputs, moments, strict=True):
            result: Decision | Exception
            if call.received_at < requests_count_since and isinstance(call.input, CreatePayment):
                result = StoreUnavailable(_MAY_HAVE_WAITED)
            elif waiting.isdisjoint(call.keys):
                result = self._decide_one(ledger, call.input, now, utc)
            else:
                result = TransactionLocked()
            if isinstance(result, TransactionLocked):
                waiting |= call.keys
            self.results.append(result)
        return [each for each in self.results if isinstance(each, Decision)]

    def has_changes(self) -> bool:
        """Return whether any decision changes what is stored."""
        return any(isinstance(each, Decision) and each.changes for each in self.results)

    def complete(self, put_work: Callable[[WorkItem], None]) -> Sequence[PendingInput]:
        """Complete the callers' inputs, then hand over the work that follows; return the inputs that have to be decided
        later."""
        deferred: list[PendingInput] = []
        for call, result in zip(self.pending_inputs, self.results, strict=True):
            if isinstance(result, Decision):
                call.complete(outcome.Value(result.reply))
            elif isinstance(result, TransactionLocked) and call.deferrals < DEFERRALS_MAX:
                deferred.append(call)
            elif isinstance(result, TransactionLocked):
                call.complete(outcome.Error(StoreUnavailable("another process is deciding about the same payment")))
            elif isinstance(result, StoreUnavailable):
                call.complete(outcome.Error(result))
            else:
                kind = type(call.input).__name__
                logger.error("decide_failed", input=kind, fault=describe_fault(result))
                call.complete(outcome.Error(DecisionFailed("the decision failed")))
        for result in self.results:
            if isinstance(result, Decision) and result.intents:
                subject = _transaction_of(result)
                for intent in result.intents:
                    put_work(WorkItem(intent, subject))
        return deferred

    @staticmethod
    def _decide_one(ledger: Ledger, input_: Input, now: Instant, utc: Instant) -> Decision | Exception:
        try:
            decision = decide(ledger, input_, now=now, utc=utc)
        except Exception as error:
            return error
        ledger.apply(decision.changes, decision.intents)
        return decision


def _transaction_of(decision: Decision) -> Transaction:
    """Return the transaction of the decision's intents."""
    for change in decision.changes:
        match change:
            case TransactionCreated(transaction):
                return transaction
            case TransactionAdvanced(_, now):
                return now
            case _:
                pass
    assert isinstance(decision.reply, Applied), "a decision with intents is about a transaction"
    return decision.reply.transaction
