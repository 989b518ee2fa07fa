"""The engine takes waiting inputs, decides them, makes the decisions durable, replies, then acts. A
process has one.

While a batch is being made durable, inputs for the next one collect, so group commit hardly needs a
timer: only where few callers have just got their replies does a batch wait for their next inputs,
for a moment. Where the store allows it, further batches begin before the end of the first, as soon
as enough inputs wait that share no key with it: enough is a share of those that are being made
durable, so batches are small under low load and large under high load. The store calls the payment
rules with a working set that contains exactly what the batch reads; they are pure, so it doesn't
matter in which thread, or how often, that happens.

An input comes by `Engine.submit` or `Engine.enqueue`, as a `PendingInput`, and waits in the
`InputQueue`. As many tasks as the store allows batches at once take what may be decided now
(`_next_batch`, by the rule of `next_batch_begins`), and have the store decide and commit it
(`_commit_batch`): it calls `Batch.decide`. `Batch.complete` then gives each caller its reply, and
the `Outbox` the work that follows. Commands, which run beside a serving process or without one, use
`submit_once`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextvars import Context, copy_context
from typing import TypeAlias

import outcome
import structlog
import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.messages.changes import TransactionAdvanced, TransactionCreated
from mmo_sansio.messages.inputs import (
    CallbackConcluded,
    CreatePayment,
    Input,
    ProviderAccepted,
    QrConcluded,
)
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads, merge_reads
from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant, Span, earlier
from mmo_sansio.values.model import Transaction
from mmo_trio.settings.sections import ENGINE_BATCH_MAX, ENGINE_QUEUE_MAX
from mmo_trio.storage.interface.store import (
    HANGS_AFTER_S,
    STORE_ERRORS,
    OutcomeUnknown,
    StoreUnavailable,
    WorkItem,
    log_store_failure,
)
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.latency import LatencyHistogram
from mmo_trio.system.waiting import ParkingSpot

logger = structlog.get_logger(__name__)

# Inputs in active batches for each one that must wait before a further batch begins. During large
# batches a small one would cost much for the few who get their replies sooner; during small ones to
# wait would cost more.
ACTIVE_PER_WAITING = 2

# Inputs for which a batch may wait, and for which unhurried inputs wait: what more of them save is
# little for each.
COALESCED_MAX = 8

# Inputs for whose record nobody waits. Where one gets lost with its process, its payment is polled,
# its callback or code is sent again (S5, K3).
UNHURRIED = (ProviderAccepted, CallbackConcluded, QrConcluded)

# Seconds that such an input waits for others to share their commit: at 100 payments a second nine
# of ten do.
PATIENCE_S = 0.01

# Waiting inputs that are scanned for a second batch: when many wait for an active key, a longer
# scan would cost more than it finds.
SCAN_MAX = 512

# How old a request may be when its payment is created: as old as one that a listener takes. Later
# its sender may have given it up, and paid otherwise.
CREATION_AGE_MAX = Span(10 * SECOND)

# How old a request may become before its client is looked for, and before no further ones are taken
# behind it: under overload all of a long queue would else be answered too late.
CLIENT_PATIENCE = Span(1 * SECOND)

# So many batches must wait before a queue is judged by the age of its first input: a store that
# does not answer for a while lets few wait.
LATE_QUEUE_BATCHES = 2

_TOO_OLD = "the request has waited too long"
_GIVEN_UP = "the client has closed its connection"
_TOO_LATE = "those who wait already are answered late"
_WAITED_IN_VAIN = "the store does not answer, and this has waited as long as the batch before it"

# Why nothing is created.
_MAY_HAVE_WAITED = "this process was suspended, and the request may have waited as long"

_BREAKERS_KEY = frozenset(("breakers",))


class DecisionFailed(Exception):
    """The payment rules failed on this input, by an error in this program; nothing was stored."""


@frozen
class Sender:
    """Holds what is known of the client who waits for a creation."""

    asked_at: MonotonicInstant
    """When its request was read, as time since the machine started."""
    has_left: Callable[[], bool]
    """Tells whether it has closed its connection. Any thread may call this."""


@define(eq=False)
class PendingInput(ParkingSpot[Reply]):
    """An input on its way through the engine. The engine decides it even if no task waits for the
    reply."""

    input: Input
    received_at: MonotonicInstant
    """When the engine got it, as time since the machine started."""
    sender: Sender | None = None
    reads: Reads = field(init=False)
    keys: frozenset[Hashable] = field(init=False)
    _outcome: outcome.Outcome[Reply] | None = None

    def __attrs_post_init__(self) -> None:
        self.reads = reads(self.input)
        self.keys = conflict_keys(self.input, self.reads)

    @property
    def asked_at(self) -> MonotonicInstant:
        """When its request was read, as time since the machine started; when the engine got it
        where there is none."""
        # Staff's acts, reports and wakes have no client who could give up.
        if self.sender is None:
            return self.received_at
        return self.sender.asked_at

    async def reply(self) -> Reply:
        """Return the reply once what the input changed is durable; one task may call this, once.
        Raises what `Engine.submit` does."""
        # The batch may have ended before its caller got here: `enqueue` hands out inputs to wait
        # for later.
        if self._outcome is not None:
            return self._outcome.unwrap()
        return await self.park()

    def complete(self, result: outcome.Outcome[Reply]) -> None:
        """Hand over the reply to the task that waits for it, now or later."""
        if not self.unpark(result):
            self._outcome = result


def conflict_keys(input_: Input, reads: Reads) -> frozenset[Hashable]:
    """Return the keys of an input, which order it among others; an intent's key is that of its
    payment. Merchants' breakers are one key: an outcome brings the breaker as it is afterwards, the
    later one counts, and its merchant isn't known before the payment is loaded."""
    keys: frozenset[Hashable] = reads.transactions.union(
        reads.references, reads.deposits, reads.claims
    )
    # Two outcomes of one merchant in two concurrent batches could store the earlier breaker last.
    if isinstance(input_, CallbackConcluded) and input_.breaker is not None:
        return keys | _BREAKERS_KEY
    return keys


