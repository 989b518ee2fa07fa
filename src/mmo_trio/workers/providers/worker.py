"""Submits payments to providers, polls them, and reports the results to the engine.

A request that may move money leaves only after the engine has recorded the submission (`Applied`).
A payment is in one conversation at a time. A conversation ends before the payment rules consider
its submission lost, and nothing is sent after its deadline: a process that was stopped and goes on
must not send a payment that has been polled meanwhile (S6)."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType

import structlog
import trio
from attrs import Factory, define, evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages import inputs
from mmo_sansio.messages.intents import DeliverCallback, PollEnded, PollProvider, SubmitToProvider
from mmo_sansio.messages.replies import Accepted, Applied, Ignored, Reply
from mmo_sansio.payments.answers import answers_ended_poll
from mmo_sansio.providers.common.interface import (
    Conversation,
    ExchangeFailed,
    PaymentReports,
    Provider,
    may_commit,
)
from mmo_sansio.providers.common.operations import (
    OperationKey,
    ProviderOperation,
    operation_key,
    resubmission_ends_at,
    with_poll_interval,
    with_version,
)
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Order, Stage, Status, Transaction, Type
from mmo_trio.engine.engine import Sender, Submit
from mmo_trio.storage.interface.store import (
    OutcomeUnknown,
    StoreUnavailable,
    WorkItem,
    log_store_failure,
)
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.ids import request_id_generator
from mmo_trio.system.latency import EXTERNAL_BUCKETS_S, LatencyHistogram
from mmo_trio.system.logs import simulated_mark
from mmo_trio.workers.providers.account import ResultT, SendRequest, drive_async
from mmo_trio.workers.providers.kept_hints import HintFile
from mmo_trio.workers.providers.payer_urls import without_refused_url
from mmo_trio.workers.providers.unanswered_polls import UnansweredPolls

logger = structlog.get_logger(__name__)

# Simultaneous conversations with one provider: enough to fill the engine's batches. A slow provider
# delays its own payments only.
CONVERSATIONS_MAX = 256

# Work items that may wait for a conversation with one provider.
WAITING_MAX = 10_000

# Hints of notifications that may wait in memory for the store: of each at most some kilobytes.
KEPT_HINTS_MAX = 1_000

# Seconds between two polls of one payment that has ended, as the payment rules have it for pending
# ones.
ENDED_POLL_INTERVAL_S = 2.0

# Seconds between two polls of payments that have ended, of one provider: they leave its rate, and
# the processor, to payments that somebody waits for, also when thousands have expired together.
ENDED_POLL_PAUSE_S = 0.1

# Seconds for a conversation, from before its submission is recorded; shorter than
# SUBMISSION_TIMEOUT of the payment rules.
CONVERSATION_TIMEOUT_S = 20.0

# Seconds that active conversations have once the worker drains.
DRAIN_GRACE_S = 20.0

# Seconds before the first retry; the delay doubles each time.
RETRY_DELAY_S = 0.5

# The longest delay in seconds while the store is unavailable.
STORE_RETRY_DELAY_MAX_S = 15.0

# For how long a commit whose outcome is unknown may still become durable.
IN_DOUBT_MAX_S = 900.0

# The longest delay in seconds until it is looked for again.
IN_DOUBT_DELAY_MAX_S = 60.0

# The longest delay in seconds before a payment that certainly did not reach its provider is
# submitted again: each submission adds lines to its journal. Also the longest before an input that
# cannot be decided is repeated.
SUBMISSION_RETRY_DELAY_MAX_S = 300.0

# Seconds between two looks whether a payment that is held back will not be sent at all.
HOLD_CHECKED_EVERY_S = 30.0

# How often an input that cannot be decided is tried, in some 4 s, before its conversation makes
# room for others.
TRIES_IN_PLACE = 4

# The label of each kind of report in the metrics.
REPORT_LABELS: Mapping[type[inputs.ProviderReport], str] = MappingProxyType(
    {
        inputs.ProviderAccepted: "accepted",
        inputs.ProviderSucceeded: "succeeded",
        inputs.ProviderFailed: "failed",
        inputs.ProviderUnreachable: "unreachable",
        inputs.ProviderNeverReceived: "never_received",
        inputs.ProviderCannotTell: "cannot_tell",
    }
)


@define(eq=False)
class ProviderCounts:
    """Counts the work with one provider since the start."""

    submissions: int = 0
    polls: int = 0
    reports: Counter[str] = Factory(Counter)
    """Ended conversations by the label of their report."""
    exchange_durations: LatencyHistogram = Factory(lambda: LatencyHistogram(EXTERNAL_BUCKETS_S))
    """Durations of exchanges, including those without an answer."""
    failed_exchanges: int = 0
    """Requests without a usable answer, including those that were not sent."""
    results: Counter[Status] = Factory(Counter)
    """Payments whose end this process has stored."""


@define(eq=False)
class _ProviderQueue:
    """Holds the waiting work and counts the active conversations of one provider."""

    waiting: deque[WorkItem] = Factory(deque)
    active: int = 0
    ended: dict[str, WorkItem] = Factory(dict)
    """The latest poll of each payment that has ended: one at a time, while no other work waits."""
    is_polling_ended: bool = False


@define(eq=False)
class EndedPolls:
    """Knows when each ended payment was polled of late; times are seconds of Trio's clock."""

    _polled_at: dict[str, float] = Factory(dict)
    """In the order of the times, so that the earliest are forgotten first."""
    waiting: dict[str, WorkItem] = Factory(dict)
    """The latest poll of each payment that has to wait."""

    def delay_s(self, work: WorkItem, now: float) -> float:
        """Return 0 when the payment may be polled now, and remember that it is; otherwise the
        seconds for which it stays in `waiting`, or -1 when it only takes the place of one that
        waits already."""
        # Those of longer ago than an interval say nothing any more.
        reference = work.intent.gateway_reference
        while (
            self._polled_at and next(iter(self._polled_at.values())) + ENDED_POLL_INTERVAL_S <= now
        ):
            del self._polled_at[next(iter(self._polled_at))]

        if reference not in self._polled_at:
            self._polled_at[reference] = now
            return 0.0

        is_first = reference not in self.waiting
        self.waiting[reference] = work
        if is_first:
            return self._polled_at[reference] + ENDED_POLL_INTERVAL_S - now

        return -1.0


