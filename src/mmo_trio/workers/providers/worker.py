"""Holds conversations with providers: submits payments, asks what became of them, and reports what was learnt.

Before a request that may move money leaves, the engine has to have put on record that it will (`Applied`). A payment is
in one conversation at a time. A conversation ends before the law loses patience with it, and nothing is sent once its
time is over: a process that was stopped and goes on must not send what has been asked about meanwhile (S6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import structlog
import trio
from attrs import Factory, define, evolve, field

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    Input,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderUnreachable,
)
from mmo_sansio.messages.intents import PollProvider, SubmitToProvider
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.providers.common.interface import Conversation, Provider
from mmo_sansio.providers.common.operations import resubmission_ends_at, with_poll_interval
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction
from mmo_trio.engine.engine import Submit
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.providers.conversation import (
    CONVERSATION_TIMEOUT_S,
    SendRequest,
    run_conversation,
)
from mmo_trio.workers.providers.counters import (
    REPORT_LABELS,
    UNREACHABLE_LABEL,
    ProviderCounts,
    ProviderStatistics,
)

logger = structlog.get_logger(__name__)

CONVERSATIONS_MAX = 256
"""Conversations with one provider at one time: enough to fill the engine's batches, and a slow provider delays none
but its own payments."""

WAITING_MAX = 10_000
"""Payments that may wait for a conversation with one provider."""

DRAIN_GRACE_S = 20.0
"""How long conversations under way may take once the worker drains."""

RETRY_DELAY_S = 0.5
"""How long to wait before something is tried again; twice as long each time."""

STORE_RETRY_DELAY_MAX_S = 15.0
"""The longest wait for a store that can't serve."""

SUBMISSION_RETRY_DELAY_MAX_S = 300.0
"""The longest wait before a payment that certainly didn't reach its provider is submitted again: each time costs a few
lines in its journal."""


@define(eq=False)
class _ProviderQueue:
    """The conversations with one provider."""

    waiting: deque[WorkItem] = Factory(deque)
    active: int = 0