def next_batch_begins(waiting: int, awaited: int, active: int, active_per_waiting: int) -> bool:
    """Return whether a further batch begins now, by how many inputs wait in the queue, how many
    callers are still awaited, and how many inputs are in batches that are not yet durable.

    - Nothing waits: no batch begins.
    - Fewer wait than are awaited: their callers have just got their replies, and a batch that left
      them out would make each of them wait for a whole commit more.
    - Enough wait for those that are active: a batch begins. With no active ones, one is enough."""
    if waiting == 0 or waiting < awaited:
        return False
    return waiting * active_per_waiting >= active


@define(eq=False)
class InputQueue:
    """Holds waiting inputs, and chooses those that may be decided during another batch.

    Inputs with a common key are decided in the order of their arrival. While one of them is in a
    batch, the later ones wait, and none overtakes another with which it shares a key. No input
    waits longer than for the active batches: once they have ended, the first in the queue is taken
    first."""

    _queued: deque[PendingInput] = Factory(deque)
    _active_keys: set[Hashable] = Factory(set)
    """The keys of active inputs; no two of these share one."""

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def first(self) -> PendingInput:
        """The input that has waited longest; there must be one."""
        return self._queued[0]

    def add(self, input_: PendingInput) -> None:
        self._queued.append(input_)

    def take_batch(self, limit: int) -> Sequence[PendingInput]:
        """Take the first inputs that share no key with an active or an earlier waiting one, at most
        so many; they are active from now on."""
        # Nothing is being made durable, so nothing can clash, and within a batch inputs keep their
        # order: the usual case needs no look at any key.
        if not self._active_keys:
            taken = [self._queued.popleft() for _ in range(min(limit, len(self._queued)))]
        else:
            taken = self._take_concurrent(limit)
        self._active_keys.update(*(pending.keys for pending in taken))
        return taken

    def _take_concurrent(self, limit: int) -> list[PendingInput]:
        taken: list[PendingInput] = []
        passed: list[PendingInput] = []

        # Keys that are taken: those of active batches, and of whatever is passed over here, so that
        # an input never overtakes an earlier one of the same payment.
        closed = set(self._active_keys)
        while self._queued and len(taken) < limit and len(taken) + len(passed) < SCAN_MAX:
            pending = self._queued.popleft()
            if closed.isdisjoint(pending.keys):
                taken.append(pending)
            else:
                passed.append(pending)
                closed |= pending.keys

        # What was passed over goes back to the front in its old order.
        self._queued.extendleft(reversed(passed))
        return taken

    def finish(self, inputs: Iterable[PendingInput]) -> None:
        """Mark these inputs as no longer active."""
        self._active_keys.difference_update(*(pending.keys for pending in inputs))

    def take_older(self, than: MonotonicInstant) -> Sequence[PendingInput]:
        """Take out the inputs that were received before this time since the machine started."""
        older = [queued for queued in self._queued if queued.received_at < than]
        self._queued = deque(queued for queued in self._queued if queued.received_at >= than)
        return older

    def drain(self) -> Sequence[PendingInput]:
        """Take out all inputs."""
        every = list(self._queued)
        self._queued.clear()
        return every