async def _try_none(*_: object) -> bool:
    return False


@define(eq=False)
class ProviderWorker:
    """Accepts intents to submit and to poll, from any task of this process."""

    submit: Submit
    providers: Mapping[str, Provider]
    exchange_for: Callable[[str], SendRequest]
    """Returns the function that sends submissions to the provider with this name."""
    ask_for: Callable[[str], SendRequest]
    """Returns the function that sends it questions."""
    moment: Callable[[], Moment]
    conversations_max: int = CONVERSATIONS_MAX
    waiting_max: int = WAITING_MAX
    is_closed: Callable[[str], bool] = lambda _: False
    """Tells whether a user has closed the provider with this name for new payments."""
    hold_of: Callable[[str, Type], trio.Event | None] = lambda *_: None
    """Returns what is set once the provider with this name can process payments of this type again,
    or one is to be tried; None: it can."""
    begin_trial: Callable[[str, Type], Awaitable[bool]] = _try_none
    """Tells whether one payment of this type is to be sent though they are held: it shows whether
    the provider with this name still refuses them."""
    simulated_providers: frozenset[str] = frozenset()
    """Those by whose accounts no money moves."""
    hint_file: HintFile | None = None
    """Where hints are kept that wait for the store; None: in memory only."""
    _conversations: trio.Nursery | None = None
    """Runs the conversations; None while none may start."""
    _timers: trio.Nursery | None = None
    """Runs the delays of repeated submissions."""
    _queues: dict[str, _ProviderQueue] = Factory(dict)
    _claimed: dict[str, WorkItem | None] = Factory(dict)
    """The unfinished work by gatewayReference, with the work that follows it, if any."""
    _next_attempt: Callable[[], str] = Factory(request_id_generator)
    """Names each attempt to record a submission."""
    _ended_polls: EndedPolls = Factory(EndedPolls)
    _unanswered: UnansweredPolls = Factory(UnansweredPolls)
    _reserved: dict[str, float] = Factory(dict)
    """The start of the reservation by Trio's clock, by gatewayReference of payments that are not
    durable yet."""
    _conversation_finished: trio.Event = Factory(trio.Event)
    """Set, and replaced, whenever work is finished."""
    counts: dict[str, ProviderCounts] = field(init=False)
    """By the name of the provider."""
    _operations: dict[str, Mapping[OperationKey, ProviderOperation]] = field(init=False)
    """What each provider offers, by its name."""
    _postponed: dict[str, WorkItem] = Factory(dict)
    """Submissions that wait until they are made again, by their references; all are claimed."""
    _tried: set[str] = Factory(set)
    """The references of those that are to be sent though their kind is held."""
    kept_hints: int = 0
    """Hints of notifications in memory, which wait for the store."""
    dropped_polls: int = 0
    """Polls without room in the queue; each payment is polled again at its next time."""

    def __attrs_post_init__(self) -> None:
        self.counts = {name: ProviderCounts() for name in self.providers}

        # Once, as an adapter may put them together, and every payment asks.
        self._operations = {name: known.operations for name, known in self.providers.items()}

    def note_result(self, work: WorkItem) -> None:
        """Count the end of a payment, if this is what has just been stored."""
        counts = self.counts.get(work.transaction.order.provider)
        if counts is not None and isinstance(work.intent, DeliverCallback):
            counts.results[work.transaction.status] += 1

    def try_enqueue(self, work: WorkItem) -> bool:
        """Accept work, or return False so that the caller offers it again later.

        A poll is dropped when its payment has work in progress or the queue is full, as the payment
        will be polled again. A submission, or the poll of a payment that has ended, follows the
        unfinished work of its payment, because that work may be its cause, or end without an
        answer. A payment that has ended is polled at most once in two seconds, however many hints
        come, and after all others; it is polled until the provider answers."""
        is_poll = isinstance(work.intent, PollProvider)

        # 1. A payment in progress: a poll is dropped, all else follows. The poll of a payment whose
        #    submission waits here says that another process has submitted it since.
        reference = work.intent.gateway_reference
        if reference in self._claimed:
            if not is_poll:
                self._claimed[reference] = work
            elif self._postponed.pop(reference, None):
                self._enqueue(self._queues[work.transaction.order.provider], work)

            return True

        # 2. An account that was removed from the settings: nobody can send to it, or ask it.
        provider = work.transaction.order.provider
        if provider not in self.providers:
            mark = simulated_mark(work.transaction.order)
            logger.error("provider_not_configured", provider=provider, reference=reference, **mark)
            return True

        # 3. As far as there is room.
        queue = self._queues.setdefault(provider, _ProviderQueue())
        if isinstance(work.intent, PollEnded):
            waiting = len(queue.ended) + self._unanswered.count(provider)
        else:
            waiting = len(queue.waiting)

        if waiting >= self.waiting_max:
            self.dropped_polls += is_poll
            return is_poll

        self._take(queue, work)
        return True

    def try_reserve(self, reference: str, provider: str, operation: OperationKey) -> bool:
        """Reserve a conversation for the submission of a payment that is about to be created, if
        one is free and none waits for it. `send_reserved` or `release` has to follow.

        Where the provider cannot be polled nothing is reserved: if this process died before it
        sends, nobody could learn that."""
        known = self._operations.get(provider)
        if self._conversations is None or known is None or self.is_closed(provider):
            return False
        if self.hold_of(provider, operation[0]) is not None:
            return False

        offered = known.get(operation)
        if offered is None or not offered.can_be_polled:
            return False

        # Not before those that wait: first come, first served.
        queue = self._queues.setdefault(provider, _ProviderQueue())
        if queue.waiting or queue.active >= self.conversations_max:
            return False

        queue.active += 1
        self._reserved[reference] = trio.current_time()
        return True

    def send_reserved(self, transaction: Transaction) -> None:
        """Submit a payment whose submission is on record since its creation, in the conversation
        that was reserved for it."""
        reference = transaction.reference
        queue = self._queues[transaction.order.provider]
        began_at = self._reserved.pop(reference)

        # This process is ending: nothing was sent, and the payment is polled.
        if self._conversations is None:
            queue.active -= 1
            return

        self._claimed[reference] = None
        self._conversations.start_soon(self._handle_reserved, queue, transaction, began_at)

    def release(self, reference: str, provider: str) -> None:
        """Give back a reserved conversation that is not needed; nothing happens when it is."""
        if self._reserved.pop(reference, None) is not None:
            queue = self._queues[provider]
            queue.active -= 1
            self._start_conversations(queue)

    def report_unsent(self, reference: str, provider: str) -> None:
        """Report, as soon as the store can, that nothing was sent of a payment that may have become
        durable with its submission on record: a worker submits it then. While this process ends it
        is polled instead."""
        if self._timers:
            report = inputs.ProviderNeverReceived(reference, provider, version=1)
            self._timers.start_soon(self._report_unsent, report)

    async def _report_unsent(self, report: inputs.ProviderNeverReceived) -> None:
        """Report it again while there is no such payment: a commit in doubt may still be on its
        way."""
        until = trio.current_time() + IN_DOUBT_MAX_S
        attempt = 0
        while trio.current_time() < until:
            reply, _ = await self.record_input(lambda: report)
            if not isinstance(reply, Ignored):
                return

            attempt += 1
            await trio.sleep(_retry_delay_s(attempt, IN_DOUBT_DELAY_MAX_S))

    async def try_keep(self, hint: inputs.ProviderHinted) -> bool:
        """Keep a hint until the store has it, or return False where there is no room. What is on
        disk survives this process; where it cannot be written it is kept in memory, unless this
        process ends."""
        if self.kept_hints >= KEPT_HINTS_MAX:
            return False

        self.kept_hints += 1
        number = await self._write_hint(hint)

        # This process is ending: the next one records what is on disk.
        if self._conversations is None:
            self.kept_hints -= 1
            return number is not None

        self._conversations.start_soon(self._record_hint, hint, number)
        return True

    async def _write_hint(self, hint: inputs.ProviderHinted) -> int | None:
        """Return the number under which the hint is on disk; None where it is not."""
        if self.hint_file is None:
            return None
        try:
            return await self.hint_file.append(hint)
        except (OSError, ValueError) as error:
            logger.error("kept_hint_not_written", fault=describe_fault(error), once_a_minute=True)
            return None

    async def _record_hint(self, hint: inputs.ProviderHinted, number: int | None) -> None:
        try:
            await self.record_input(lambda: hint)
        finally:
            self.kept_hints -= 1

        if self.hint_file is None or number is None:
            return

        # One that stays on disk is recorded once more by the next process, which does no harm.
        try:
            await self.hint_file.conclude(number)
        except OSError as error:
            logger.error("kept_hint_not_removed", fault=describe_fault(error), once_a_minute=True)

    async def _record_kept_hints(self, file: HintFile) -> None:
        """Record what an earlier process has left on disk, as soon as that can be read."""
        while True:
            try:
                left = await file.load()
                break
            except OSError as error:
                logger.error("kept_hints_unreadable", fault=describe_fault(error))
                await trio.sleep(STORE_RETRY_DELAY_MAX_S)

        for number, hint in left:
            if self._conversations is not None:
                self.kept_hints += 1
                self._conversations.start_soon(self._record_hint, hint, number)

    async def wait_idle(self) -> None:
        """Return once the present work is finished, without waiting for later work."""
        # What is held waits for its provider, however long.
        held = {
            name for name, postponed in self._postponed.items() if self._hold(postponed) is not None
        }
        waited_for = self._claimed.keys() - held
        while not waited_for.isdisjoint(self._claimed):
            await self._conversation_finished.wait()

        await trio.lowlevel.checkpoint()

    @property
    def waiting(self) -> int:
        """Return how many submissions and polls wait, with those of payments that have ended."""
        return sum(len(queue.waiting) + len(queue.ended) for queue in self._queues.values())

    @property
    def active(self) -> int:
        """Return how many conversations are active."""
        return sum(queue.active for queue in self._queues.values())

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = DRAIN_GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run conversations until `drain` is set; then start none, and give the active ones
        `grace_s` seconds.

        Work that was not started stays in the store; cancelled submissions will be polled.
        """
        async with trio.open_nursery() as conversations:
            async with trio.open_nursery() as timers:
                self._conversations = conversations
                self._timers = timers
                for queue in self._queues.values():
                    self._start_conversations(queue)

                if self.hint_file is not None:
                    timers.start_soon(self._record_kept_hints, self.hint_file)

                task_status.started()
                try:
                    await drain.wait()
                finally:
                    # From here on no conversation begins, and what waits stays in the store.
                    self._conversations = self._timers = None
                    timers.cancel_scope.cancel()

            conversations.cancel_scope.deadline = trio.current_time() + grace_s

    def _take(self, queue: _ProviderQueue, work: WorkItem) -> None:
        if not isinstance(work.intent, PollEnded):
            self._claim(queue, work)
        elif self._may_poll_ended(work):
            queue.ended[work.intent.gateway_reference] = work
            self._start_conversations(queue)

    def _may_poll_ended(self, work: WorkItem) -> bool:
        """Return whether an ended payment may be polled now; otherwise it is polled once with its
        latest hint, later, or not at all while this process ends."""
        delay_s = self._ended_polls.delay_s(work, trio.current_time())
        if delay_s > 0 and self._timers:
            self._timers.start_soon(self._poll_ended_later, work.intent.gateway_reference, delay_s)
        return delay_s == 0

    async def _poll_ended_later(self, reference: str, delay_s: float) -> None:
        await trio.sleep(delay_s)
        work = self._ended_polls.waiting.pop(reference)
        self._take(self._queues[work.transaction.order.provider], work)

    async def _poll_ended_again(self, work: WorkItem, pause_s: float) -> None:
        """Repeat a question that had no answer, unless it was asked since."""
        reference = work.intent.gateway_reference
        attempts = self._unanswered.attempts(reference)
        await trio.sleep(pause_s)
        if self._unanswered.attempts(reference) != attempts:
            return
        if reference in self._claimed:
            self._claimed[reference] = self._claimed[reference] or work
        else:
            self._take(self._queues[work.transaction.order.provider], work)

    def _claim(self, queue: _ProviderQueue, work: WorkItem) -> None:
        reference = work.intent.gateway_reference
        self._claimed[reference] = None

        # None of its submissions has arrived, or it would not be submitted again.
        never_received = work.transaction.progress.submissions
        must_wait = isinstance(work.intent, SubmitToProvider) and (
            never_received or self._hold(work) is not None
        )
        if must_wait and self._timers:
            wait_s = 0.0
            if never_received:
                wait_s = _retry_delay_s(never_received, SUBMISSION_RETRY_DELAY_MAX_S)

            self._postponed[reference] = work
            self._timers.start_soon(self._enqueue_later, queue, work, wait_s)
        else:
            self._enqueue(queue, work)

    async def _enqueue_later(self, queue: _ProviderQueue, work: WorkItem, delay_s: float) -> None:
        await trio.sleep(delay_s)

        # While its provider refuses such payments, one at a time is tried. The others look from
        # time to time whether they are to be withheld by now.
        reference = work.intent.gateway_reference
        order = work.transaction.order
        while (hold := self._hold(work)) is not None:
            if await self.begin_trial(order.provider, order.type):
                self._tried.add(reference)
                break

            with trio.move_on_after(HOLD_CHECKED_EVERY_S):
                await hold.wait()

        # Unless a poll has taken its place meanwhile.
        if self._postponed.get(reference) is work:
            del self._postponed[reference]
            self._enqueue(queue, work)
        else:
            self._tried.discard(reference)

    def _enqueue(self, queue: _ProviderQueue, work: WorkItem) -> None:
        queue.waiting.append(work)
        self._start_conversations(queue)

    def _start_conversations(self, queue: _ProviderQueue) -> None:
        while self._conversations and queue.waiting and queue.active < self.conversations_max:
            queue.active += 1
            self._conversations.start_soon(self._handle, queue, queue.waiting.popleft())

        if self._conversations and queue.ended and not queue.is_polling_ended:
            queue.is_polling_ended = True
            self._conversations.start_soon(self._poll_ended, queue)

    async def _handle(self, queue: _ProviderQueue, work: WorkItem) -> None:
        with self._work_of(queue, work.transaction):
            if isinstance(work.intent, SubmitToProvider):
                await self._submit(queue, work)
            else:
                await self._poll(work)

    async def _poll_ended(self, queue: _ProviderQueue) -> None:
        """Poll the payments that have ended; what the provider reports goes to the suspense book
        (S5)."""
        while queue.ended and self._conversations:
            # Only while no submission and no poll waits that somebody waits for.
            if not queue.waiting:
                work = queue.ended.pop(next(iter(queue.ended)))
                queue.active += 1
                with self._work_of(queue, work.transaction):
                    await self._poll(work)

            await trio.sleep(ENDED_POLL_PAUSE_S)

        queue.is_polling_ended = False

    async def _handle_reserved(
        self, queue: _ProviderQueue, transaction: Transaction, began_at: float
    ) -> None:
        with self._work_of(queue, transaction):
            await self._send(transaction, began_at)

    @contextmanager
    def _work_of(self, queue: _ProviderQueue, transaction: Transaction) -> Iterator[None]:
        """Run a conversation within the block; then begin the next one."""
        reference = transaction.reference
        try:
            yield
        except Exception as error:
            fault, mark = describe_fault(error), simulated_mark(transaction.order)
            logger.error("provider_work_failed", reference=reference, fault=fault, **mark)
        finally:
            # What follows the work of a payment takes its turn behind the others.
            queue.active -= 1
            next_work = self._claimed.pop(reference, None)
            if next_work is not None:
                self._take(queue, next_work)

            self._start_conversations(queue)
            self._conversation_finished.set()
            self._conversation_finished = trio.Event()

    async def _submit(self, queue: _ProviderQueue, work: WorkItem) -> None:
        """Record the submission; if that was applied, run the conversation and report its result.

        An applied submission was certainly not started before: only this attempt may be repeated,
        and its time counts from when it may have been recorded first. A conversation whose time is
        over sends nothing, and says so."""
        # 1. A hold that has begun while this work waited: it follows itself, and is postponed.
        reference = work.intent.gateway_reference
        attempt = self._next_attempt()
        if self._hold(work) is not None:
            self._claimed[reference] = work
            return

        # 2. On record before anything is sent: after a crash the payment is polled, not sent again.
        self._tried.discard(reference)
        reply, began_at = await self.record_input(
            lambda: inputs.BeginSubmission(
                reference, self._withheld(work.transaction.order), attempt
            ),
            queue=queue,
        )

        # 3. Only where this attempt was applied: another process may have been quicker.
        if isinstance(reply, Applied) and reply.transaction.progress.stage is Stage.SUBMITTING:
            await self._send(reply.transaction, began_at)

    async def _send(self, transaction: Transaction, began_at: float) -> None:
        """Run the conversation of a submission that is on record, and report its result."""
        provider = self.providers[transaction.order.provider]
        self.counts[provider.name].submissions += 1
        if operation_key(transaction) in self._operations[provider.name]:
            conversation = provider.submit(transaction, now=self.moment())
        else:
            conversation = _refuse_operation(transaction)

        report = await self._converse(
            conversation, self.exchange_for(provider.name), transaction, began_at
        )
        await self._report(partial(self.record_input, lambda: report))

    def _withheld(self, order: Order) -> inputs.WithheldReason | None:
        """Return why this payment may not be sent; None when it may."""
        if self.is_closed(order.provider):
            return inputs.WithheldReason.PROVIDER_CLOSED
        if self.is_account_changed(order):
            return inputs.WithheldReason.ACCOUNT_CHANGED
        if self.moment().time >= resubmission_ends_at(order):
            return inputs.WithheldReason.TOO_LATE
        return None

    def _hold(self, work: WorkItem) -> trio.Event | None:
        """Return what holds back this submission; None where nothing does, it is the one that is
        tried, or it will be withheld anyway."""
        order = work.transaction.order
        if order.gateway_reference in self._tried or self._withheld(order):
            return None
        return self.hold_of(order.provider, order.type)

    async def _poll(self, work: WorkItem) -> None:
        work = self._unanswered.complete(work)
        provider = self.providers[work.transaction.order.provider]
        self.counts[provider.name].polls += 1
        now = self.moment()
        began_at = trio.current_time()
        name = provider.name

        # Three ways: nobody can be asked, the payer has come back and the payment is to be
        # committed, or the provider is asked.
        order = work.transaction.order
        is_changed = self.is_account_changed(order)
        if is_changed and not order.is_simulated:
            conversation = _ask_nobody(work.transaction)
            exchange = self.ask_for(name)
        elif not is_changed and may_commit(provider, work.transaction, now=now):
            # It moves money.
            conversation = provider.commit(work.transaction, now=now)
            exchange = self.exchange_for(name)
        else:
            conversation = provider.poll(_with_hint(work), now=now)
            exchange = self.ask_for(name)

        report = await self._converse(conversation, exchange, work.transaction, began_at)
        if isinstance(work.intent, PollEnded):
            await self._report(partial(self._conclude_poll, report, work))
        else:
            await self._report(partial(self.record_input, lambda: report))

    def is_account_changed(self, order: Order) -> bool:
        """Tell whether its account is simulated and was not when the payment was accepted, or the
        other way round. What a simulation says is of other payments; an account by which money
        moves may be asked, as it may only have been taken for a simulation."""
        return order.is_simulated is not (order.provider in self.simulated_providers)

    async def _converse(
        self, conversation: Conversation, exchange: SendRequest, about: Transaction, began_at: float
    ) -> inputs.ProviderReport:
        provider = self.providers[about.order.provider]
        counts = self.counts[provider.name]
        deadline = began_at + CONVERSATION_TIMEOUT_S
        report = await run_conversation(conversation, exchange, about, deadline, counts)

        # What adapters need not know: the version that was asked about, when to ask next, and which
        # addresses a payer may be sent to.
        report = with_version(report, about.progress.version)
        report = with_poll_interval(report, self._operations[provider.name], about)
        report = without_refused_url(report, provider)
        counts.reports[REPORT_LABELS[type(report)]] += 1
        if isinstance(report, inputs.ProviderUnreachable) and not report.is_answered_later:
            subject = about.reference
            logger.warning(
                "provider_unreachable",
                provider=provider.name,
                reference=subject,
                reason=report.reason,
                **simulated_mark(about.order),
            )

        return report

    async def _report(self, record: Callable[..., Awaitable[object]]) -> None:
        """Record a report. One that cannot be decided is repeated beside the conversations, however
        long: no report is lost while this process lives, and its payment is polled meanwhile."""
        try:
            await record(tries_max=TRIES_IN_PLACE)
        except Exception:
            # While this process ends there is nothing beside the conversations.
            if self._conversations is None:
                await record()
            else:
                self._conversations.start_soon(record)

    async def _conclude_poll(
        self,
        report: inputs.ProviderReport,
        work: WorkItem,
        *,
        tries_max: float = math.inf,
    ) -> None:
        """Record the report about a payment that has ended, and that it was asked about unless it
        is asked again: only an answer about the payment ends the questions, or that none has come
        for days, and then staff have to ask."""
        intent = work.intent
        assert isinstance(intent, PollEnded)
        reference = intent.gateway_reference

        # 1. What the provider said.
        await self.record_input(lambda: report, tries_max=tries_max)

        # 2. Whether that answers the question; if not, how long until it is asked once more.
        is_answered = answers_ended_poll(report, intent.hint)
        pause_s: float | None = None
        concluded = inputs.EndedPollConcluded(
            reference, not is_answered, intent.hint, intent.provider_reference
        )
        if is_answered:
            self._unanswered.discard(reference)
        else:
            # No further question can tell what the provider cannot.
            pause_s = self._unanswered.add(work, self.moment().time)
            if isinstance(report, inputs.ProviderCannotTell):
                pause_s = None

        # 3. The intent is removed unless somebody asks again: it outlives this process.
        if self._is_asked_again(report.provider, reference):
            return

        if pause_s is None:
            await self.record_input(lambda: concluded, tries_max=tries_max)
            self._unanswered.discard(reference)
        elif self._timers:
            self._timers.start_soon(self._poll_ended_again, work, pause_s)

    def _is_asked_again(self, provider: str, reference: str) -> bool:
        """Tell whether a further question about a payment that has ended waits."""
        return (
            reference in self._queues[provider].ended
            or self._claimed.get(reference) is not None
            or reference in self._ended_polls.waiting
        )

    async def record_input(
        self,
        input_: Callable[[], inputs.Input],
        *,
        queue: _ProviderQueue | None = None,
        tries_max: float = math.inf,
    ) -> tuple[Reply, float]:
        """Submit an input to the engine, again and again until it is decided: to repeat one whose
        outcome is unknown does no harm. Raises the error of an input that could not be decided so
        many times, whatever the store does.

        `queue`: that of the conversation, which leaves its place to others while its input cannot
        be decided.

        Returns the reply, and Trio's time from which on the input may be on record.
        """
        attempt = 0
        faults = 0
        in_doubt_since = math.inf
        while True:
            # The time of a submission counts from the first attempt that may be on record.
            began_at = min(in_doubt_since, trio.current_time())
            made = input_()
            try:
                return await self.submit(made), began_at
            except Exception as error:
                log_store_failure(
                    logger, "provider_input_store_failed", error, input=type(made).__name__
                )
                if not isinstance(error, StoreUnavailable):
                    in_doubt_since = began_at

                # An outage of the store is no fault of the input, however long it lasts.
                is_fault = not isinstance(error, StoreUnavailable | OutcomeUnknown)
                attempt += 1
                faults += is_fault
                if faults >= tries_max:
                    raise

            delay_max_s = STORE_RETRY_DELAY_MAX_S
            if is_fault:
                delay_max_s = SUBMISSION_RETRY_DELAY_MAX_S

            place: AbstractContextManager[None] = nullcontext()
            if queue is not None and faults >= TRIES_IN_PLACE:
                place = self._place_left(queue)

            with place:
                await trio.sleep(_retry_delay_s(attempt, delay_max_s))

    @contextmanager
    def _place_left(self, queue: _ProviderQueue) -> Iterator[None]:
        """Let another conversation begin while the block lasts."""
        queue.active -= 1
        self._start_conversations(queue)
        try:
            yield
        finally:
            queue.active += 1


async def run_conversation(
    conversation: Conversation,
    exchange: SendRequest,
    transaction: Transaction,
    deadline: float,
    counts: ProviderCounts,
) -> inputs.ProviderReport:
    """Run a conversation about a transaction. Whatever happens, it ends in a report; after the
    deadline, by Trio's clock, nothing more is sent."""
    try:
        return await drive_by_deadline(conversation, exchange, deadline, counts)
    except Exception as fault:
        name, reference = transaction.order.provider, transaction.reference
        log = logger.bind(provider=name, reference=reference, **simulated_mark(transaction.order))
        log.error("provider_conversation_failed", fault=describe_fault(fault))
        return inputs.ProviderUnreachable(
            reference, name, f"A fault of ours: {type(fault).__name__}."
        )


