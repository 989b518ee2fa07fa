"""The engine: gather what is waiting, decide it, make it durable, answer, then act. One for each process.

While a batch is being made durable the next one gathers, so group commit needs no timer. Where the store allows it, the
next one doesn't wait for the end of the first as soon as enough has gathered that shares no key with it. The store
calls the law with a working set that holds exactly what the batch reads; the law is pure, so it doesn't matter in which
thread, or how often, that happens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeAlias

import outcome
import structlog
import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.messages.changes import TransactionAdvanced, TransactionCreated
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import Intent
from mmo_sansio.messages.replies import Noted, Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads, merge
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.engine.queue import Waiting, keys_of
from mmo_trio.storage.interface.store import OutcomeUnknown, Store, StoreUnavailable
from mmo_trio.system.clock import WallClock
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.latency import Durations

logger = structlog.get_logger(__name__)

BATCH_MAX = 256
"""Inputs in one commit: beyond this the store gains nothing and the first caller waits longer."""

BESIDE_MIN = 24
"""Inputs that must wait before a batch begins beside another: a small one would cost as much as a large one, and those
in it would hardly be answered sooner."""

QUEUE_MAX = 4_096
"""Inputs that may wait for the next batches; more are refused at once (P5)."""

Act: TypeAlias = Callable[[Intent, Transaction], None]
"""Takes an intent that has just become durable, with its transaction; it must not wait."""


class DecisionFailed(Exception):
    """The law itself failed on this input, which is a fault of ours; nothing was stored."""


@frozen
class EngineStatistics:
    """What the engine has done so far."""

    batches: int
    inputs: int
    waiting: int
    turned_away: int
    """Inputs for which there was no room."""
    failed_batches: int
    """Batches that the store didn't take."""
    commits: Durations
    """How long the store took for each batch, from loading to durable."""