@define(eq=False)
class Outbox:
    """Passes work that has just become durable from the engine to its subscriber, at once and in
    order."""

    put: Callable[[WorkItem], None] = field(init=False)
    """Hands over work; work from before the subscription is kept for the subscriber."""
    _unreceived: list[WorkItem] = Factory(list)

    def __attrs_post_init__(self) -> None:
        # The engine is made before the workers, which submit to it: until they subscribe, work is
        # kept.
        self.put = self._unreceived.append

    def subscribe(self, receive: Callable[[WorkItem], None]) -> None:
        """Pass all work to `receive` from now on; it must not wait."""
        self.put = receive
        for work in self._unreceived:
            receive(work)
        self._unreceived.clear()


@define(eq=False)
class EngineStatistics:
    """The engine's counters since its start."""

    batches: int = 0
    inputs: int = 0
    rejected: int = 0
    """Inputs that found the queue full, and creations that would have waited too long in it."""
    failed_batches: int = 0
    """Batches that the store couldn't commit."""
    last_commit_at: float = -math.inf
    """Trio's time of the last commit that stored something; minus infinity before the first."""
    last_failure_at: float = -math.inf
    """Trio's time at which a batch last could not be committed, or not for certain."""
    commit_durations: LatencyHistogram = Factory(LatencyHistogram)
    """How long the store took for each batch, from loading to the end of the commit."""


# Returns the reply once what the input changed is durable; see `Engine.submit`.
Submit: TypeAlias = Callable[[Input], Awaitable[Reply]]

# The same for callers that need an order: of inputs with a common key, the first to be enqueued is
# decided first; see `Engine.enqueue`.
Enqueue: TypeAlias = Callable[[Input], PendingInput]