async def drive_by_deadline(
    conversation: Generator[HttpRequest, HttpResponse, ResultT],
    exchange: SendRequest,
    deadline: float,
    counts: ProviderCounts,
) -> ResultT:
    """Run a conversation to its end, count its exchanges, and return its result; after the
    deadline, by Trio's clock, nothing more is sent. Raises what the conversation raises."""

    async def exchange_and_count(request: HttpRequest) -> HttpResponse:
        began = trio.current_time()
        try:
            answer = await _exchange_by_deadline(deadline, exchange, request)
        except ExchangeFailed:
            counts.failed_exchanges += 1
            counts.exchange_durations.observe(trio.current_time() - began)
            raise

        counts.exchange_durations.observe(trio.current_time() - began)
        return answer

    return await drive_async(conversation, exchange_and_count)


async def _exchange_by_deadline(
    deadline: float, exchange: SendRequest, request: HttpRequest
) -> HttpResponse:
    """Return the answer if it arrives by the deadline; an unsent request is not sent after it."""
    if trio.current_time() >= deadline:
        raise ExchangeFailed("Its time was over before it was sent.", may_have_arrived=False)

    with trio.move_on_at(deadline):
        return await exchange(request)

    # It may have left: to submit once more could pay twice (S6).
    raise ExchangeFailed("No answer came in time.", may_have_arrived=True)