@define(eq=False)
class ProviderWorker:
    """Takes intents to submit and to ask, from any number of callers."""

    submit: Submit
    providers: Mapping[str, Provider]
    exchange_for: Callable[[str], SendRequest]
    """How the provider with this name is reached."""
    now: Callable[[], Instant]
    conversations_max: int = CONVERSATIONS_MAX
    waiting_max: int = WAITING_MAX
    is_closed: Callable[[str], bool] = lambda _: False
    """Whether a person has closed the provider with this name for new payments."""
    _conversations: trio.Nursery | None = None
    """For conversations; None while none may begin."""
    _timers: trio.Nursery | None = None
    """For submissions that wait for their time."""
    _queues: dict[str, _ProviderQueue] = Factory(dict)
    _claimed: dict[str, WorkItem | None] = Factory(dict)
    """By gatewayReference: taken and not finished, with the submission that shall follow."""
    _never_received_in_a_row: dict[str, int] = Factory(dict)
    """How often in a row a submission certainly didn't reach its provider."""
    _conversation_finished: trio.Event = Factory(trio.Event)
    """Set, and replaced, whenever something is finished."""
    _counts: dict[str, ProviderCounts] = field(init=False)
    _dropped_polls: int = 0

    def __attrs_post_init__(self) -> None:
        self._counts = {name: ProviderCounts() for name in self.providers}

    def try_enqueue(self, work: WorkItem) -> bool:
        """Take this on; False when there is no room, and then the caller keeps it.

        A question about a payment that is in hand is dropped, as is one without room: it will be asked again. A
        submission of a payment in hand follows when that is finished, as the law may want one because of it.
        """
        is_question = isinstance(work.intent, PollProvider)
        reference = work.intent.gateway_reference
        if reference in self._claimed:
            if not is_question:
                self._claimed[reference] = work
            return True
        provider = work.transaction.order.provider
        if provider not in self.providers:
            logger.error("provider_not_configured", provider=provider, reference=reference)
            return True
        lane = self._queues.setdefault(provider, _ProviderQueue())
        if len(lane.waiting) >= self.waiting_max:
            self._dropped_polls += is_question
            return is_question
        self._claim(lane, work)
        return True

    def has_room(self) -> bool:
        """Whether more can be taken on for every provider."""
        return all(len(lane.waiting) < self.waiting_max for lane in self._queues.values())

    async def wait_idle(self) -> None:
        """Return once what is in hand now is finished; what is taken on meanwhile isn't waited for."""
        waited_for = frozenset(self._claimed)
        while not waited_for.isdisjoint(self._claimed):
            await self._conversation_finished.wait()
        await trio.lowlevel.checkpoint()

    def statistics(self) -> ProviderStatistics:
        """What it is doing now and has done so far."""
        lanes, counts = self._queues.values(), self._counts.values()
        return ProviderStatistics(
            active=sum(lane.active for lane in lanes),
            waiting=sum(len(lane.waiting) for lane in lanes),
            submissions=sum(each.submissions for each in counts),
            polls=sum(each.polls for each in counts),
            unreachable=sum(each.reports[UNREACHABLE_LABEL] for each in counts),
            dropped_polls=self._dropped_polls,
            by_provider=self._counts,
        )

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = DRAIN_GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hold conversations until `drain` is set; then begin none, and leave those under way this many seconds.

        What was not begun is kept by the store; what was cut off will be asked about.
        """
        async with trio.open_nursery() as talks:
            async with trio.open_nursery() as timers:
                self._conversations, self._timers = talks, timers
                for lane in self._queues.values():
                    self._start_conversations(lane)
                task_status.started()
                try:
                    await drain.wait()
                finally:
                    self._conversations = self._timers = None
                    timers.cancel_scope.cancel()
            talks.cancel_scope.deadline = trio.current_time() + grace_s

    def _claim(self, queue: _ProviderQueue, work: WorkItem) -> None:
        reference = work.intent.gateway_reference
        self._claimed[reference] = None
        setbacks = self._never_received_in_a_row.get(reference, 0)
        if setbacks and self._timers and isinstance(work.intent, SubmitToProvider):
            wait_s = _retry_delay_s(setbacks, SUBMISSION_RETRY_DELAY_MAX_S)
            self._timers.start_soon(self._enqueue_later, queue, work, wait_s)
        else:
            self._enqueue(queue, work)

    async def _enqueue_later(self, queue: _ProviderQueue, work: WorkItem, delay_s: float) -> None:
        await trio.sleep(delay_s)
        self._enqueue(queue, work)

    def _enqueue(self, queue: _ProviderQueue, work: WorkItem) -> None:
        queue.waiting.append(work)
        self._start_conversations(queue)

    def _start_conversations(self, queue: _ProviderQueue) -> None:
        while self._conversations and queue.waiting and queue.active < self.conversations_max:
            queue.active += 1
            self._conversations.start_soon(self._handle, queue, queue.waiting.popleft())

    async def _handle(self, queue: _ProviderQueue, work: WorkItem) -> None:
        reference = work.intent.gateway_reference
        try:
            if isinstance(work.intent, SubmitToProvider):
                await self._submit(work)
            else:
                await self._poll(work)
        except Exception as error:
            logger.error("provider_work_failed", reference=reference, fault=describe_fault(error))
        finally:
            queue.active -= 1
            follows = self._claimed.pop(reference, None)
            if follows is not None:
                self._claim(queue, follows)
            self._start_conversations(queue)
            self._conversation_finished.set()
            self._conversation_finished = trio.Event()

    async def _submit(self, work: WorkItem) -> None:
        """Put the submission on record; only if that was noted, hold the conversation and report its end.

        What was noted has certainly not been taken before; with a provider that is closed, or when its time is over, it
        ends here.
        """
        reference = work.intent.gateway_reference
        reply, told_at = await self._record_input(BeginSubmission(reference))
        if not isinstance(reply, Applied):
            self._never_received_in_a_row.pop(reference, None)
            return
        transaction = reply.transaction
        provider = self.providers[transaction.order.provider]
        if self.is_closed(provider.name) or self.now() >= resubmission_ends_at(transaction.order):
            await self._record_input(
                ProviderFailed(
                    reference, provider.name, Source.POLL, ErrorCode.PROVIDER_UNAVAILABLE
                )
            )
            return
        self._counts[provider.name].submissions += 1
        conversation = provider.submit(transaction, now=self.now())
        exchange = self.exchange_for(provider.name)
        await self._converse_and_report(
            conversation, exchange, transaction, told_at + CONVERSATION_TIMEOUT_S
        )

    async def _poll(self, work: WorkItem) -> None:
        provider = self.providers[work.transaction.order.provider]
        self._counts[provider.name].polls += 1
        conversation = provider.poll(_with_hint(work), now=self.now())
        deadline = trio.current_time() + CONVERSATION_TIMEOUT_S
        exchange = self.exchange_for(provider.name)
        await self._converse_and_report(conversation, exchange, work.transaction, deadline)

    async def _converse_and_report(
        self,
        conversation: Conversation,
        exchange: SendRequest,
        transaction: Transaction,
        deadline: float,
    ) -> None:
        """Hold the conversation and tell the engine what it came to."""
        counts = self._counts[transaction.order.provider]
        report = await run_conversation(conversation, exchange, transaction, deadline, counts)
        report = with_poll_interval(
            report, self.providers[transaction.order.provider].operations, transaction
        )
        counts.reports[REPORT_LABELS[type(report)]] += 1
        match report:
            case ProviderNeverReceived():
                self._never_received_in_a_row[transaction.reference] = (
                    self._never_received_in_a_row.get(transaction.reference, 0) + 1
                )
            case ProviderUnreachable(_, name, reason):
                logger.warning(
                    "provider_unreachable",
                    provider=name,
                    reference=transaction.reference,
                    reason=reason,
                )
            case _:
                self._never_received_in_a_row.pop(transaction.reference, None)
        await self._record_input(report)

    async def _record_input(self, input_: Input) -> tuple[Reply, float]:
        """Tell the engine, again and again while the store can't serve: a report isn't lost while this process lives.
        Telling twice is harmless, which is why an unknown outcome is told again too.

        The reply, and Trio's time when the telling that it answers began.
        """
        attempt = 0
        while True:
            told_at = trio.current_time()
            try:
                return await self.submit(input_), told_at
            except (StoreUnavailable, OutcomeUnknown) as error:
                attempt += 1
                logger.warning(
                    "provider_input_store_failed", given=type(input_).__name__, error=str(error)
                )
                await trio.sleep(_retry_delay_s(attempt, STORE_RETRY_DELAY_MAX_S))


def _retry_delay_s(attempts: int, max_s: float) -> float:
    """How long to wait after this many attempts in vain, at least one."""
    return float(min(RETRY_DELAY_S * 2 ** min(attempts - 1, 16), max_s))


def _with_hint(work: WorkItem) -> Transaction:
    """The payment that a question is about, with what was told that makes us ask."""
    about, intent = work.transaction, work.intent
    if not isinstance(intent, PollProvider) or intent.hint is None:
        return about
    return evolve(about, progress=evolve(about.progress, hint=intent.hint))