@define(eq=False)
class Call:
    """An input on its way through the engine. It goes through even if nobody asks for the reply."""

    given: Input
    needed: Reads = field(init=False)
    keys: frozenset[Hashable] = field(init=False)
    _task: trio.lowlevel.Task | None = None
    """Who waits for the reply."""
    _outcome: outcome.Outcome[Reply] | None = None

    def __attrs_post_init__(self) -> None:
        self.needed = reads(self.given)
        self.keys = keys_of(self.given, self.needed)

    async def reply(self) -> Reply:
        """The reply once what the input changed is durable; for one task, once. Raises what `Engine.submit` does."""
        if self._outcome is not None:
            return self._outcome.unwrap()
        self._task = trio.lowlevel.current_task()

        def stop_waiting(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        reply: Reply = await trio.lowlevel.wait_task_rescheduled(stop_waiting)
        return reply

    def answer(self, with_what: outcome.Outcome[Reply]) -> None:
        """Tell whoever waits, now or later."""
        if self._task is not None:
            trio.lowlevel.reschedule(self._task, with_what)
            self._task = None
        else:
            self._outcome = with_what


Submit: TypeAlias = Callable[[Input], Awaitable[Reply]]
"""The engine's door: the reply once what the input changed is durable; see `Engine.submit`."""

Post: TypeAlias = Callable[[Input], Call]
"""The same for who must keep an order: of inputs that touch the same, what is posted first is decided first; see
`Engine.post`."""


@define(eq=False)
class Engine:
    """Takes inputs from any task; `run` decides them, those that touch the same in the order of their arrival."""

    store: Store
    clock: WallClock
    act: Act
    queue_max: int = QUEUE_MAX
    batch_max: int = BATCH_MAX
    beside_min: int = BESIDE_MIN
    _waiting: Waiting[Call] = Factory(Waiting)
    _under_way: int = 0
    """Batches."""
    _idle: list[trio.lowlevel.Task] = Factory(list)
    _batches: int = 0
    _inputs: int = 0
    _turned_away: int = 0
    _failed_batches: int = 0
    _commits: Durations = Factory(Durations)

    async def submit(self, given: Input) -> Reply:
        """The reply to this input, once what it changed is durable.

        Raises StoreUnavailable when nothing was stored, OutcomeUnknown when that can't be learnt, DecisionFailed for
        a fault of ours. A caller that is cancelled meanwhile doesn't stop what it asked for.
        """
        return await self.post(given).reply()

    def post(self, given: Input) -> Call:
        """Send an input on its way, after all that were posted before and touch the same; its reply can be waited for
        later. Raises StoreUnavailable when there is no room."""
        if len(self._waiting) >= self.queue_max:
            self._turned_away += 1
            raise StoreUnavailable("the queue into the engine is full")
        call = Call(given)
        self._waiting.add(call)
        if self._idle and self._may_begin():
            trio.lowlevel.reschedule(self._idle.pop())
        return call

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Decide batches until cancelled. Who is still waiting then is told that nothing was stored."""
        try:
            self.clock.never_below(await self.store.latest_stamp())
            task_status.started()
            async with trio.open_nursery() as nursery:
                for _ in range(self.store.batches_in_flight):
                    nursery.start_soon(self._decide_batches)
        finally:
            for call in self._waiting.take_all():
                call.answer(outcome.Error(StoreUnavailable("shutting down")))

    def statistics(self) -> EngineStatistics:
        """What it has done so far."""
        return EngineStatistics(
            self._batches,
            self._inputs,
            len(self._waiting),
            self._turned_away,
            self._failed_batches,
            self._commits,
        )

    async def _decide_batches(self) -> None:
        """One batch after the other; as many tasks do this as there may be batches under way."""
        while True:
            while not (calls := self._gather()):
                await self._rest()
            # What is under way must be answered, whatever ends.
            with trio.CancelScope(shield=True):
                await self._decide_together(calls)
            self._waiting.end(calls)
            self._under_way -= 1

    def _may_begin(self) -> bool:
        return len(self._waiting) >= (self.beside_min if self._under_way else 1)

    def _gather(self) -> Sequence[Call]:
        calls = self._waiting.take(self.batch_max) if self._may_begin() else ()
        self._under_way += bool(calls)
        return calls

    async def _decide_together(self, calls: Sequence[Call]) -> None:
        """Decide these in one commit. When the store fails on something in it, which is a fault of ours, it fails on
        that alone: the others are decided one by one."""
        batch = _Batch(calls, self.clock)
        needed = merge(call.needed for call in calls)
        began = trio.current_time()
        try:
            await self.store.transact(needed, batch.decide)
        except (StoreUnavailable, OutcomeUnknown) as error:
            self._failed_batches += 1
            logger.warning("batch not stored", inputs=len(calls), error=str(error))
            for call in calls:
                call.answer(outcome.Error(type(error)(str(error))))
        except Exception as error:
            if len(calls) > 1:
                for call in calls:
                    await self._decide_together([call])
            else:
                kind = type(calls[0].given).__name__
                logger.error("input failed", input=kind, fault=describe_fault(error))
                calls[0].answer(outcome.Error(DecisionFailed("the store failed")))
        else:
            self._batches += 1
            self._inputs += len(calls)
            self._commits.add(trio.current_time() - began)
            batch.answer(self.act)

    async def _rest(self) -> None:
        task = trio.lowlevel.current_task()

        def stop(_: object) -> trio.lowlevel.Abort:
            self._idle.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._idle.append(task)
        await trio.lowlevel.wait_task_rescheduled(stop)


@define(eq=False)
class _Batch:
    """Calls, and what became of each."""

    calls: Sequence[Call]
    clock: WallClock
    decided: list[Decision | Exception] = Factory(list)

    def decide(self, ledger: Ledger) -> Sequence[Decision]:
        """Stamp and decide one after the other, later calls seeing what earlier ones changed. A fault of the law costs
        only its own caller: nothing of that input was applied."""
        self.clock.never_below(ledger.not_before)
        stamps = self.clock.stamps(len(self.calls))
        self.decided = [
            self._decide_one(ledger, call.given, now)
            for call, now in zip(self.calls, stamps, strict=True)
        ]
        return [each for each in self.decided if isinstance(each, Decision)]

    def answer(self, act: Act) -> None:
        """Tell every caller, then hand on what is to be done."""
        for call, became in zip(self.calls, self.decided, strict=True):
            if isinstance(became, Decision):
                call.answer(outcome.Value(became.reply))
            else:
                kind = type(call.given).__name__
                logger.error("decision failed", input=kind, fault=describe_fault(became))
                call.answer(outcome.Error(DecisionFailed("the law failed")))
        for became in self.decided:
            if isinstance(became, Decision) and became.intents:
                subject = _subject(became)
                for intent in became.intents:
                    act(intent, subject)

    @staticmethod
    def _decide_one(ledger: Ledger, given: Input, now: Instant) -> Decision | Exception:
        try:
            decision = decide(ledger, given, now=now)
        except Exception as error:
            return error
        ledger.apply(decision.changes, decision.intents)
        return decision


def _subject(decision: Decision) -> Transaction:
    """The transaction that the decision's intents are about."""
    for change in decision.changes:
        match change:
            case TransactionCreated(transaction):
                return transaction
            case TransactionAdvanced(_, now):
                return now
            case _:
                pass
    assert isinstance(decision.reply, Noted), "a decision with intents is about a transaction"
    return decision.reply.transaction