def _refuse_operation(transaction: Transaction) -> Conversation:
    """Report that the account does not offer the operation, though a brand's method lists it: an
    adapter that is never asked for it can't mistake a pay-out for a pay-in."""
    yield from ()
    about = PaymentReports(transaction, transaction.order.provider)
    return about.failed(ErrorCode.MERCHANT_MISCONFIGURED)


def _ask_nobody(transaction: Transaction) -> Conversation:
    """Report that nothing is known of a payment whose account has become a simulation."""
    yield from ()
    return inputs.ProviderUnreachable(
        transaction.reference,
        transaction.order.provider,
        "The account is simulated now and was not when the payment was accepted: see base_url and "
        "production.",
    )


def _retry_delay_s(attempts: int, max_s: float) -> float:
    """Return the delay after this many failed attempts, at least one."""
    return float(min(RETRY_DELAY_S * 2 ** min(attempts - 1, 16), max_s))


def _with_hint(work: WorkItem) -> Transaction:
    """Return the transaction to poll, with the hint or the provider's id that caused the poll."""
    about, intent = work.transaction, work.intent
    if not isinstance(intent, PollEnded):
        return about

    # What the notification said: it may name a payment that the provider has not confirmed yet.
    hint = intent.hint or about.progress.hint
    known = intent.provider_reference or about.progress.provider_reference
    return evolve(about, progress=evolve(about.progress, hint=hint, provider_reference=known))