@define(eq=False)
class Engine:
    """Takes inputs from any task; `run` decides them, those with a common key in the order of their
    arrival."""

    store: Store
    clock: GatewayClock
    outbox: Outbox
    queue_max: int = ENGINE_QUEUE_MAX
    batch_max: int = ENGINE_BATCH_MAX
    active_per_waiting: int = ACTIVE_PER_WAITING
    coalescing_pause_s: float = 0.0
    """Seconds without a further input after which a batch begins although fewer wait than were on
    their way at the end of the one before; 0 lets every batch begin at once."""
    statistics: EngineStatistics = Factory(EngineStatistics)
    _context: Context = Factory(copy_context)
    """The context of the engine, in which the work that follows begins; a caller's may be another
    process's."""
    _queue: InputQueue = Factory(InputQueue)
    _active_inputs: int = 0
    """Inputs in batches that are not yet durable."""
    _expected_inputs: int = 0
    """How many callers had an input in the last batch or waited at its end: as many may send their
    next one soon. It stays so until the end of the next batch."""
    _awaited_inputs: int = 0
    """The same number for as long as a task of this engine holds back a batch for these inputs;
    else 0: one is enough."""
    _idle: list[ParkingSpot[None]] = Factory(list)
    """Where tasks of this engine wait for inputs."""
    _patient: list[PendingInput] = Factory(list)
    """Inputs that wait for others before they are queued, in the order of their arrival."""
    _patience: trio.CancelScope = Factory(trio.CancelScope)
    """Ends when the first of these has waited long enough: one deadline that moves costs less than
    a scope for each."""

    @property
    def queued(self) -> int:
        """The inputs that wait for a batch."""
        return len(self._queue) + len(self._patient)

    async def submit(self, input_: Input, sender: Sender | None = None) -> Reply:
        """Return the reply to this input, once what it changed is durable. `sender`: the client who
        waits for it, where there is one. One of `UNHURRIED` waits for others for a moment.

        Raises StoreUnavailable when nothing was stored, OutcomeUnknown when nobody can learn that,
        DecisionFailed for an error in this program. A caller's cancellation doesn't stop its input;
        one whose input is being made durable may go on only then."""
        # 1. Nobody waits for these, so they may share the commit of others.
        if isinstance(input_, UNHURRIED):
            return await self._add_patient(input_).reply()

        # 2. All others join the queue at once.
        call = self._add(input_, sender)

        # A caller who is alone decides the batch itself: to wake a task of the engine for it, and
        # that one the caller, would cost two more turns of Trio's loop.
        if self._idle and self._expected_inputs <= 1 and self._can_start_batch():
            await self._decide_as_caller()
        else:
            self._start_batch_if_possible()

        # 3. The reply comes when what it says is durable, never before.
        return await call.reply()

    def enqueue(self, input_: Input) -> PendingInput:
        """Add an input to the queue, behind all that share a key with it; the caller may wait for
        its reply later. Raises StoreUnavailable when the queue is full."""
        call = self._add(input_)
        self._start_batch_if_possible()
        return call

    def _add_patient(self, input_: Input) -> PendingInput:
        """Queue the input ahead of the next one that comes, or with enough of its kind, or after
        `PATIENCE_S`."""
        call = self._admit(input_)
        if not self._patient:
            self._patience.deadline = trio.current_time() + PATIENCE_S
        self._patient.append(call)
        if len(self._patient) >= COALESCED_MAX:
            self._queue_patient()
            self._start_batch_if_possible()
        return call

    def _add(self, input_: Input, sender: Sender | None = None) -> PendingInput:
        call = self._admit(input_, sender)
        # What waits for others goes first, or a later input of the same payment would overtake it.
        if self._patient:
            self._queue_patient()
        self._queue.add(call)
        return call

    def _admit(self, input_: Input, sender: Sender | None = None) -> PendingInput:
        now = self.clock.since_boot()

        # A bound on memory and on waiting: who is turned away here knows that nothing was stored,
        # and may come again (P5).
        if len(self._queue) + len(self._patient) >= self.queue_max:
            self.statistics.rejected += 1
            raise StoreUnavailable("the queue into the engine is full")

        # Only creations are shed. A result or a callback's outcome is about money that moves
        # already.
        if isinstance(input_, CreatePayment) and self._is_late(now):
            self.statistics.rejected += 1
            raise StoreUnavailable(_TOO_LATE)
        return PendingInput(input_, now, sender)

    def _is_late(self, now: MonotonicInstant) -> bool:
        """Return whether a creation that comes now would have to wait too long."""
        if len(self._queue) < LATE_QUEUE_BATCHES * self.batch_max:
            return False
        return self._queue.first.received_at < earlier(now, CLIENT_PATIENCE)

    def _queue_patient(self) -> None:
        """Queue what waits for others, ahead of what comes now: inputs with a common key keep their
        order."""
        for waiting in self._patient:
            self._queue.add(waiting)
        self._patient.clear()
        self._patience.deadline = math.inf

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Decide batches until cancelled; then raise StoreUnavailable in the callers that still
        wait."""
        try:
            # The engine's own context: work that a batch starts belongs to this process's logs and
            # clocks.
            self._context = copy_context()

            # Before the first input: all that is stored is dated by this clock.
            await begin_clock(self.clock, self.store)
            task_status.started()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_patience)
                for _ in range(self.store.batches_in_flight):
                    nursery.start_soon(self._decide_batches)
        finally:
            self._queue_patient()
            for call in self._queue.drain():
                call.complete(outcome.Error(StoreUnavailable("shutting down")))

    async def _end_patience(self) -> None:
        """Queue the inputs that have waited in vain for others."""
        while True:
            with self._patience:
                await trio.sleep_forever()
            self._patience = trio.CancelScope()
            self._queue_patient()
            self._start_batch_if_possible()

    async def _decide_batches(self) -> None:
        """Decide one batch after the other; as many tasks run this as the store allows batches at
        once."""
        while True:
            await self._coalesce_inputs()
            while not (calls := self._next_batch()):
                await self._wait_for_batch()
                await self._coalesce_inputs()

            # The callers of a batch get their replies even when the engine ends. A scope costs 6
            # us, so one serves all batches that follow each other.
            with trio.CancelScope(shield=True):
                while calls:
                    await self._decide_batch(calls)
                    await self._coalesce_inputs()
                    calls = self._next_batch()

    async def _decide_as_caller(self) -> None:
        """Decide the next batch in the caller's task, in the place of an idle one of the engine."""
        # Out of the list meanwhile, so that no more batches run at once than the store allows.
        spot = self._idle.pop()
        try:
            with trio.CancelScope(shield=True):
                if calls := self._next_batch():
                    await self._decide_batch(calls)
        finally:
            if spot.is_taken:
                self._idle.append(spot)

        self._start_batch_if_possible()

    async def _decide_batch(self, calls: Sequence[PendingInput]) -> None:
        await self._commit_batch(calls)
        self._queue.finish(calls)
        self._active_inputs -= len(calls)
        # As many may come again at once: those just answered, and those who wait already.
        self._expected_inputs = min(len(calls) + len(self._queue), self.batch_max, COALESCED_MAX)

    async def _coalesce_inputs(self) -> None:
        """Let the callers of the last batch, who have just got their replies, send their next
        inputs before another batch begins: with few callers, each batch would otherwise leave out
        those who were answered last."""
        if not self.coalescing_pause_s:
            return

        self._awaited_inputs = self._expected_inputs
        try:
            # Each arrival gives the others a further pause; one pause without any ends the waiting.
            while 0 < (waiting := len(self._queue)) < self._awaited_inputs:
                with trio.move_on_after(self.coalescing_pause_s):
                    await self._wait_for_batch()
                if len(self._queue) == waiting:
                    break
        finally:
            self._awaited_inputs = 0

    def _start_batch_if_possible(self) -> None:
        if self._idle and self._can_start_batch():
            self._idle.pop().unpark(outcome.Value(None))

    def _can_start_batch(self) -> bool:
        return next_batch_begins(
            len(self._queue), self._awaited_inputs, self._active_inputs, self.active_per_waiting
        )

    def _next_batch(self) -> Sequence[PendingInput]:
        if self._can_start_batch():
            calls = self._queue.take_batch(self.batch_max)
        else:
            calls = ()
        self._active_inputs += len(calls)
        return calls

    async def _commit_batch(self, pending_inputs: Sequence[PendingInput]) -> None:
        """Decide these in one commit. When the store raises an error of this program, decide them
        one by one, so that only the input with the error fails."""
        batch = Batch(pending_inputs, self.clock, self.clock.since_boot())
        needed = merge_reads(call.reads for call in pending_inputs)
        began = trio.current_time()
        try:
            await self.store.transact(needed, batch.decide)
        except STORE_ERRORS as error:
            # 1. The store did not take it, or cannot say: every caller is told which of the two.
            self.statistics.failed_batches += 1
            self.statistics.last_failure_at = trio.current_time()
            log_store_failure(logger, "batch_commit_failed", error, inputs=len(pending_inputs))
            failure = OutcomeUnknown if isinstance(error, OutcomeUnknown) else StoreUnavailable
            for call in pending_inputs:
                call.complete(outcome.Error(failure(str(error))))

            # Those behind have waited as long as this batch: the store would let them wait again.
            if trio.current_time() - began >= HANGS_AFTER_S:
                for call in self._queue.take_older(batch.begun_at):
                    call.complete(outcome.Error(StoreUnavailable(_WAITED_IN_VAIN)))
        except Exception as error:
            # 2. An error of this program: the input that causes it must not fail its neighbours.
            if len(pending_inputs) > 1:
                for call in pending_inputs:
                    await self._commit_batch([call])
                return

            kind = type(pending_inputs[0].input).__name__
            logger.error("input_failed", input=kind, fault=describe_fault(error))
            pending_inputs[0].complete(outcome.Error(DecisionFailed("the store failed")))
        else:
            # 3. It is durable: only now callers are answered, and what follows begins.
            now = trio.current_time()
            self.statistics.batches += 1

            # What stores nothing does not show that the store can be written to.
            if batch.has_changes():
                self.statistics.last_commit_at = now

            self.statistics.commit_durations.observe(now - began)
            # What follows belongs to this engine's process, whichever task has decided the batch.
            self._context.run(batch.complete, self.outbox.put)
            self.statistics.inputs += len(pending_inputs)

    async def _wait_for_batch(self) -> None:
        spot: ParkingSpot[None] = ParkingSpot()

        def leave() -> None:
            if spot in self._idle:  # A caller who decides a batch has taken it out meanwhile.
                self._idle.remove(spot)

        self._idle.append(spot)
        await spot.park(on_cancel=leave)