@frozen
class PaymentCreator:
    """Passes creations to the engine, and submits them at once where that is possible."""

    submit: Callable[[inputs.CreatePayment, Sender], Awaitable[Reply]]
    worker: ProviderWorker

    def create(self, input_: inputs.CreatePayment, sender: Sender) -> Awaitable[Reply]:
        """Return the reply to a creation once it is durable, and begin its submission where a
        conversation is free. Raises what `Engine.submit` does."""
        provider = _provider_of(input_)
        if provider is None:
            return self.submit(input_, sender)
        return self._create_and_send(input_, provider, sender)

    async def _create_and_send(
        self, input_: inputs.CreatePayment, provider: str, sender: Sender
    ) -> Reply:
        # Without a free conversation the payment waits for its turn, as all others.
        reference = input_.gateway_reference
        operation = input_.draft.operation
        if not self.worker.try_reserve(reference, provider, (operation.type, operation.flow)):
            return await self.submit(input_, sender)

        try:
            reply = await self.submit(evolve(input_, reserved_provider=provider), sender)
        except StoreUnavailable:
            # Nothing is stored of it.
            raise
        except BaseException:
            # It may be durable, with its submission on record, and nothing was sent.
            self.worker.report_unsent(reference, provider)
            raise
        else:
            if isinstance(reply, Accepted) and reply.submitted is not None:
                self.worker.send_reserved(reply.submitted)

            return reply
        finally:
            self.worker.release(reference, provider)


def _provider_of(input_: inputs.CreatePayment) -> str | None:
    """Return the provider that the payment is sent to at once; None when its payer is to act first,
    or the brand does not have its method."""
    draft = input_.draft
    if draft.operation is Operation.WEB_PAYIN:
        return None

    for method in input_.brand.methods:
        if (
            method.key == draft.method
            and method.country == draft.country
            and draft.operation in method.operations
        ):
            return method.provider

    return None