@define(eq=False)
class Batch:
    """Holds inputs that are decided in one commit, and the result of each."""

    pending_inputs: Sequence[PendingInput]
    clock: GatewayClock
    begun_at: MonotonicInstant
    """When its commit was begun, as time since the machine started."""
    results: list[Decision | Exception] = Factory(list)

    def decide(self, ledger: Ledger) -> Sequence[Decision]:
        """Decide one after the other, each at a moment of its own, so that later inputs see what
        earlier ones changed. An error in the payment rules fails only its own input, of which
        nothing is applied. Nothing is created for a sender who has given up, or may have: he may
        have paid otherwise."""
        since_boot = self.clock.since_boot()
        moments = self.clock.next_moments(len(self.pending_inputs), after=ledger.not_before)

        # The store may call this twice, when it has to begin its transaction again.
        self.results = []
        for call, (now, utc) in zip(self.pending_inputs, moments, strict=True):
            reason = self._why_unwanted(call, since_boot)
            if reason is not None:
                self.results.append(StoreUnavailable(reason))
            else:
                self.results.append(self._decide_one(ledger, call.input, now, utc))

        return [result for result in self.results if isinstance(result, Decision)]

    def _why_unwanted(self, call: PendingInput, since_boot: MonotonicInstant) -> str | None:
        """Return why nothing is created for this input; None where it is to be decided."""
        if not isinstance(call.input, CreatePayment):
            return None

        # From here on, in the order of how certain it is that the client has given up. He may pay
        # again elsewhere, so a payment that is created now could be paid twice.
        if call.asked_at < self.clock.requests_count_since():
            return _MAY_HAVE_WAITED
        if call.asked_at < earlier(since_boot, CREATION_AGE_MAX):
            return _TOO_OLD
        if call.sender is None or call.asked_at >= earlier(since_boot, CLIENT_PATIENCE):
            return None

        # The socket is looked at only for requests that are late: a system call for each would cost
        # more.
        if call.sender.has_left():
            return _GIVEN_UP

        return None

    def has_changes(self) -> bool:
        """Return whether any decision changes what is stored."""
        return any(isinstance(result, Decision) and result.changes for result in self.results)

    def complete(self, put_work: Callable[[WorkItem], None]) -> None:
        """Complete the callers' inputs, then hand over the work that follows."""
        for call, result in zip(self.pending_inputs, self.results, strict=True):
            if isinstance(result, Decision):
                call.complete(outcome.Value(result.reply))
            elif isinstance(result, StoreUnavailable):
                call.complete(outcome.Error(result))
            else:
                kind = type(call.input).__name__
                logger.error("decide_failed", input=kind, fault=describe_fault(result))
                call.complete(outcome.Error(DecisionFailed("the decision failed")))

        # Replies first, as clients wait for them; what follows has workers of its own.
        for result in self.results:
            if isinstance(result, Decision) and result.intents:
                subject = _transaction_of(result)
                for intent in result.intents:
                    put_work(WorkItem(intent, subject, self.begun_at))

    @staticmethod
    def _decide_one(
        ledger: Ledger, input_: Input, now: Instant, utc: Instant
    ) -> Decision | Exception:
        try:
            decision = decide(ledger, input_, now=now, utc=utc)
        except Exception as error:
            return error
        ledger.apply(decision.changes, decision.intents)
        return decision


def _transaction_of(decision: Decision) -> Transaction:
    for change in decision.changes:
        match change:
            case TransactionCreated(transaction):
                return transaction
            case TransactionAdvanced(_, now):
                return now
            case _:
                pass

    # Intents without a change, such as a repeated request for a code.
    assert isinstance(decision.reply, Applied), "a decision with intents is about a transaction"
    return decision.reply.transaction


async def continue_clock(clock: GatewayClock, store: Store) -> None:
    """Continue the gateway's own time from the latest record in the store, if there is one. Raises
    StoreUnavailable."""
    if (found := await store.clock_record(clock.boot_id())) is not None:
        clock.continue_from(found.record, down_for=found.age)


async def begin_clock(clock: GatewayClock, store: Store) -> None:
    """Continue the gateway's own time, and save where it goes on, before anything is dated by it:
    after a restart of the machine with a clock that was ahead, a later process with the right clock
    would else wait days for what is due. Raises StoreUnavailable."""
    await continue_clock(clock, store)
    try:
        await store.save_clock_record(clock.record())
    except OutcomeUnknown as error:
        raise StoreUnavailable(
            "it is not known whether the gateway's own time was saved"
        ) from error


async def submit_once(store: Store, input_: Input, clock: GatewayClock) -> Reply:
    """Return the reply to this input, once what it changed is durable; see `submit_batch_once`."""
    [reply] = await submit_batch_once(store, [input_], clock)
    return reply


async def submit_batch_once(
    store: Store, inputs: Sequence[Input], clock: GatewayClock
) -> Sequence[Reply]:
    """Decide inputs in a store that this process does not serve, as commands do: return the replies
    once what the inputs changed is durable, in one commit.

    Their intents, such as callbacks, wait in the store for the process that serves it. Raises
    StoreUnavailable and OutcomeUnknown as the store does."""
    await continue_clock(clock, store)

    def decide_all(ledger: Ledger) -> Sequence[Decision]:
        decisions = []
        moments = clock.next_moments(len(inputs), after=ledger.not_before)
        for input_, (now, utc) in zip(inputs, moments, strict=True):
            decision = decide(ledger, input_, now=now, utc=utc)
            ledger.apply(decision.changes, decision.intents)
            decisions.append(decision)
        return decisions

    decisions = await store.transact(merge_reads(map(reads, inputs)), decide_all)
    return [made.reply for made in decisions]
